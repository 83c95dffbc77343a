"""Projectors on Azurite: whatever comes doubled, reordered or with gaps, a row is the fold of its home's events."""

import inspect
import random
import typing
from dataclasses import replace

import pytest

from shared.azure.meter import tally_requests
from shared.errors import MigrationRefusedError, StorageUnavailableError, ViewCorruptError
from shared.processes import EventRange
from shared.readmodels import Phase, Projector, Slot, view_writer
from shared.telemetry import events
from tests.faults.plan import Plan
from tests.readmodels.conftest import House
from tests.readmodels.counters import NEWEST


def operations(tally):
    """Return the counted requests by operation and table, without the number of the test."""
    found = {}
    for one, number in tally.counts().items():
        name = f"{one.kind.operation} {one.kind.entity.rstrip('0123456789')}"
        found[name] = found.get(name, 0) + number
    return found


def test_doubled_reordered_and_missing_ranges_make_the_row_of_the_log(house):
    """Any grouping, any order, some messages twice and one never: nothing is counted twice or left out."""
    rng = random.Random(7)
    for number in range(12):
        home = f"counter-{number:03}"
        pieces = [house.append(home, *range(1, rng.randint(2, 4)), is_public=True) for _ in range(rng.randint(1, 5))]
        whole = EventRange(home, 1, pieces[-1].last, tuple(event for one in pieces for event in one.events))
        bag = pieces + rng.sample(pieces, len(pieces) // 2) + [whole]
        # The last piece stays: after a message that never came, the gap is read from the log.
        lost = rng.choice(pieces[:-1] or [None])
        bag = [one for one in bag if one is not lost]
        rng.shuffle(bag)
        while bag:
            taken, bag = bag[:2], bag[2:]
            house.process().projector.project(taken)
    assert house.rows(Slot.A, 1) == house.expected(1)


def test_a_range_that_begins_before_what_was_seen_and_ends_after_it_is_folded_in_part(house):
    """A sender that is not sure sends more than before under the same first version."""
    first = house.append("counter-a", 1, 2)
    process = house.process()
    process.projector.project([first])
    house.append("counter-a", 4)
    events = house.homes.read_tail("counter-a", 0)
    process.projector.project([EventRange("counter-a", 1, 3, tuple(events))])
    assert house.rows(Slot.A, 1) == house.expected(1)
    assert house.expected(1)["counter-a"][0][2]["sum"] == 7


def test_private_events_make_no_gap_and_no_difference(house):
    """They travel in no message, and a gap that is read from the log has them."""
    process = house.process()
    process.projector.project([house.append("counter-a", 1)])
    house.append("counter-a", 100, is_public=False)
    later = house.append("counter-a", 2)
    with tally_requests() as tally:
        # The range of a sender covers what it leaves out.
        process.projector.project([replace(later, first=2)])
    assert operations(tally) == {"EntityGroupTransaction readmodela": 1}
    house.append("counter-a", 100, is_public=False)
    process.projector.project([house.append("counter-a", 4)])
    assert house.rows(Slot.A, 1)["counter-a"] == [("a", 5, {"sum": 7, "amounts": [1, 2, 4]})]


def test_what_a_projection_costs(house):
    """New homes of one shard: a transaction. The next events, in the same process: one more. In another: a read each."""
    process, other = house.process(), house.process()
    homes = [f"counter-{number:03}" for number in range(30)]
    with tally_requests() as first:
        process.projector.project([house.append(home, 1) for home in homes])
    with tally_requests() as second:
        process.projector.project([house.append(home, 2) for home in homes])
    with tally_requests() as elsewhere:
        other.projector.project([house.append(home, 4) for home in homes])
    with tally_requests() as stale:
        process.projector.project([house.append(home, 8) for home in homes])
    with tally_requests() as again:
        process.projector.project([EventRange(home, 2, 2, ()) for home in homes])
    assert operations(first) == {"QueryEntity models": 1, "EntityGroupTransaction readmodela": 1}
    assert operations(second) == {"EntityGroupTransaction readmodela": 1}
    assert operations(elsewhere) == {
        "QueryEntity models": 1,
        "QueryEntity readmodela": 30,
        "EntityGroupTransaction readmodela": 1,
    }
    # The rows that it kept were wrong: the refusal says so, and they are read.
    assert operations(stale) == {"QueryEntity readmodela": 30, "EntityGroupTransaction readmodela": 2}
    assert operations(again) == {}
    assert house.rows(Slot.A, 1) == house.expected(1)


def test_the_first_events_again_in_another_process_cost_no_harm(house):
    """The insert is refused, the row is read, and it has seen as much."""
    ranges = [house.append(f"counter-{number:03}", 1) for number in range(5)]
    house.process().projector.project(ranges)
    (written,) = house.process().projector.project(ranges)
    assert (written.rows, written.dropped, written.lost) == (0, 5, 1)


def test_a_row_that_is_made_from_an_old_one_is_not_written(house):
    """Two processes at one row: the second write is refused, and made again on the first."""
    slow, fast = house.process(), house.process()
    first = house.append("counter-a", 1)
    slow.projector.project([first])
    fast.projector.project([house.append("counter-a", 2)])
    (written,) = slow.projector.project([house.append("counter-a", 4)])
    assert (written.rows, written.lost) == (1, 1)
    assert house.rows(Slot.A, 1) == house.expected(1)


def test_events_in_any_order_are_folded_without_a_read_of_the_log(stack_settings):
    """A model that says so never waits for a gap: the newest amount stays, however late the older ones come."""
    house = House(stack_settings, NEWEST)
    try:
        first, second, third = (house.append("counter-a", amount) for amount in (1, 2, 4))
        process = house.process()
        for one in (third, first, third, second):
            process.projector.project([one])
        assert house.rows(Slot.A, 1)["counter-a"] == [("counter-a", 3, {"amount": 4, "at": 3})]
    finally:
        house.close()


@pytest.mark.parametrize("mode", ["reset_before", "reset_after", "503_after", "truncated_reply"])
def test_a_lost_request_or_reply_is_mended_by_the_redelivery(house, mode):
    """Every request of a projection may fail: the message comes again, and the row is the same."""
    ranges = [house.append("counter-a", 1), house.append("counter-bb", 2)]
    count = 1
    while True:
        plan = Plan.of(count, mode)
        broken = house.process(plan)
        try:
            broken.projector.project(ranges)
        except StorageUnavailableError:
            house.process().projector.project(ranges)
        if not plan.fired:
            break
        assert house.rows(Slot.A, 1) == house.expected(1)
        ranges = [house.append("counter-a", 1), house.append("counter-bb", 2)]
        count += 1
    assert count > 3


def test_events_that_the_log_lost_are_an_error_for_a_person(house):
    """A message with later events than the log has: an earlier state of the log was restored."""
    one = house.append("counter-a", 1)
    with pytest.raises(ViewCorruptError, match="the log ends at 1"):
        house.process().projector.project([replace(one, first=7, last=7)])


def test_a_version_that_this_program_does_not_have_is_refused(house):
    """An older instance during a deployment: its messages go to the others."""
    process = house.process()
    pointer = process.pointers.read(house.model)
    assert process.pointers.try_write(replace(pointer, phase=Phase.DOUBLING, doubled=9, target=9))
    with pytest.raises(MigrationRefusedError, match="this program knows 1, 2"):
        process.projector.project([house.append("counter-a", 1)])


def test_a_migration_that_stands_still_is_logged_once_in_half_an_hour(house, told):
    """The command that was killed cannot log it. A migration that waits for its operator does not stand still."""
    process = house.process()
    pointer = process.pointers.read(house.model)
    pointer = process.pointers.try_write(replace(pointer, phase=Phase.BUILDING, doubled=2, target=2))
    for minutes in (29, 2, 20):
        house.clock.advance(minutes=minutes)
        process.projector.project([house.append("counter-a", 1)])
    (line,) = told(events.MIGRATION_STANDS)
    assert line == {"model": "counters", "phase": "building", "target": 2, "silent_seconds": 31 * 60}
    assert process.noted[-1] == ("counters", "building: no progress for half an hour and more")
    process.pointers.try_write(replace(pointer, phase=Phase.BUILT))
    house.clock.advance(hours=2)
    process.projector.project([house.append("counter-a", 1)])
    assert len(told(events.MIGRATION_STANDS)) == 1
    assert process.noted[-1] == ("counters", "")


def delayed(process, act):
    """Have `act` called with the slot after each write of a row, as if the process stood still there."""

    def wrap(slot, table):
        write = table.try_write

        def try_write(views):
            done = write(views)
            act(slot)
            return done

        table.try_write = try_write

    for slot, table in process.slots.items():
        wrap(slot, table)


def test_a_projector_that_stood_still_writes_a_version_that_was_added_meanwhile(house):
    """Its pointer was young before the writes, and old after them: it reads it again before the message is completed."""
    process, written = house.process(), []
    pointer = process.pointers.read(house.model)

    def double(slot):
        written.append(slot)
        if len(written) == 1:
            assert house.own.pointers.try_write(replace(pointer, phase=Phase.DOUBLING, doubled=2, target=2))
            house.clock.advance(seconds=6)

    delayed(process, double)
    process.projector.project([house.append("counter-a", 1)])
    assert written == [Slot.A, Slot.B]
    assert house.rows(Slot.B, 2) == house.expected(2)


def test_the_version_that_readers_use_is_written_last(house):
    """So after a switch or a rollback no reader sees an older row than before."""
    process, written = house.process(), []
    pointer = process.pointers.read(house.model)
    pointer = process.pointers.try_write(replace(pointer, phase=Phase.BUILT, doubled=2, target=2))
    delayed(process, written.append)
    process.projector.project([house.append("counter-a", 1)])
    assert written == [Slot.B, Slot.A]
    switched = replace(pointer, phase=Phase.SWITCHED, current=2, doubled=1, slot=Slot.B)
    assert process.pointers.try_write(switched)
    house.clock.advance(seconds=6)
    process.projector.project([house.append("counter-a", 2)])
    assert written == [Slot.B, Slot.A, Slot.A, Slot.B]


def test_a_projector_cannot_send():
    """Nothing that it is given, and nothing that its module imports, can send a message."""
    hints = typing.get_type_hints(Projector.__init__) | typing.get_type_hints(view_writer.ViewWriter.__init__)
    assert {one.__name__ for one in hints.values() if inspect.isclass(one)} == {
        "KeptPointer",
        "Clock",
        "ViewWriter",
        "Model",
        "EventLog",
        "Retry",
        "NoneType",
    }
    assert [name for name in vars(view_writer.EventLog) if not name.startswith("_")] == ["read_tail"]
    brought = {name: getattr(one, "__module__", "") for name, one in vars(view_writer).items()}
    senders = ("shared.azure", "shared.outbox", "shared.processes", "shared.signals")
    # `Homes` is for `read_homes` of a migration, and is not handed to the two.
    assert {name for name, home in brought.items() if home.startswith(senders)} == {
        "Event",
        "EventRange",
        "Head",
        "Homes",
    }
