"""What rooms get beside others, by simulation over the decisions of the feeder."""

import itertools
import statistics

import pytest

from shared.concurrency import RoomShare, Shares
from tests.pipeline.simulated_turns import ACCEPTED_IN, CREDITED_IN, FINISH, SPREAD, Turns

#: Jobs of one chunk that are measured.
PROBES = 30


def names(number):
    """Return so many rooms."""
    return [f"room-{one:03}" for one in range(number)]


def warm(turns):
    """Run until the window has found its size, and return what was served until then."""
    turns.run(20 + 4 * turns.seconds)
    return dict(turns.served)


def served(turns, seconds):
    """Return the seconds of work of each room in a time after the beginning."""
    before = warm(turns)
    turns.run(seconds)
    return {room: found - before.get(room, 0.0) for room, found in turns.served.items()}


def combinations():
    """Yield rooms, tasks and seconds of a chunk. A simulation of more than 24 tasks takes seconds."""
    for rooms, tasks, seconds in itertools.product((2, 20, 200), (24, 100, 400), (0.1, 1.0, 10.0)):
        marks = [pytest.mark.ci("a simulation of up to 25,000 chunks")] if tasks > 24 else []
        yield pytest.param(rooms, tasks, seconds, marks=marks)


@pytest.mark.parametrize(("rooms", "tasks", "seconds"), [*combinations()])
def test_a_job_of_one_chunk_waits_twice_as_long_as_alone_at_most(rooms, tasks, seconds):
    """And one chunk more, beside floods of half the rooms, while every task has work."""
    turns, half = Turns(tasks, seconds), rooms // 2
    for room in names(rooms)[:half]:
        turns.flood(room)
    others, dropped = itertools.cycle(names(rooms)[half:]), {}
    before, began = sum(warm(turns).values()), turns.time
    for number in range(PROBES):
        dropped[f"probe-{number}"] = turns.time
        turns.probe(next(others), f"probe-{number}")
        turns.run((0.5 + 2 * seconds) * turns.chance.uniform(1 - SPREAD, 1 + SPREAD))
    busy = (sum(turns.served.values()) - before) / (turns.time - began) / tasks
    turns.run(10 + 10 * seconds)
    alone = ACCEPTED_IN + (1 + SPREAD) * seconds + CREDITED_IN + FINISH
    assert max(turns.ended[name] - at for name, at in dropped.items()) <= 2 * alone + seconds
    assert busy >= 0.98


def test_a_finish_waits_behind_no_chunks_of_others():
    """In its place on the queue it would wait for all that the feeder has put ahead: a second in the median."""
    found = []
    for is_last in (False, True):
        turns, dropped = Turns(24, 1.0, is_last=is_last), {}
        turns.flood("flood")
        warm(turns)
        for number in range(PROBES):
            dropped[f"probe-{number}"] = turns.time
            turns.probe(f"room-{number}", f"probe-{number}")
            turns.run(2.5 * turns.chance.uniform(1 - SPREAD, 1 + SPREAD))
        turns.run(20)
        found.append(statistics.median(turns.ended[name] - at for name, at in dropped.items()))
    assert found[1] - found[0] >= 0.4


@pytest.mark.parametrize("chunks", [(2.0, 0.2), (0.2, 2.0)])
def test_weights_of_three_to_one_give_three_times_the_work_over_a_minute(chunks):
    """Within a tenth, whichever room has the longer chunks."""
    turns = Turns(24, statistics.mean(chunks), shares=Shares(rooms={"heavy": RoomShare(3)}))
    for room, seconds in zip(("heavy", "light"), chunks, strict=True):
        turns.flood(room, seconds=seconds)
    found = served(turns, 60)
    assert 2.7 <= found["heavy"] / found["light"] <= 3.3


@pytest.mark.parametrize(("rooms", "seconds"), [*itertools.product((2, 20), (0.1, 1.0, 10.0))])
def test_a_room_of_which_every_chunk_fails_takes_a_fifth_of_the_work_of_others_at_most(rooms, seconds):
    """Its messages hide for half a minute each, and fill no window meanwhile: nearly every task has work."""
    others, busy = [], []
    for failing in ((), names(1)):
        turns = Turns(24, seconds, failing=failing)
        for room in names(rooms):
            turns.flood(room)
        found = served(turns, 120)
        others.append(sum(took for room, took in found.items() if room != names(1)[0]))
        busy.append(sum(found.values()) / 120 / 24)
    assert others[1] >= 0.8 * others[0]
    # What hides is known by reports of before, and tasks may have the messages of a second in their hands.
    assert busy[1] >= (0.97 if seconds >= 1 else 0.89)


@pytest.mark.parametrize("seconds", [0.1, 1.0, 10.0])
def test_a_job_of_one_chunk_waits_a_fifth_longer_at_most_beside_a_room_of_which_every_chunk_fails(seconds):
    """In the median, beside two floods, of which one fails or none."""
    found = []
    for failing in ((), names(1)):
        turns, dropped = Turns(24, seconds, failing=failing), {}
        for room in names(2):
            turns.flood(room)
        warm(turns)
        for number, room in zip(range(PROBES), itertools.cycle(names(20)[2:]), strict=False):
            dropped[f"probe-{number}"] = turns.time
            turns.probe(room, f"probe-{number}")
            turns.run((0.5 + 2 * seconds) * turns.chance.uniform(1 - SPREAD, 1 + SPREAD))
        turns.run(10 + 10 * seconds)
        found.append(statistics.median(turns.ended[name] - at for name, at in dropped.items()))
    assert found[1] <= 1.2 * found[0]
