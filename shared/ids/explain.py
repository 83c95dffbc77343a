"""The node that held a number, and why the number may be missing: a pure reading of a sequence's events."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.azure import OptimisticStore
from shared.ids import book, sequence
from shared.ids.sequence import Sequence, SequenceWrite, WriteKind, parse_events


class NumberFate(StrEnum):
    """The fate of a number."""

    #: The sequence has not reached it, or it was given back.
    NOT_RESERVED = "not reserved"
    #: Its node reported later that it had handed it out.
    HANDED_OUT = "handed out"
    #: Its node had it at its last report: handed out since, or lost with the node.
    HELD = "held"
    #: Its node reported that it never handed it out, and others had reserved above it.
    LEFT = "left"
    #: A person stepped over it.
    STEPPED_OVER = "stepped over"
    #: Its event is older than the log that is kept.
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The story of one number."""

    number: int
    fate: NumberFate
    #: The reservation it belongs to, if any.
    reservation: SequenceWrite | None
    #: The last event by that node, on which the fate rests.
    heard: SequenceWrite | None
    #: Earlier reservations that gave it back.
    returned: tuple[SequenceWrite, ...] = ()

    def time_of_draw(self, now: datetime) -> tuple[datetime, datetime] | None:
        """Return the time in which a user got the number. None: no user got it, or its log is gone."""
        if self.reservation is None or self.heard is None:
            return None
        if self.fate is NumberFate.HANDED_OUT:
            return self.reservation.by.at, self.heard.by.at
        return (self.reservation.by.at, now) if self.fate is NumberFate.HELD else None

    def __str__(self) -> str:
        """Return the story in one sentence."""
        held = self.reservation
        if held is None or self.heard is None:
            return f"{self.number} is {self.fate}"
        who = f"{self.number} was reserved by {held.by.node} at {held.by.at:%Y-%m-%d %H:%M:%S} UTC"
        heard = f"{self.heard.by.at:%Y-%m-%d %H:%M:%S} UTC"
        ends = {
            NumberFate.HANDED_OUT: f"handed out before {heard}: if it is missing, its user dropped it",
            NumberFate.HELD: f"still held when the node was last heard of at {heard}: handed out since, or lost with the process",
            NumberFate.LEFT: f"never handed out: the node gave it up before {heard}, when higher numbers were already taken",
            NumberFate.STEPPED_OVER: "stepped over when the sequence was resumed after a loss",
        }
        return f"{who}, {ends[self.fate]}"


def explain(number: int, events: Iterable[SequenceWrite]) -> Explanation:
    """Return the story of a number from events in order, the oldest kept first."""
    story = Explanation(number, NumberFate.NOT_RESERVED, None, None)
    is_first = True
    for event in events:
        if is_first and number < event.before:
            story = Explanation(number, NumberFate.FORGOTTEN, None, None)
        is_first = False
        story = _follow(story, event)
    return story


def _follow(story: Explanation, event: SequenceWrite) -> Explanation:
    number, held = story.number, story.reservation
    if event.kind is WriteKind.RESUMED and number in event.numbers:
        return Explanation(number, NumberFate.STEPPED_OVER, event, event, story.returned)
    if event.kind is WriteKind.RESERVED and number in event.numbers:
        return Explanation(number, NumberFate.HELD, event, event, story.returned)
    if event.kind is WriteKind.CLOSED and number in event.numbers:
        before = (held,) if held else ()
        return Explanation(number, NumberFate.NOT_RESERVED, None, None, story.returned + before)
    if story.fate is NumberFate.HELD and held is not None and event.by.node == held.by.node:
        return Explanation(number, _fate_by_report(number, event), held, event, story.returned)
    return story


def _fate_by_report(number: int, event: SequenceWrite) -> NumberFate:
    if any(number in span for span in event.report.left):
        return NumberFate.LEFT
    if any(number in span for span in event.report.open):
        return NumberFate.HELD
    return NumberFate.HANDED_OUT


def explain_in(store: OptimisticStore, number: int) -> Explanation:
    """Return the story of a number from a sequence's blob and, for an older number, from its log."""
    page = read_sequence(store)
    if page is None:
        return Explanation(number, NumberFate.NOT_RESERVED, None, None)
    first = _block_before(store, page, number)
    return explain(number, (*book.read_log(store, page.spilled, first), *page.events))


def read_sequence(store: OptimisticStore) -> Sequence | None:
    """Return the content of a sequence's blob, or None if there is no blob. It changes nothing."""
    snapshot = store.read()
    return sequence.parse(snapshot.value, store.name) if snapshot else None


def _block_before(store: OptimisticStore, page: Sequence, number: int) -> int:
    """Return the block of the log to begin with, found by bisection: at or before the number's reservations."""
    low, high = 0, page.spilled // sequence.KEPT
    while low < high:
        middle = (low + high) // 2
        found = book.block(store, middle * sequence.KEPT).read()
        # A deleted block is old, and every block after it may matter.
        if found is None or next(parse_events(found.value)).before <= number:
            low = middle + 1
        else:
            high = middle
    # Closes move the next number back by less than a block holds, so a margin of blocks covers numbers given back.
    return max(low - 2, 0) * sequence.KEPT
