"""States that a run passed through are seen by what was asked and answered in it, and not where they were not."""

import pytest

from tests.faults import campaign
from tests.faults.plan import Fault

#: What is seen of a run without a fault, by its scenario: it is the same each time.
_without_fault = {}


@pytest.fixture
def seen(shortcuts, in_memory):
    """A function that returns what is seen of a run with a fault at such a request, or of one without."""
    storages = campaign.MemoryStorages()

    def run(name, stage="", begin="", mode=""):
        if not mode:
            if name not in _without_fault:
                _without_fault[name] = campaign.run(campaign.BY_NAME[name], storages, []).seen
            return _without_fault[name]
        places = [
            at for at, (where, site) in enumerate(in_memory[name], 1) if where == stage and site.startswith(begin)
        ]
        return campaign.run(campaign.BY_NAME[name], storages, [Fault(places[0], mode)]).seen

    return run


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (("process", "process", "SEND results", "kill_before"), "a process ended before a request"),
        (("process, the bus refuses", "process", "PUT results", "reset_after"), "a result was stored that was there"),
        (
            ("settle and finish", "settle", "PUT results", "reset_after"),
            "results were written together that were there",
        ),
        (
            ("accept, gate open", "accept", "PUT ids/transactions", "reset_after"),
            "a request that was repeated was refused by its own first sending",
        ),
        (
            ("settle and finish", "settle", "POST $batch", "503_after"),
            "a table transaction took effect and its reply was lost",
        ),
        (
            ("settle and finish", "settle", "PUT pending", "hang_then_timeout"),
            "a request took effect after its sender had given up",
        ),
        (
            ("settle and finish", "finish", "PUT outputs", "hang_then_timeout"),
            "a request that came too late was refused",
        ),
        (("process", "host", "DELETE work-00", "kill_before"), "a work or submission message was delivered again"),
        (("settle and finish", "finish", "SEND job-events", "reset_before"), "the tick announced a completion"),
        (("sell seats", "host", "COMPLETE", "kill_before"), "a message of the bus was delivered again"),
        (
            ("sell seats", "host", "COMPLETE", "kill_before"),
            "a home's events were sent again by a message that came again",
        ),
        (
            ("project orders and conferences", "project", "POST $batch", "reset_after"),
            "a row of a view was written that others had written",
        ),
    ],
)
def test_a_state_is_seen_where_a_fault_leads_to_it(seen, run, state):
    """With the fault it is seen, without it it is not."""
    assert state in seen(*run)
    assert state not in seen(run[0])


def test_states_that_need_no_fault_are_seen(seen):
    """A host that gives up leads to them by itself."""
    assert {"the host gave a message up", "the tick parked what a host had given up"} <= seen("host gives up, drain")
    assert "a stored result was told again, and its chunk was not run" in seen("process, the bus refuses")
    assert "a chunk was computed again" in seen("process, then the bus loses all")
    assert "a chunk was computed again" not in seen("process, the bus refuses")
    assert "a home's events were sent by the tick" in seen("tick after a process reached no bus")
