"""What a sequence's blob may say, and what follows from it."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import NewerVersionError, SequenceCorruptError, SequenceExhaustedError
from shared.ids import sequence
from shared.ids.explain import NumberFate, explain
from shared.ids.sequence import KEPT, LIMIT, NodeReport, Signature

AT = datetime(2026, 11, 21, 9, tzinfo=UTC)


def sign(node: str = "a", nonce: str = "n") -> Signature:
    """Return a signature."""
    return Signature(node, nonce, AT)


def test_a_page_survives_its_encoding():
    """What is written is what is read: every field of every kind of event."""
    page = sequence.reserve(sequence.create(1, sign()), 10, sign(), NodeReport((range(1, 3),), (range(3, 5),)))
    page = sequence.close(page, [range(7, 11)], [range(5, 6)], sign("b"))
    page = sequence.resume(page, 100, (0, page.next), sign("person"))
    assert sequence.parse(page.encode(), "x") == page


def test_ranges_follow_each_other_without_a_gap_or_an_overlap():
    """Each reservation begins where the one before it ended."""
    first = sequence.reserve(sequence.create(1, sign()), 10, sign())
    second = sequence.reserve(first, 5, sign())
    assert [event.numbers for event in second.events[1:]] == [range(1, 11), range(11, 16)]


def test_only_the_top_is_given_back():
    """Unused numbers below somebody's reservation are left: others may be using those above them."""
    page = sequence.reserve(sequence.reserve(sequence.create(1, sign()), 10, sign("a")), 10, sign("b"))
    assert sequence.close(page, [range(4, 11)], [], sign("a")).next == 21
    assert sequence.close(page, [range(15, 21)], [], sign("b")).next == 15


def test_adjoining_ranges_are_given_back_together():
    """A fetched-ahead range and the rest of the one before it go back as one."""
    page = sequence.reserve(sequence.reserve(sequence.create(1, sign()), 10, sign()), 10, sign())
    assert sequence.close(page, [range(11, 21), range(4, 11)], [], sign()).next == 4


def test_the_last_number_is_the_largest_of_64_bits():
    """A range that passes the signed 64-bit limit is refused, not wrapped."""
    page = sequence.create(LIMIT - 5, sign())
    assert sequence.reserve(page, 5, sign()).next == LIMIT
    with pytest.raises(SequenceExhaustedError):
        sequence.reserve(page, 6, sign())


GOOD = json.loads(sequence.reserve(sequence.create(1, sign()), 10, sign()).encode())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"next": 5}, "next is 5 but its last event ends at 11"),
        ({"next": "11"}, "'11' is not a number"),
        ({"next": -1}, "-1 is not a number"),
        ({"next": True}, "True is not a number"),
        ({"next": 1e3}, "1000.0 is not a number"),
        ({"v": 0}, "its format is 0, this program knows 1"),
        ({"events": []}, "it has no events"),
        ({"events": GOOD["events"][1:] * 2}, "does not follow"),
        ({"events": [{**GOOD["events"][1], "did": "eaten"}]}, "eaten"),
        ({"events": [{**GOOD["events"][1], "stop": 0}]}, "before its start"),
        ({"events": [{**GOOD["events"][1], "at": "yesterday"}]}, "yesterday"),
        ({"spilled": None}, "None is not a number"),
    ],
)
def test_a_page_that_no_generator_wrote_is_refused_with_what_is_wrong(change, told):
    """Whoever edits the blob by hand is told what does not fit, and no id is given."""
    with pytest.raises(SequenceCorruptError, match="No id is given") as caught:
        sequence.parse(json.dumps({**GOOD, **change}).encode(), "ids/x")
    assert told in str(caught.value)
    assert "ids/x" in str(caught.value)


def test_a_page_of_a_newer_version_is_not_taken_for_a_corrupt_one():
    """Whoever resumed it above every id would overwrite it."""
    with pytest.raises(NewerVersionError, match="blob 'ids/x' is a sequence of version 2"):
        sequence.parse(json.dumps({**GOOD, "v": 2}).encode(), "ids/x")


@pytest.mark.parametrize("value", [b"", b"1000", b"null", b"[]", b"\xff\xfe", b"{}", b"[" * 100_000])
def test_any_other_bytes_are_refused_too(value: bytes):
    """An empty blob, Twist's bare number and binary rubbish are all corrupt, never zero."""
    with pytest.raises(SequenceCorruptError):
        sequence.parse(value, "ids/x")


