"""The meter against the emulator's own log of requests: a whole job and a sweep, request for request."""

from collections import Counter

import pytest

from shared.azure.meter import BUS, TABLE
from shared.ledger.records import JobState
from shared.topology import topology
from tests.benchmarks.request_log import between_marks, kinds, mark
from tests.pipeline.whole_app import WholeApp
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision


@pytest.fixture
def logging_azurite():
    """Azurite that logs every request, with everything that the app needs."""
    with Azurite.start(is_logging=True) as azurite:
        provision(azurite.connection_string, topology())
        yield azurite


def test_what_the_meter_counts_is_what_the_emulator_was_asked(logging_azurite):
    """Equal in every kind of request. The one thing that the log does not say is which table a batch was for."""
    mark(logging_azurite.connection_string, "begin-here")
    app = WholeApp(logging_azurite.connection_string)
    with app.metered, app.others:
        job, _ = app.run("metered", 20)
        app.app.tick()
        counted = _as_logged(app.metered.meter.tally.counts()) + _as_logged(app.others.meter.tally.counts())
    mark(logging_azurite.connection_string, "end-here")
    logged = kinds(between_marks(logging_azurite.log, "begin-here", "end-here"))
    assert job.state is JobState.COMPLETE
    assert {kind.service for kind in logged} == {"blob", "queue", "table"}
    assert logged.total() > 100
    assert counted - logged == Counter()
    assert logged - counted == Counter()


def _as_logged(counts):
    found = Counter()
    for (kind, _), number in counts.items():
        if kind.service != BUS:
            is_batch = (kind.service, kind.operation) == (TABLE, "EntityGroupTransaction")
            found[kind._replace(entity="") if is_batch else kind] += number
    return found
