"""Every interleaving of the gate's state machine, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from shared.gate.state import Reading
from tests.model.gate_model import DONE, FINISHED, Entry, Rules, Scope, State, is_slow, is_stuck, search

WHOLE = Scope(keepers=3, releasers=2)
SMALL = Scope(keepers=2, releasers=1)
TWO_PULSES = Scope(scripts=(("open", "close"),) * 2, keepers=1, releasers=1)
BY_SIGNAL = Scope(keepers=2, releasers=2, by_signal=True)

#: The bug, the smallest scope that shows it, and what it does.
BUGS = {
    "the keeper does not read again": ("keeper_reads_again", BY_SIGNAL, "slow"),
    "the row carries the epoch at the time of writing": ("row_has_the_epoch_of_the_reading", SMALL, "stuck"),
    "redelivery writes the row anew": ("first_row_stands", SMALL, "stuck"),
    "the tick serves only gates that are open": ("level_triggered", SMALL, "stuck"),
    "the row is deleted before the message is put": ("put_before_delete", SMALL, "stuck"),
    "the signal is believed": ("reads_the_flag", SMALL, "early"),
    "an old reading that says open is believed": ("reads_again_after_rows", SMALL, "early"),
    "the gate is written without a condition": ("writes_conditionally", TWO_PULSES, "stuck"),
    "an opening makes no epoch": ("opening_makes_an_epoch", SMALL, "stuck"),
}


@pytest.mark.ci("a model above 25,000 states")
def test_no_interleaving_starts_work_early_or_leaves_it_behind():
    """Two openers, three keepers, two releasers that begin and end at any time: every state is searched."""
    found = search(WHOLE)
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little; docs/gate.md says how much this one reaches.
    assert found.states > 150_000


def test_with_every_signal_nothing_waits_for_the_tick():
    """Where nobody ends early and each signal comes once or twice, the release is complete without a tick."""
    found = search(BY_SIGNAL)
    assert found.harm == ""
    assert found.states > 8_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert len(found.way) > 1


def test_the_checks_object_to_a_world_that_is_wrong():
    """Each check fails on a state that was made to violate it, and passes its healthy twin."""
    idle = {"openers": (), "releasers": (("idle",),)}
    waiting = Entry(DONE, -1, 0, 1, owed=True)
    closed = State(Reading(1, is_open=False), entries=(waiting,), **idle)
    assert is_slow(closed)
    assert not is_stuck(Rules(), closed)
    assert is_stuck(Rules(), closed._replace(entries=(waiting._replace(row=1),)))
    assert not is_slow(closed._replace(entries=(FINISHED,)))
