"""Many commands of one home are decided on one state, saved together, and never answered from an old state."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shared.azure import tally_requests
from shared.errors import CommitTooLargeError, ConflictError, DuplicateError, StorageUnavailableError, UserExitError
from shared.processes import Memento, Mementos, Verdict, Writer
from tests.eventsourcing.builders import commit
from tests.eventsourcing.counter import Add, Counter, RefusedError, decider

KEY = "counter-1"


class House:
    """A writer, with the parts that it stands on."""

    def __init__(self, homes, every=500, limit=10**9, aggregate=None, most=64):
        self.homes, self.aggregate = homes, aggregate or Counter()
        self.mementos = Mementos(homes, self.aggregate, every, most)
        self.writer = Writer(homes, self.aggregate, self.mementos, decider(limit))

    def save(self, *commands):
        """Save commands, and return the number of events of each, or its error."""
        self.saved = self.writer.save(KEY, commands)
        return [one.error or len(one.events) for one in self.saved.outcomes]

    def stored(self):
        """Return the commands of the stored events, in order."""
        return [one.command for one in self.homes.read_tail(KEY, 0)]


@pytest.fixture
def house(homes):
    """A writer of homes that do not exist yet."""
    return House(homes)


def adds(count, **changes):
    """Return different commands."""
    return [Add(f"a{n}", **changes) for n in range(count)]


def test_commands_are_decided_in_turn_on_one_state(homes):
    """The third command is over the limit because of the two before it."""
    house = House(homes, limit=5)
    assert house.save(Add("a", 2), Add("b", 3), Add("c"), Add("a")) == [2, 3, 0, 0]
    assert house.stored() == ["a", "a", "b", "b", "b"]
    assert [one.version for one in house.saved.outcomes[1].events] == [3, 4, 5]
    assert house.saved.head.version == 5


def test_a_warm_state_is_written_in_one_request(table_homes):
    """Cold: the memento, the events, the transaction. Warm: the transaction alone, whatever the number of commands."""
    house = House(table_homes)
    with tally_requests() as cold:
        house.save(Add("a"))
    with tally_requests() as warm:
        house.save(*adds(98))
    assert (cold.total(), warm.total()) == (3, 1)


def test_a_batch_that_writes_nothing_is_proven_by_one_request(table_homes):
    """A state that was just read is as new as a reading of the head; after that, each such batch reads the head."""
    House(table_homes).save(Add("a"))
    house = House(table_homes)
    with tally_requests() as cold:
        assert house.save(Add("a")) == [0]
    with tally_requests() as warm:
        assert house.save(Add("a"), Add("a")) == [0, 0]
    assert (cold.total(), warm.total()) == (2, 1)


def test_more_than_a_transaction_is_split_between_commands(homes):
    """No transaction has a part of a command: each one begins with a whole command."""
    house = House(homes)
    seen = []
    writes = homes.commit
    homes.commit = lambda one: seen.append(len(one.events)) or writes(one)
    assert house.save(*adds(30, number=7)) == [7] * 30
    assert seen == [98, 98, 14]
    assert house.save(Add("b", 50), Add("c", 49)) == [50, 49]
    assert seen[3:] == [50, 49]


def test_rows_of_outside_ids_count_too(homes):
    """An event and its outside id are two rows of a transaction."""
    house = House(homes)
    assert house.save(*[Add(f"a{n}", outside=f"o{n}") for n in range(60)]) == [1] * 60
    assert len(house.homes.load(KEY).inbox) == 60


def test_commands_that_are_too_large_together_are_saved_apart(homes):
    """A transaction has a limit of bytes as well; a command that is too large alone is its own failure."""
    house = House(homes, every=5)
    large = [Add(f"a{n}", text="x" * 150_000) for n in range(30)]
    alone = Add("z", 25, text="x" * 150_000)
    *fine, refused, last = house.save(*large, alone, Add("b"))
    assert (fine, last) == ([1] * 30, 1)
    assert isinstance(refused, CommitTooLargeError)
    assert house.stored() == [*(one.id for one in large), "b"]


def test_one_command_of_more_events_than_a_transaction_is_refused(house):
    """It could only be saved in part. The others do not depend on it."""
    first, refused, last = house.save(Add("a"), Add("z", 99), Add("b"))
    assert (first, last) == (1, 1)
    assert isinstance(refused, CommitTooLargeError)
    assert house.stored() == ["a", "b"]


def test_a_conflict_is_decided_again_on_the_stored_state(homes):
    """Another process wrote; the warm state of this one is dropped, and the limit counts what the other wrote."""
    mine, other = House(homes, limit=3), House(homes, limit=3)
    mine.save(Add("a"))
    other.save(Add("b"))
    assert mine.save(Add("c"), Add("d"), Add("b")) == [1, 0, 0]
    assert mine.stored() == ["a", "b", "c"]


def test_a_second_conflict_is_left_to_redelivery(homes):
    """A writer that always comes second does not go on for ever."""
    house, other = House(homes), House(homes)
    writes = homes.commit

    def second(one):
        homes.commit = writes
        other.save(Add(f"o{one.expected}"))
        homes.commit = second
        return writes(one)

    homes.commit = second
    with pytest.raises(ConflictError):
        house.save(Add("a"))
    homes.commit = writes
    assert house.stored() == ["o0", "o1"]
    assert house.save(Add("a")) == [1]


def test_after_a_conflict_between_transactions_the_saved_ones_stay(homes):
    """What the first transaction saved is not decided again: its outcome is told once, with its events."""
    house, other = House(homes), House(homes)
    writes = homes.commit

    def intruded(one):
        head = writes(one)
        if one.expected == 0:
            homes.commit = writes
            other.save(Add("other"))
        return head

    homes.commit = intruded
    assert house.save(Add("a", 60), Add("b", 60), Add("a", 60)) == [60, 60, 0]
    assert house.stored() == ["a"] * 60 + ["other"] + ["b"] * 60


def test_a_refusal_from_an_old_state_is_decided_again(homes):
    """Nothing is written, so no write notices that seats have come back; the head does."""
    mine = House(homes, limit=1)
    mine.save(Add("a"))
    homes.commit(commit(key=KEY, expected=1, events=1))
    mine.writer._decide = decider(limit=3)
    # The old state says that "c2" is new; the stored one knows it.
    assert mine.save(Add("c2"), Add("d", 9)) == [0, 0]
    assert mine.saved.head.version == 2


def test_a_refusal_that_has_become_wrong_is_not_told(homes):
    """Seats came back while the old state said that there were none: the command gets them."""
    mine, other = House(homes), House(homes)
    decide = decider()
    mine.writer._decide = lambda state, one: decide(state, one) if "key" in state["by"] else Verdict()
    mine.save(Add("a"))
    other.save(Add("key"))
    assert mine.save(Add("b"), Add("c", 2)) == [1, 2]
    assert mine.stored() == ["key", "b", "c", "c"]


def test_a_failed_decision_is_its_command_s_own(house):
    """The others are saved, and the failure is told to the caller."""
    first, failed, last = house.save(Add("a"), Add("b", -1), Add("c"))
    assert (first, last) == (1, 1)
    assert isinstance(failed, RefusedError)
    assert house.stored() == ["a", "c"]


def test_a_decision_that_leaves_is_its_command_s_own(homes):
    """It raised what is no Exception, in a thread that no signal reaches."""
    house = House(homes)

    def leave(state, command):
        if command.id == "b":
            raise SystemExit
        return decider(10**9)(state, command)

    house.writer = Writer(homes, house.aggregate, house.mementos, leave)
    with ThreadPoolExecutor(1) as pool:
        first, failed, last = pool.submit(house.save, Add("a"), Add("b"), Add("c")).result()
    assert (first, last, type(failed)) == (1, 1, UserExitError)
    assert house.stored() == ["a", "c"]


def test_an_outside_id_that_was_there_fails_alone(homes):
    """The store refuses the transaction because of it; the rest is decided again without it."""
    House(homes).save(Add("a", outside="pay:1", content="h1"))
    house = House(homes)
    first, same, other, last = house.save(
        Add("b"), Add("c", outside="pay:1", content="h1"), Add("d", outside="pay:1", content="h2"), Add("e")
    )
    assert (first, last) == (1, 1)
    assert isinstance(same, DuplicateError)
    assert (same.is_same, other.is_same) == (True, False)
    assert house.stored() == ["a", "b", "e"]


def test_an_outside_id_that_comes_twice_at_once_is_saved_once(house):
    """Both are in one batch, in one transaction or in two."""
    first, same, filler, other = house.save(
        Add("a", outside="pay:1", content="h1"),
        Add("b", outside="pay:1", content="h1"),
        Add("f", 98),
        Add("c", outside="pay:1", content="h2"),
    )
    assert (first, filler, same.is_same, other.is_same) == (1, 98, True, False)


def test_an_id_without_an_event_is_a_defect(house):
    """Nothing would guard it."""
    house.writer._decide = lambda *_: replace(decider()(Counter().initial(), Add("a", outside="pay:1")), events=())
    (failed,) = house.save(Add("a"))
    assert isinstance(failed, ValueError)
    assert house.homes.load(KEY) is None


def test_a_state_ahead_of_the_store_is_dropped(table_homes, monkeypatch):
    """The events were folded, and nobody knows whether they are stored: the next call reads."""
    house = House(table_homes)
    house.save(Add("a"))

    def fail(*_):
        raise StorageUnavailableError("planned")

    with monkeypatch.context() as patched:
        patched.setattr(table_homes, "commit", fail)
        with pytest.raises(StorageUnavailableError):
            house.save(Add("b"))
    assert house.save(Add("b")) == [1]
    assert house.stored() == ["a", "b"]


def test_a_memento_is_stored_each_so_many_events(homes):
    """It goes along with a commit, and a cold start reads it and the events after it."""
    house = House(homes, every=10)
    for number in range(0, 26, 2):
        house.save(Add(f"a{number}", 2))
    assert homes.read_memento(KEY).version == 20
    other = House(homes, every=10)
    other.save(Add("b"))
    assert (other.aggregate.folds, other.saved.head.version) == (7, 27)


def test_a_cold_start_makes_two_requests_whatever_the_number_of_events(table, container):
    """A conference of a hundred thousand events starts as one of a hundred."""
    from shared.processes import MementoStore, TableHomes  # noqa: PLC0415 - with pages as deployed

    homes = TableHomes(table, MementoStore(container))
    House(homes, every=100).save(*adds(1_050))
    house = House(homes, every=100)
    with tally_requests() as tally:
        house.mementos.take(KEY)
    assert tally.total() == 2
    assert house.aggregate.folds < 100


def test_a_memento_of_another_format_is_made_again(homes):
    """A new version of the state reads the events, and its next commit stores its own memento."""
    House(homes, every=2).save(Add("a", 4))
    house = House(homes, every=2, aggregate=Counter(format_=2))
    house.save(Add("b"))
    assert house.aggregate.folds == 5
    assert (homes.read_memento(KEY).version, homes.read_memento(KEY).format) == (5, 2)


def test_a_memento_is_of_the_state_at_its_version(homes):
    """With several transactions, and with one that is divided, no memento is ahead of its events."""
    House(homes, every=1).save(*adds(30, number=7), *[Add(f"b{n}", text="x" * 150_000) for n in range(30)])
    found = homes.read_memento(KEY)
    assert Counter().unpack(found.packed)["count"] == found.version == homes.read_head(KEY).version


def test_what_is_published_goes_along_with_the_next_commit(house):
    """The sender knows it first; the row lags one write behind, and never goes back."""
    house.save(Add("a", 3))
    house.mementos.note_published(KEY, 3)
    house.mementos.note_published(KEY, 2)
    house.mementos.note_published("unknown", 9)
    house.save(Add("b"))
    assert house.homes.read_head(KEY).published == 3


def test_a_process_keeps_a_bounded_number_of_states(homes):
    """The one that was not used for the longest time is read again."""
    house = House(homes, most=2)
    for key in ("counter-a", "counter-b", "counter-c", "counter-b"):
        house.writer.save(key, [Add(key)])
    homes.load = None
    house.writer.save("counter-c", [Add("more")])
    with pytest.raises(TypeError):
        house.writer.save("counter-a", [Add("more")])


def test_a_state_is_taken_by_one_thread_at_a_time(homes):
    """Two deliveries of one session overlap when its lock is lost: one of them conflicts and decides again."""
    house = House(homes)
    house.save(Add("a"))
    barrier = threading.Barrier(4)
    errors = []

    def write(number):
        barrier.wait()
        for turn in range(5):
            try:
                house.writer.save(KEY, [Add(f"t{number}-{turn}")])
            except ConflictError as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = house.stored()
    assert len(stored) == len(set(stored)) == 21 - len(errors)
    assert house.save(Add("z")) == [1]


def test_a_memento_ahead_of_nothing_is_no_memento(homes):
    """A home that was only ever given a memento with its events starts from it."""
    homes.commit(commit(key=KEY, memento=Memento(1, 1, b'{"count": 1, "by": ["c1"]}')))
    house = House(homes)
    assert house.save(Add("c1")) == [0]
    assert house.aggregate.folds == 0
