"""The ledger's protocol, searched: the usual run takes a slice, `python -m tests.model.ledger_search` everything."""

import pytest

from tests.model.ledger_model import Bug, Core, Script, unfinished, violation
from tests.model.ledger_search import PLAIN, REPLAYED, SHORT, Search, find

#: Each of these must happen somewhere, or the search proves nothing.
MUST_HAPPEN = {
    "crash",
    "end job, reply lost",
    "fenced off",
    "lose race",
    "removed, delivered again",
    "replay",
    "tick: finish",
    "tick: outbox",
    "write, reply lost",
}


@pytest.mark.ci("a model above 25,000 states")
def test_no_order_of_requests_loses_or_doubles_anything():
    """Three workers on a job of two chunks, two crashes or lost replies, and messages that come twice: all states."""
    found = Search((PLAIN,), workers=3, faults=2, duplicates=1).run()
    assert (found.problem, found.is_complete) == ("", True)
    assert found.states > 200_000


def test_a_replay_is_counted_and_published_once():
    """Two workers, one crash, and a chunk that is parked and replayed at any moment: all states."""
    found = Search((REPLAYED,), workers=2, faults=1, duplicates=0).run()
    assert (found.problem, found.is_complete) == ("", True)


@pytest.mark.ci("a model above 25,000 states")
def test_two_jobs_do_not_disturb_each_other():
    """Three workers on two jobs: a slice of what the whole search visits."""
    found = Search((SHORT, SHORT), workers=3, faults=2, duplicates=1, most_states=200_000).run()
    assert found.problem == ""


@pytest.mark.ci("a model above 25,000 states")
def test_everything_that_could_happen_did():
    """Races, fences, lost replies, ticks and replays are all among the states."""
    found = Search((REPLAYED,), workers=2, faults=1, duplicates=1, most_states=400_000).run()
    assert found.problem == ""
    assert MUST_HAPPEN - found.labels == set()


@pytest.mark.parametrize("bug", list(Bug))
def test_a_seeded_bug_is_found(bug):
    """A search that finds nothing wrong proves nothing, unless it finds what is wrong."""
    found = find(bug)
    assert found.problem
    assert len(found.trace) > 1


def test_the_checks_object_to_states_that_are_wrong():
    """Each invariant is shown a state that breaks it."""
    start = Script(1, ((0, "done"),)).start()
    assert violation(SHORT, start) == ""
    assert "counts 1 done" in violation(SHORT, start._replace(core=Core(done=1)))
    assert "not the sum" in violation(SHORT, start._replace(core=Core(accepted_items=1)))
    assert "never counted" in unfinished(start)
