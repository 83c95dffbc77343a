"""A replay whose process ends at any request, or loses any request or reply: another process ends it, wave by wave."""

import re
from contextlib import suppress
from dataclasses import replace

import pytest

from shared.errors import SluiceError
from shared.operating.replay import ReplayFate, ReplayPace, Selection
from shared.operating.replay_record import ReplayState
from shared.parked.entry import EntryState
from tests.faults.plan import MODES, UNTOLD, KilledError, Plan

CHUNKS = 3
#: An entry that is sent: its bytes, its mark, its message, its new state.
SENT = ["GET parked", "PUT parked", "POST work", "PUT parked"]
#: An entry that is closed: its new state, and the index of causes.
CLOSED = ["PUT parked", "POST $batch"]
#: The requests of a replay of three entries in waves of 1 and 2: a change here is a change of the bill.
RECORDED = [
    *("GET replays", "PUT replays"),
    *("GET parked", "PUT replays", *SENT, "PUT replays"),
    *("GET parked", "GET parked", *CLOSED),
    *("GET parked", "PUT replays", *SENT, *SENT, "PUT replays"),
    *("GET parked", "GET parked", "GET parked", *CLOSED, "GET parked", *CLOSED),
    *("PUT replays", "GET replays"),
]


@pytest.fixture
def mended(make_ward_in_memory):
    """Make three parked chunks of one cause that is gone."""

    def make():
        ward = make_ward_in_memory(CHUNKS)
        with ward.process() as process:
            for entry in ward.entries:
                process.parked.change(entry, replace(entry, reason=f"failed:{ward.queue.queue_name}"))
        ward.is_broken = False
        return ward

    return make


def asked(ward):
    """Ask for a replay of the ward in a healthy process: it is a row from here on."""
    with ward.process() as process:
        selection = Selection(reason=f"failed:{ward.queue.queue_name}")
        return ward.operator(process).ask_replay(selection, ReplayPace(), by="ann", why="mended")


def stepped(ward, replay, plan):
    """Step the replay in a process of its own, as far as it comes."""
    with ward.process(plan) as process, suppress(KilledError, SluiceError):
        operator = ward.operator(process)
        operator.run.step(operator.replays.get(replay.id))


def test_the_recorded_requests_are_the_requests(mended):
    """What is enumerated below is everything that the replay sends."""
    ward, plan = mended(), Plan()
    stepped(ward, asked(ward), plan)
    assert [re.sub(r"-\d+$", "", kind) for kind in plan.kinds] == RECORDED


@pytest.mark.parametrize("mode", MODES)
def test_another_process_ends_what_one_began(mended, mode, is_usual):
    """Each entry is sent, has its effect, and is counted in one wave; the row ends with the right sum."""
    # In CI, where nobody knows of the effect, every request, and of the other faults a third each. Else each request
    # meets two of the modes.
    apart = len(MODES) // 2 if is_usual else 1 if mode in UNTOLD else 3
    for at in range(1 + MODES.index(mode) % apart, len(RECORDED) + 1, apart):
        ward, plan = mended(), Plan.of(at, mode)
        replay = asked(ward)
        stepped(ward, replay, plan)
        assert plan.fired
        plan.catch_up()
        # The lease of the one that died ends first.
        ward.pause(61)
        stepped(ward, replay, Plan())
        with ward.process() as process:
            there = ward.operator(process).replays.get(replay.id)
        assert (at, there.state, there.counts, there.begun) == (at, ReplayState.ENDED, {ReplayFate.DONE: CHUNKS}, 2)
        assert (at, [entry.state for entry in ward.entries]) == (at, [EntryState.DONE] * CHUNKS)
        assert (at, sum(wave.size for wave in there.waves)) == (at, CHUNKS)
        # Only the one message whose sending was in doubt may have come twice.
        assert CHUNKS <= ward.deliveries <= CHUNKS + 1
