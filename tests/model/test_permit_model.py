"""Every interleaving of the permits' protocol, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.permit_model import (
    HELD,
    RECEIVE,
    WORK,
    Drained,
    Rules,
    Scope,
    first_state,
    harm,
    search,
)

WHOLE = Scope()
BY_SIGNAL = Scope(messages=2, by_signal=True)

#: The bug, the scope that shows it, and what it does.
BUGS = {
    "a permit is believed to be the only one of its slot": ("leases_the_slot", WHOLE, "over"),
    "a permit is believed to be within the cap": ("asks_what_its_slot_may_run", WHOLE, "over"),
    "a holder goes on when its lease may have ended": ("stops_in_time", WHOLE, "over"),
    "a drain waits for more": ("gives_up_at_an_empty_receive", WHOLE, "polls"),
    "a message is deleted before its work": ("deletes_after_the_work", WHOLE, "stuck"),
    "the tick trusts that every signal comes": ("tick_tops_up", WHOLE, "stuck"),
    "nobody looks again after the release": ("looks_again", BY_SIGNAL, "slow"),
    "the last look is before the release": ("looks_after_the_release", BY_SIGNAL, "slow"),
    "permits are sent before the put": ("wakes_after_the_put", BY_SIGNAL, "slow"),
    "the slots are listed before the put": ("lists_after_the_put", BY_SIGNAL, "slow"),
    "the next permit is sent before the release": ("releases_before_it_hands_over", BY_SIGNAL, "slow"),
}


def test_no_interleaving_exceeds_the_cap_polls_or_leaves_work_behind():
    """Three messages, three drains that begin with any permit and end at any time: every state is searched."""
    found = search(WHOLE)
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little; docs/dequeue.md says how much this one reaches.
    assert found.states > 10_000


def test_with_every_signal_nothing_waits_for_the_tick():
    """Where nobody ends early and each signal comes once or twice, all work is done without a tick."""
    found = search(BY_SIGNAL)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 10_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, expected = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == expected
    assert len(found.way) > 1


def test_the_checks_object_to_a_world_that_is_wrong():
    """Each check fails on a state that was made to violate it, and passes its healthy twin."""
    start = first_state(BY_SIGNAL)
    done = start._replace(dispatch=(0, 0, ()))
    running = Drained(RECEIVE, 0, owns=True)
    three = start._replace(drains=(running, running, Drained(WORK, 1)), leases=(HELD, HELD, "free"), put=1)
    cases = {
        "": [start, done, three._replace(drains=(running, Drained(WORK, 1), Drained()))],
        "over": [three],
        "polls": [start._replace(drains=(running._replace(empties=2), Drained(), Drained()))],
        "stuck": [done._replace(put=1)],
        "slow": [done._replace(put=1, visible=1)],
    }
    for expected, states in cases.items():
        assert [harm(Rules(), BY_SIGNAL, state) for state in states] == [expected] * len(states)
