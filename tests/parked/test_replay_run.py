"""A replay as a row: two that step it at once, the stop, the lease, and what is kept."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields

from shared.concurrency import FeedRow
from shared.errors import ActRepeatedError, ActStaleError, NoReplayError
from shared.operating import replay_record as record
from shared.operating.audit import ActKey
from shared.operating.replay import ReplayFate, ReplayPace, Selection, digest_entries
from shared.operating.replay_record import Replay, ReplayState
from shared.parked.entry import EntryState
from shared.pending import REPLAY_POINTER, Pointer
from shared.topology import submission_queue
from tests.process.world import NOON


@pytest.fixture
def mended(make_ward):
    """Four chunks of one cause that is gone; each of a job of its own, chosen by a reason that no other test has."""
    ward = make_ward(4)
    with ward.process() as process:
        for entry in ward.entries:
            process.parked.change(entry, replace(entry, reason=f"failed:{ward.queue.queue_name}"))
    ward.is_broken = False
    return ward


def ask(ward, operator, pace=None, **named):
    """Ask for a replay of the whole ward."""
    selection = Selection(reason=f"failed:{ward.queue.queue_name}")
    return operator.ask_replay(selection, pace or ReplayPace(), by="ann", why="mended", **named)


def test_of_two_that_step_at_once_one_works(mended):
    """The other one finds the lease taken and sends nothing; every entry is sent once."""
    with mended.process() as first, mended.process() as second:
        one, other = mended.operator(first), mended.operator(second)
        asked = ask(mended, one)
        steps = one.run.steps(asked)
        next(steps)
        assert list(other.run.steps(other.replays.get(asked.id))) == []
        # It read the row before the first one took it.
        assert list(other.run.steps(asked)) == []
        *_, last = steps
    assert (last.state, last.counts, last.begun) == (ReplayState.ENDED, {ReplayFate.DONE: 4}, 3)
    assert [entry.replays for entry in mended.entries] == [1] * 4


def test_an_owner_whose_lease_was_over_writes_nothing_more(mended):
    """It slept through its lease in the middle of a wave; another one went on, and nothing was counted twice."""
    with mended.process() as first, mended.process() as second:
        sleeper, other = mended.operator(first), mended.operator(second)
        asked = ask(mended, sleeper)
        steps = sleeper.run.steps(asked)
        next(steps)
        mended.clock.advance(61)
        for _ in other.follow(other.replays.get(asked.id)):
            pass
        assert [known.is_over for known in steps] == [False]
        there = other.replays.get(asked.id)
    assert (there.state, there.counts) == (ReplayState.ENDED, {ReplayFate.DONE: 4})
    assert [entry.replays for entry in mended.entries] == [1] * 4


def test_a_stop_in_the_middle_is_obeyed_by_the_next_step(mended):
    """The wave that is out is looked at, no further one is sent, and the row says who stopped it."""
    with mended.process() as first, mended.process() as second:
        one, other = mended.operator(first), mended.operator(second)
        asked = ask(mended, one)
        steps = one.run.steps(asked)
        next(steps)
        assert other.stop_replay(asked.id, by="bo", why="wrong cause").state is ReplayState.STOPPING
        *_, last = steps
        again = other.stop_replay(asked.id, by="cy")
    assert (last.state, last.stopped_by, last.begun) == (ReplayState.ENDED, "bo", 1)
    assert (again.state, again.stopped_by) == (ReplayState.ENDED, "bo")
    assert last.result.startswith("stopped by bo: 1 ")
    assert [entry.replays for entry in mended.entries] == [1, 0, 0, 0]


def test_a_stop_before_the_first_step_sends_nothing(mended):
    """Whoever takes the first step ends it."""
    with mended.process() as process:
        operator = mended.operator(process)
        asked = ask(mended, operator)
        last = operator.run.step(operator.stop_replay(asked.id, by="bo"))
    assert (last.state, last.result, last.begun) == (ReplayState.ENDED, "stopped by bo: nothing to replay", 0)
    assert {entry.state for entry in mended.entries} == {EntryState.OPEN}


def test_a_step_ends_in_time_and_another_one_goes_on(mended):
    """Its lease is given back, so nobody waits for it."""
    with mended.process() as process:
        one, other = mended.operator(process), mended.operator(process)
        asked = ask(mended, one)
        left = one.run.step(asked, until=mended.clock.monotonic())
        assert (left.state, left.owner, left.begun) == (ReplayState.RUNNING, "", 1)
        last = other.run.step(left)
    assert (last.state, last.counts) == (ReplayState.ENDED, {ReplayFate.DONE: 4})


def test_what_a_person_saw_and_did_once_is_checked(mended):
    """A changed selection is refused, and a form that is posted twice is one replay."""
    named = ActKey(NOON, f"{id(mended):x}")
    with mended.process() as process:
        operator = mended.operator(process)
        with pytest.raises(ActStaleError):
            ask(mended, operator, seen="other")
        seen = digest_entries(operator.select(Selection(reason=f"failed:{mended.queue.queue_name}")))
        asked = ask(mended, operator, seen=seen, named=named)
        with pytest.raises(ActRepeatedError):
            ask(mended, operator, named=named)
        assert operator.replays.get(asked.id) == asked
        operator.run.step(operator.stop_replay(asked.id, by="ann"))


def test_an_unknown_replay_says_where_they_are_listed(mended):
    """No row, no guess."""
    with mended.process() as process, pytest.raises(NoReplayError, match="sluice parked replays"):
        mended.operator(process).replays.get("20200101-000000-00000000")


def a_replay(**fields):
    """Return the row of a replay that somebody has just asked for."""
    known = {"id": "x", "who": "ann", "why": "", "asked_at": NOON, "moved_at": NOON, "entries": 9}
    return Replay(**{**known, "selection": Selection(), "pace": ReplayPace(), **fields})


def test_a_replay_without_an_owner_stands_still_after_three_minutes():
    """Not before, not while a process has it, and not when it is over."""
    late = NOON + timedelta(minutes=3, seconds=1)
    assert not a_replay().is_still(NOON + timedelta(minutes=3))
    assert a_replay().is_still(late)
    assert not a_replay(owner="tick-1", until=late + timedelta(seconds=1)).is_still(late)
    assert a_replay(owner="tick-1", until=NOON).is_still(late)
    assert not a_replay(state=ReplayState.ENDED).is_still(late)


@pytest.mark.parametrize(("waiting", "sizes"), [(0, [1, 2, 5, 20, 22]), (7, [1, 2, 5, 16, 16, 10])])
def test_no_wave_takes_more_than_half_of_the_window_while_jobs_wait_for_their_turn(make_ward_in_memory, waiting, sizes):
    """It goes to the work queues around them, so a large one would delay every room."""
    ward, now = make_ward_in_memory(50), NOON + timedelta(hours=1)
    ward.is_broken = False
    with ward.process() as process:
        operator = ward.operator(process)
        feed = FeedRow(until=now, since=NOON, by="one", waiting={"alpha": waiting}, window=32)
        operator.fleet.note_feed(feed)
        last = operator.run.step(operator.ask_replay(Selection(), ReplayPace(), by="ann"))
    assert ([wave.size for wave in last.waves], last.counts) == (sizes, {ReplayFate.DONE: 50})


def test_which_waves_could_delay_others(ward):
    """Small ones, and those that become jobs first, make no request for it."""
    entry, door = replace(ward.entries[0], queue="work-00"), submission_queue("alpha")
    assert not record.may_delay([entry] * 16)
    assert record.may_delay([entry] * 17)
    assert not record.may_delay([replace(entry, queue=door)] * 50)
    assert [len(record.cut_wave([entry] * 50, window)) for window in (0, 32, 72, 1_000)] == [16, 16, 36, 50]


def test_a_row_describes_a_bounded_number_of_waves_and_counts_all():
    """The first ten and the last fifty."""
    replay = a_replay()
    for number in range(100):
        replay = with_fields(replay, begun=number + 1, out=record.WaveOut(entries=(), began_at=NOON, sent_at=NOON))
        replay = record.end_wave(replay, NOON)
    assert [wave.number for wave in replay.waves] == [*range(1, 11), *range(51, 101)]


def test_only_a_hundred_that_have_ended_are_kept(mended, monkeypatch):
    """The oldest go; what still runs stays."""
    monkeypatch.setattr("shared.operating.replay_record.KEPT", 1)
    # Other tests leave replays in this table: these are newer than any of them.
    mended.clock.advance(30 * 86_400)
    with mended.process() as process:
        operator = mended.operator(process)
        running = ask(mended, operator)
        mended.clock.advance(1)
        old, _ = [operator.run.step(operator.stop_replay(ask(mended, operator).id, by="ann")) for _ in range(2)]
        mended.clock.advance(1)
        new = operator.run.step(operator.stop_replay(ask(mended, operator).id, by="ann"))
        kept = {replay.id for replay in operator.replays.newest(1000)}
        assert {running.id, new.id} <= kept
        assert old.id not in kept
        operator.run.step(operator.stop_replay(running.id, by="ann"))


def test_the_tick_goes_on_with_what_a_pointer_leads_to(mended):
    """Twenty seconds at most; the pointer goes with the end, and one without a row goes later."""
    with mended.process() as process:
        operator = mended.operator(process)
        asked = ask(mended, operator)
        (pointer,) = [one for one in operator.pending.due(mended.clock.now()) if one.id == asked.id]
        operator.follow_due([pointer], 0)
        assert operator.replays.get(asked.id).begun == 0
        operator.follow_due([pointer], 0.5)
        assert operator.replays.get(asked.id).begun == 1
        operator.follow_due([pointer], 20)
        assert operator.replays.get(asked.id).counts == {ReplayFate.DONE: 4}
        alone = operator.pending.add(Pointer(REPLAY_POINTER, mended.clock.now(), "20200101-000000-aaaaaaaa"))
        operator.follow_due([alone], 20)
        assert alone.id in {one.id for one in operator.pending.due(mended.clock.now())}
        mended.clock.advance(301)
        operator.follow_due([alone], 20)
        left = {one.id for one in operator.pending.due(mended.clock.now())}
    assert not left & {asked.id, alone.id}
