"""A column of a list, written once: the command prints it, and the console draws it.

The type of a value says how it is shown. A number stands at the right, a moment is in UTC, a state has a tone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Generic, TypeVar

_Row = TypeVar("_Row")


class Tone(StrEnum):
    """How urgent a state is: a colour beside its words."""

    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    CALM = "calm"


_TONES: Final = {
    Tone.GOOD: "complete, open, done, open once, confirmed, switched",
    Tone.BAD: "paused, unbalanced, unreadable, missed, stuck, stands still, failed: all parked",
    Tone.WARN: "completed with parked, predicted late, waits too long, parked, replaying, replayed, partially reserved, "
    "rejected, rolled back",
    Tone.BUSY: "running, stopping, dispatching, finishing, planning, placed, reserved, building, doubling",
}
_TONE_OF: Final = {state: tone for tone, states in _TONES.items() for state in states.split(", ")}


def tone_of(words: str) -> Tone:
    """Return the tone of a state, by its words."""
    return _TONE_OF.get(words.replace("_", " ").replace(",", ""), Tone.CALM)


@dataclass(frozen=True, slots=True)
class StateMark:
    """A state, as people type it into filters."""

    words: str


@dataclass(frozen=True, slots=True)
class HowFar:
    """How many parts of a whole have ended. `parked` are among them."""

    ended: int
    parked: int
    whole: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Counts of equal times, the last one at the end."""

    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Aside:
    """Words beside a value, in small letters."""

    words: str
    at: datetime | None = None


Value = str | int | float | datetime | StateMark | HowFar | Trend | None


# Without slots: `ListColumn[Row](...)` is refused with them.
@dataclass(frozen=True)
class ListColumn(Generic[_Row]):
    """One column: its head, and what it reads of a row at a moment."""

    head: str
    read: Callable[[_Row, datetime], Value]
    #: What stands beside the value.
    notes: Callable[[_Row, datetime], Iterable[Aside | StateMark]] = lambda _row, _now: ()
    #: The page that says more, and what its address takes of the row.
    page: str = ""
    parts: Callable[[_Row], Mapping[str, str | None]] = lambda _row: {}
    #: Holds moments, or numbers.
    is_time: bool = False
    is_number: bool = False


def describe_duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    whole = max(0, int(seconds))
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])
