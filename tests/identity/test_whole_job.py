"""A whole job by login: every request that any stage makes of storage passes with a token and without a key."""

import pytest

from shared.azure.connection_settings import STORAGE_CONNECTION, STORAGE_SERVICES, find
from shared.ledger.records import JobState
from tests.pipeline.whole_app import WholeApp


@pytest.mark.usefixtures("trusting")
def test_a_job_runs_to_its_end_without_a_key(settings, identity):
    """Accepted, dispatched, processed, settled, finished, and a tick; storage has heard of one identity only."""
    app = WholeApp(find(STORAGE_CONNECTION, STORAGE_SERVICES, settings).connection)
    with app.metered, app.others:
        job, requests = app.run("by-login", 6)
        app.app.tick()
    assert (job.state, job.chunks) == (JobState.COMPLETE, 6)
    assert requests > 40
    assert {one["client_id"] for one in identity.asked} == {"the-apps-own"}
