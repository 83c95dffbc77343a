"""What every event store promises, on the one in memory and on the one in a table."""

import threading
from dataclasses import replace

import pytest

from shared.errors import CommitTooLargeError, ConflictError, DuplicateError
from shared.processes import MOST_EVENTS, Home, Memento
from tests.eventsourcing.builders import NOON, commit, event


def test_a_home_is_loaded_as_it_was_committed(homes):
    """Nothing of a home is lost on the way into the store and back."""
    rich = event(1, body={"text": "ünïcode 🎉 'quoted'", "nested": [1, None, {"a": True}]}, generation=3, format=2)
    private = event(2, is_public=False, command="")
    written = homes.commit(
        commit(
            events=[rich, private],
            fields={"hash": "ab", "number": 2**40},
            process={"state": "awaiting", "commands": [{"id": "x"}]},
            inbox={"pay:1/#?": "h1"},
        )
    )
    found = homes.load("order-7")
    assert found == Home(
        key="order-7",
        head=written,
        events=(replace(rich, version=1), replace(private, version=2)),
        process={"state": "awaiting", "commands": [{"id": "x"}]},
        inbox={"pay:1/#?": "h1"},
    )
    assert (written.version, written.published, written.aggregate) == (2, 0, "order")
    assert written.fields == {"hash": "ab", "number": 2**40}
    assert found.events[0].at == NOON


def test_an_unknown_home_is_none(homes):
    """Asking for a home that was never written is no error."""
    assert homes.load("order-0") is None
    assert homes.read_head("order-0") is None
    assert homes.read_memento("order-0") is None
    assert homes.read_tail("order-0", 0) == []


def test_parts_that_a_commit_does_not_name_stay(homes):
    """Fields and process are replaced only when they are given; the inbox and the events only grow."""
    homes.commit(commit(fields={"hash": "ab"}, process={"state": "a"}, inbox={"one": "1"}))
    homes.commit(commit(expected=1, events=2, published=1, inbox={"two": "2"}))
    found = homes.load("order-7")
    assert (found.head.version, found.head.published, found.head.fields) == (3, 1, {"hash": "ab"})
    assert (found.process, found.inbox) == ({"state": "a"}, {"one": "1", "two": "2"})
    homes.commit(commit(expected=3, fields={}, process={}))
    found = homes.load("order-7")
    assert (found.head.fields, found.process) == ({}, {})


def test_a_tail_has_the_events_above_a_version(homes):
    """The publisher and the gaps of a read model are read by it."""
    homes.commit(commit(events=5))
    assert [one.version for one in homes.read_tail("order-7", 3)] == [4, 5]
    assert homes.read_tail("order-7", 5) == []
    assert [one.version for one in homes.load("order-7", after=4).events] == [5]
    assert homes.load("order-7", after=9).head.version == 5


@pytest.mark.parametrize("expected", [0, 1])
def test_a_commit_over_an_older_version_changes_nothing(homes, expected):
    """Of two writers that read the same version, the second one is refused with all that it brought."""
    homes.commit(commit(process={"by": "first"}, fields={"by": "first"}))
    homes.commit(commit(expected=1))
    before = homes.load("order-7")
    with pytest.raises(ConflictError, match="order-7"):
        homes.commit(
            commit(
                expected=expected,
                events=3,
                process={"by": "second"},
                fields={"by": "second"},
                inbox={"new": "1"},
                memento=Memento(1, 1, b"second"),
            )
        )
    assert homes.load("order-7") == before
    assert homes.read_memento("order-7") is None


@pytest.mark.parametrize("content", ["h1", "h2"])
def test_an_outside_id_enters_once(homes, content):
    """The second message of an id is refused, and its sender learns whether it was the same."""
    homes.commit(commit(inbox={"pay:1": "h1"}))
    before = homes.load("order-7")
    with pytest.raises(DuplicateError) as refused:
        homes.commit(commit(expected=1, inbox={"pay:0": "h0", "pay:1": content}))
    assert (refused.value.id, refused.value.is_same) == ("pay:1", content == "h1")
    assert homes.load("order-7") == before


def test_the_content_of_an_outside_id_is_found(homes):
    """By one request, without the home; ids have any characters."""
    assert homes.find_noted("order-7", "pay:1/ü#?") is None
    homes.commit(commit(inbox={"pay:1/ü#?": "h1"}))
    assert homes.find_noted("order-7", "pay:1/ü#?") == "h1"
    assert homes.find_noted("order-7", "pay:2") is None


def test_a_conflict_comes_before_a_duplicate(homes):
    """A message that comes again to a writer with an old version: the writer must read before it judges."""
    homes.commit(commit(inbox={"pay:1": "h1"}))
    with pytest.raises(ConflictError):
        homes.commit(commit(inbox={"pay:1": "h1"}))


def test_of_ten_commits_at_once_one_is_written(homes):
    """One version has one writer."""
    outcomes = []

    def write(number):
        try:
            homes.commit(commit(events=[event(number)]))
            outcomes.append("written")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 9 + ["written"]
    assert homes.read_head("order-7").version == 1


def test_a_commit_takes_as_many_events_as_a_transaction(homes):
    """One transaction has a hundred rows, two of them for the head and the process."""
    written = homes.commit(commit(events=MOST_EVENTS, process={"state": "a"}))
    assert written.version == MOST_EVENTS == 98
    assert len(homes.load("order-7").events) == MOST_EVENTS


@pytest.mark.parametrize(
    "changes",
    [
        {"events": MOST_EVENTS + 1},
        {"events": MOST_EVENTS, "process": {}, "inbox": {"pay:1": "h1"}},
        {"events": 1, "inbox": {f"pay:{n}": "h" for n in range(99)}},
        {"process": {"text": "x" * 512 * 1024}},
    ],
    ids=["events", "rows", "inbox", "process"],
)
def test_a_commit_beyond_a_transaction_is_refused(homes, changes):
    """A writer learns before the request that its commit does not fit, and what to do."""
    with pytest.raises(CommitTooLargeError, match="order-7"):
        homes.commit(commit(**changes))
    assert homes.load("order-7") is None


def test_a_commit_without_events_is_a_defect(homes):
    """Without an event there is no guard against a second writer."""
    with pytest.raises(ValueError, match="at least one"):
        homes.commit(commit(events=0, process={"state": "a"}))


def test_a_memento_is_stored_with_the_events(homes):
    """The latest memento counts."""
    homes.commit(commit(memento=Memento(1, 4, b"one")))
    homes.commit(commit(expected=1, memento=Memento(2, 5, b"two" * 1000)))
    homes.commit(commit(expected=2))
    assert homes.read_memento("order-7") == Memento(2, 5, b"two" * 1000)


def test_heads_come_in_pages_that_can_be_continued(homes):
    """A migration reads all homes of a kind; a cursor is a text that survives a crash."""
    keys = [f"order-{n}" for n in range(7)]
    for key in [*keys, "seats-1"]:
        homes.commit(commit(key=key))
    found, cursor = [], ""
    while cursor is not None:
        page, cursor = homes.heads("order-", cursor)
        found += page
    assert [key for key, _ in found] == keys
    assert all(head.version == 1 for _, head in found)
    assert homes.heads("nobody-", "") == ((), None)
