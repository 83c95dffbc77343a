"""The bound at the door: what is above it goes to files, nothing is lost, and a person gets it back."""

import itertools
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import NewerVersionError, SluiceError
from shared.parked import overflow
from shared.parked.entry import ACCEPT, DOOR, EntryState
from shared.parked.overflow import MOST_OF_CAUSE, OverLine, blob_name
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import MODES, KilledError, Plan
from tests.parked.test_cause_index import RETENTION, MemoryShelf, make_entry, park
from tests.process.world import NOON

FLOOD = "accept-{:05}"


def refused(number, *, room="", **changes):
    """Return the entry of a refused submission."""
    queue = f"submissions-{room}" if room else "submissions"
    return make_entry(FLOOD.format(number), job=DOOR, queue=queue, stage=ACCEPT, claimed=f"j{number}", **changes)


def flood(process, numbers, **changes):
    """Park so many refused submissions, each with bytes of its own."""
    for number in numbers:
        process.table.park(refused(number, **changes), b"no submission %d" % number)


def kept(process):
    """Return the keys of the entries, and those of the lines in files, in order."""
    entries = [entry.key for entry in process.table.entries()]
    return entries, [line.key for line in process.table.read_over()]


@pytest.fixture
def shelf():
    """Entries and an index of the test's own."""
    found = MemoryShelf(MemoryStorage())
    yield found
    found.close()


@pytest.fixture
def low(monkeypatch):
    """A bound that few messages reach."""
    monkeypatch.setattr(overflow, "MOST_OF_CAUSE", 3)
    monkeypatch.setattr(overflow, "MOST_OF_ROOM", 5)
    monkeypatch.setattr(overflow, "_FREE", 1)


def test_a_flood_of_one_cause_fills_no_table_and_loses_nothing(shelf, told):
    """A hundred are entries. The others stand in a file with their bytes, and the list counts both."""
    process, number = shelf.index(), MOST_OF_CAUSE + 40
    flood(process, range(number))
    entries, lines = kept(process)
    assert (entries, lines) == (
        [FLOOD.format(one) for one in range(MOST_OF_CAUSE)],
        [FLOOD.format(one) for one in range(MOST_OF_CAUSE, number)],
    )
    (cause,) = shelf.index().causes.read().causes
    assert (cause.number, cause.reason) == ("100 and 40 more in 1 file", "ZeroDivisionError")
    (line, *_) = process.table.read_over()
    assert (line.body, line.claimed, line.entry.about) == (b"no submission 100", "j100", "j100")
    (said,) = told(overflow.events.PARKED_OVER)
    assert (said["room"], said["fingerprint"]) == ("", "f" * 16)


def test_few_refused_messages_cost_no_look_at_the_others(shelf):
    """Three requests each, as for every other stage. A flood looks once in ten seconds, and each message makes three."""
    process = shelf.index()
    flood(process, range(10))
    assert process.plan.count == 30
    flood(process, range(10, MOST_OF_CAUSE))
    assert process.plan.count == 30 + 1 + 3 * 90
    flood(process, [MOST_OF_CAUSE])
    begun = process.plan.count
    flood(process, [MOST_OF_CAUSE + 1])
    assert process.plan.count - begun == 3


@pytest.mark.usefixtures("low")
def test_the_bound_counts_what_all_processes_parked(shelf):
    """And a room that is at its bound is no other room's concern."""
    first, second = shelf.index(), shelf.index()
    flood(first, range(3), room="alpha")
    flood(second, range(3, 6), room="alpha")
    entries, lines = kept(first)
    # The first message of a process is parked without a look.
    assert (len(entries), len(lines)) == (4, 2)
    flood(second, range(6, 8), room="beta")
    assert len(kept(first)[0]) == 6
    flood(second, range(8, 20), room="alpha", fingerprint="e" * 16)
    assert len(kept(first)[0]) == 7


@pytest.mark.usefixtures("low")
def test_closed_entries_make_room(shelf):
    """The bound is one of what is open."""
    process = shelf.index()
    flood(process, range(4))
    for entry in list(process.table.entries()):
        process.table.change(entry, replace(entry, state=EntryState.DISCARDED))
    (cause,) = process.causes.read().causes
    assert cause.number == "0 and 1 more in 1 file"
    flood(process, [4])
    assert kept(process) == ([FLOOD.format(4)], [FLOOD.format(3)])


@pytest.mark.usefixtures("low")
def test_a_message_that_has_an_entry_keeps_it(shelf):
    """It was delivered again, or came back from a replay: a second copy in a file would be replayed twice."""
    process = shelf.index()
    flood(process, range(4))
    known = process.table.find(DOOR, FLOOD.format(0))
    process.table.change(known, replace(known, state=EntryState.REPLAYED))
    flood(process, [0])
    assert process.table.find(DOOR, FLOOD.format(0)).state is EntryState.OPEN
    assert kept(process)[1] == [FLOOD.format(3)]


