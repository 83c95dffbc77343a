"""The requests that the model counts, beside those that the whole app makes."""

from itertools import pairwise

import pytest

from shared.usage import take_counts
from shared.usage.month import CHUNKS_OF_A_GROUP
from tests.faults.world import SETTINGS
from tests.pipeline.whole_app import running_app
from tools.planning.capacity_bill import count_requests
from tools.planning.load import Load
from tools.planning.measured import constants

#: The test's publisher and host are other clients: these are not the app's.
OF_A_PUBLISHER = 2


@pytest.fixture
def app():
    """An app on an Azurite of its own."""
    # As many at once as the model assumes: each group is a blob and a transaction.
    with running_app(settles_at_once=CHUNKS_OF_A_GROUP) as made:
        yield made


def counted(job, accounts):
    """Return what the model counts for the app alone."""
    load = Load(transactions=job.items, chunk_items=-(-job.items // job.chunks), accounts=accounts)
    of_the_host = sum(n for charge, n in take_counts(job.chunks).items() if charge.meter == "queue")
    return count_requests(load, constants()).storage - of_the_host - OF_A_PUBLISHER


def test_the_model_counts_what_the_app_requests(app):
    """Within a tenth for jobs of many chunks that need not wait, and never fewer by more; the same for each further chunk."""
    app.run("warm", 3)
    found = [(job, made, counted(job, accounts=2)) for job, made in (app.run(f"of-{n}", n) for n in (10, 40, 60))]
    for job, made, wanted in found:
        assert wanted == pytest.approx(made, rel=0.25 if job.chunks < 50 else 0.1)
    for (less, made, wanted), (more, made_then, wanted_then) in pairwise(found):
        chunks = more.chunks - less.chunks
        assert (wanted_then - wanted) / chunks == pytest.approx((made_then - made) / chunks, rel=0.1)


def test_the_retention_that_the_model_counts_is_what_ticks_request(app):
    """For a job of any size; the own queries of the two ticks are not the job's."""
    for number, name in ((3, "small"), (90, "large")):
        job, _ = app.run(name, number)
        app.clock.advance(days=SETTINGS.retention.days)
        app.app.tick()
        before = app.made()
        app.clock.advance(days=SETTINGS.retention.days)
        app.app.tick()
        # What a late settler left goes a day later.
        app.clock.advance(days=1)
        app.app.tick()
        made, before = app.made() - before, app.made()
        app.clock.advance(days=1)
        app.app.tick()
        made -= 2 * (app.made() - before)
        load = Load(transactions=job.items, chunk_items=-(-job.items // job.chunks), accounts=2)
        assert count_requests(load, constants()).buried == pytest.approx(made, abs=1), name
