"""Reading a view: the pointer says which version, and one request reads its row.

How long an answer about free seats may be kept: the closer to the end of the seats, the shorter.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from shared.clock import Clock
from shared.readmodels.pointers import KeptPointer, Slot
from shared.readmodels.projection import ViewKey
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace


class ViewReader:
    """Reads the rows of one model, in the version that is current."""

    def __init__(self, pointer: KeptPointer, slots: Mapping[Slot, SlotTable]) -> None:
        self._pointer, self._slots = pointer, slots

    def find(self, key_of: Callable[[int], ViewKey | None]) -> StoredView | None:
        """Return the row, or None. `key_of` makes its key for the number of the current version, or says that there is no row.

        One request, and one for the pointer every two seconds. A missing row is believed only under a pointer that is
        still young after the read: a reader that stood still may have read a slot that was emptied meanwhile.
        """
        while True:
            pointer = self._pointer.get()
            key = key_of(pointer.current)
            place = key and ViewPlace.of(pointer.model, pointer.current, key)
            found = self._slots[pointer.slot].find(place) if place else None
            if found is not None or self._pointer.is_young():
                return found


#: Answers that a process keeps.
MOST_ANSWERS: Final = 1000


class Rung(NamedTuple):
    """A rung of a ladder: with at least so much left, an answer is kept for so long."""

    at_least: int
    keep: timedelta


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs, from the highest down, and the time for an answer that says that nothing is left."""

    rungs: tuple[Rung, ...]
    #: An answer "sold out" is wrong as soon as something is given back. Most customers come just then. So it is kept,
    #: but no longer than customers may be turned away wrongly.
    sold_out: timedelta

    def keep(self, remaining: Iterable[int]) -> timedelta:
        """Return how long an answer may be kept. The scarcest kind that is not sold out decides."""
        left = [count for count in remaining if count > 0]
        if not left:
            return self.sold_out
        return next((rung.keep for rung in self.rungs if min(left) >= rung.at_least), timedelta())


class Lasting(Protocol):
    """A value that says how long it may be kept."""

    @property
    def keep(self) -> timedelta:
        """How long."""
        ...


_Value = TypeVar("_Value", bound=Lasting)


class Answer(NamedTuple, Generic[_Value]):
    """An answer, and whether it was kept in memory. A fresh one cannot be stale, a kept one can."""

    value: _Value | None
    is_kept: bool
    #: How much longer a receiver may keep it: that counts from now, not anew.
    left: timedelta = timedelta()


class KeptAnswers(Generic[_Value]):
    """Answers of one process by their keys. Several threads may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._kept: OrderedDict[str, tuple[_Value, float]] = OrderedDict()

    def get(self, key: str, within: timedelta, read: Callable[[], _Value | None]) -> Answer[_Value]:
        """Return the kept answer if it is younger than `within` and than it may be kept, or read and keep it."""
        asked = self._clock.monotonic()
        with self._lock:
            kept = self._kept.get(key)
        if kept and (age := asked - kept[1]) < min(within, kept[0].keep).total_seconds():
            return Answer(kept[0], is_kept=True, left=kept[0].keep - timedelta(seconds=age))
        value = read()
        if value is None:
            return Answer(None, is_kept=False)
        self._keep(key, value, asked)
        return Answer(value, is_kept=False, left=value.keep)

    def _keep(self, key: str, value: _Value, asked: float) -> None:
        with self._lock:
            self._kept[key] = (value, asked)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_ANSWERS:
                self._kept.popitem(last=False)