@pytest.mark.usefixtures("low")
def test_the_app_s_own_messages_have_no_bound(shelf):
    """A chunk that is in no entry could not be replayed, and its job pauses anyway."""
    process = shelf.index()
    park(process, *(make_entry(f"chunk-{number:09}-1") for number in range(8)))
    assert (len(kept(process)[0]), kept(process)[1]) == (8, [])


@pytest.mark.usefixtures("low")
def test_threads_that_park_at_once_share_requests_and_lose_nothing(shelf):
    """Each message is in the file once, with its bytes."""
    process = shelf.index()
    flood(process, range(3))
    before = process.plan.count
    threads = [threading.Thread(target=flood, args=(process, range(begin, begin + 8))) for begin in range(3, 67, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(process.table.read_over())
    assert {line.key: line.body for line in found} == {FLOOD.format(n): b"no submission %d" % n for n in range(3, 67)}
    (cause,) = process.causes.read().causes
    assert cause.over == 64
    assert process.plan.count - before < 3 * 64 + 8


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_is_killed_or_refused_anywhere_loses_no_message(mode, is_usual):
    """Every request of two messages above the bound is broken: by a death and in some way more, in CI in every way."""
    apart = len(MODES) if is_usual and mode != "kill_before" else 1
    for at in itertools.count(1 + MODES.index(mode) % apart, apart):
        shelf, plan = MemoryShelf(MemoryStorage()), Plan()
        flood(shelf.index(), range(4))
        process = shelf.index(plan)
        parked = []
        with suppress(KilledError, SluiceError):
            flood(process, [4])
            plan._modes.clear()
            plan._modes |= Plan.of(plan.count + at, mode)._modes
            before = plan.count
            for number in (5, 6):
                flood(process, [number])
                parked.append(FLOOD.format(number))
        # The queue has them no more.
        assert {*parked} <= {*itertools.chain(*kept(shelf.index()))}, at
        flood(shelf.index(), [9])
        flood(shelf.index(), [5, 6])
        entries, lines = kept(shelf.index())
        assert {*entries, *lines} == {FLOOD.format(number) for number in (0, 1, 2, 3, 4, 5, 6, 9)}, at
        for file in shelf.index().causes.list_files():
            lines = [line.key for line in shelf.index().overflow.read(file).messages()]
            assert len(lines) <= file.sums.over + 1, at
        shelf.close()
        if plan.count < before + at:
            break
    assert at > 3


@pytest.mark.usefixtures("low")
def test_a_file_that_grows_while_it_is_read_is_not_removed(shelf):
    """Its process goes on with another file once it is gone."""
    process, reader = shelf.index(), shelf.index()
    flood(process, range(4))
    (file,) = reader.causes.list_files()
    read = reader.overflow.read(file)
    flood(process, [4])
    assert not reader.overflow.remove(read)
    assert reader.overflow.remove(reader.overflow.read(file))
    with pytest.raises(SluiceError):
        flood(process, [5])
    flood(process, [5])
    assert kept(reader)[1] == [FLOOD.format(5)]


@pytest.mark.usefixtures("low")
def test_a_file_goes_after_the_retention_and_not_before(shelf):
    """The daily comparison removes it, with its row."""
    process = shelf.index()
    flood(process, range(4))
    checker = shelf.index()
    shelf.clock.advance(hours=RETENTION / timedelta(hours=1) - 1)
    checker.check.run(20, RETENTION)
    assert len(kept(checker)[1]) == 1
    shelf.clock.advance(days=2)
    shelf.index().check.run(20, RETENTION)
    assert kept(checker)[1] == []
    assert checker.causes.list_files() == []


@pytest.mark.usefixtures("low")
def test_bytes_that_are_no_text_and_lines_of_a_newer_version(shelf):
    """The first are kept as they are. The second wait for a newer command."""
    process = shelf.index()
    flood(process, range(3))
    process.table.park(refused(7, found="half \udcff"), b"\xff\x00")
    ((file, line),) = [(file, line) for file in process.causes.list_files() for line in process.table.read_over()]
    assert (line.body, line.found) == (b"\xff\x00", "half ?")
    blob = shelf.connect().blobs.get_blob_client(f"parked-{shelf.mark}", blob_name(file))
    blob.append_block(b'{"v":2,"key":"later"}\n')
    with pytest.raises(NewerVersionError, match="a parked line of version 2"):
        list(process.table.read_over())


def test_a_line_is_the_entry_that_it_would_have_been():
    """A replay needs its queue, its claim and its bytes."""
    line = OverLine(
        key="accept-1", queue="submissions-a", fingerprint="f", message_id="m", at=NOON, reason="r", found="f", text="é"
    )
    assert (line.entry.size, line.entry.job, line.entry.queue) == (2, DOOR, "submissions-a")