@given(st.binary())
def test_bytes_are_a_page_or_corrupt_and_nothing_else(value: bytes):
    """No content makes a reader fail in any other way than by saying that it is corrupt."""
    try:
        sequence.parse(value, "ids/x")
    except SequenceCorruptError:
        return


def test_a_page_contains_what_it_grew_out_of_and_nothing_else():
    """Older pages, and pages of another history of the same age, are told apart."""
    old = sequence.reserve(sequence.create(1, sign()), 10, sign(nonce="1"))
    grown = sequence.reserve(old, 10, sign(nonce="2"))
    other = sequence.reserve(old, 10, sign(nonce="3"))
    assert grown.contains(old)
    assert grown.contains(grown)
    assert not old.contains(grown)
    assert not other.contains(grown)
    assert not sequence.reserve(other, 10, sign(nonce="4")).contains(grown)


def test_a_full_page_makes_room_without_losing_its_age():
    """After the oldest 64 moved to the log, the page still says how many writes led to it and keeps 64."""
    page = sequence.create(1, sign())
    while not sequence.is_full(page):
        page = sequence.reserve(page, 1, sign())
    room = sequence.without_spilled(page)
    assert (room.writes, len(room.events), room.next) == (page.writes, KEPT, page.next)
    assert sequence.parse(room.encode(), "x") == room


class Story:
    """Applies random writes of two nodes, and remembers what really became of each number."""

    def __init__(self) -> None:
        self.page = sequence.create(1, sign())
        self.held: dict[str, list[range]] = {"a": [], "b": []}
        self.used: set[int] = set()
        self.left: set[int] = set()

    def reserve(self, node: str, size: int) -> None:
        """Let a node take a range."""
        account = NodeReport(open=tuple(span for span in self.held[node] if span))
        self.page = sequence.reserve(self.page, size, sign(node), account)
        self.held[node].append(self.page.events[-1].numbers)

    def use(self, node: str, count: int) -> None:
        """Let a node hand out from its oldest range."""
        if self.held[node]:
            span = self.held[node][0]
            self.used.update(span[:count])
            self.held[node][0] = span[count:]

    def close(self, node: str) -> None:
        """Let a node end."""
        spans = [span for span in self.held[node] if span]
        self.page = sequence.close(self.page, spans, [], sign(node))
        self.left.update(*(span for span in spans))
        self.left -= set(self.page.events[-1].numbers)
        self.held[node] = []


@given(st.lists(st.tuples(st.sampled_from(["reserve", "use", "close"]), st.sampled_from("ab"), st.integers(1, 9))))
def test_explanations_never_contradict_what_happened(steps):
    """For any story of two nodes: what is said to be handed out was, what is said to be left never was."""
    story = Story()
    for step, node, amount in steps:
        if step == "reserve":
            story.reserve(node, amount)
        elif step == "use":
            story.use(node, amount)
        else:
            story.close(node)
    for number in range(1, story.page.next + 3):
        fate = explain(number, story.page.events).fate
        allowed = (
            {NumberFate.HELD, NumberFate.HANDED_OUT}
            if number in story.used
            else {NumberFate.HELD, NumberFate.LEFT, NumberFate.NOT_RESERVED}
        )
        assert fate in allowed
        if number in story.left:
            assert fate is NumberFate.LEFT
        assert (fate is NumberFate.NOT_RESERVED) == (number >= story.page.next)


def test_a_number_older_than_the_log_is_forgotten_not_invented():
    """Where the log was deleted, the answer says so instead of guessing."""
    page = sequence.reserve(sequence.reserve(sequence.create(1, sign()), 10, sign()), 10, sign())
    kept = replace(page, events=page.events[2:], spilled=2)
    assert explain(5, kept.events).fate is NumberFate.FORGOTTEN


def test_an_explanation_reads_as_a_sentence():
    """The operator is told who, when, and what follows for a missing number."""
    page = sequence.reserve(sequence.create(1, sign()), 10, sign("vm1/77"))
    text = str(explain(4, page.events))
    assert "4 was reserved by vm1/77 at 2026-11-21 09:00:00 UTC" in text
    assert "lost with the process" in text
