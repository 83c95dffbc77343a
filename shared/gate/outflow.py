"""Releases what one gate holds, in an order and within a time, by one instance or by several.

Up to about a page of entries are one instance's work: no lease, no further signal. More than that are divided into
slices. Each is announced by a signal of its own and guarded by a lease. Their announcer takes slices too, so all of them
are released even if no signal arrives. Entries that were left are found by a further signal or by the tick.

The order: entries with a deadline come first, by their slack, then all others by their id. A slice keeps that order for
itself, with about a thousand of its entries with a deadline. Slices do not wait for each other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.clock import Clock
from shared.gate.batches import Batches
from shared.gate.held import SLICES
from shared.gate.held_work import HeldWork, Startable
from shared.gate.receipts import NO_MARK, OneMark, SeenBy, make_mark
from shared.gate.slices import Slices
from shared.gate.state import GateState, is_name
from shared.signals import Hint

#: Entries that one instance releases without sharing them: a page of the table.
MOST_ALONE: Final = 1000


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The outcome of one release."""

    put: int = 0
    failed: int = 0
    #: Where another invocation goes on, if the time was up.
    left: Hint | None = None
    #: Whether other invocations release a part of it, or that part was not begun.
    is_shared: bool = False
    #: The gate state that the release went by.
    state: GateState | None = field(default=None, compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """True if nothing that may start is left behind the gate."""
        return not (self.failed or self.left or self.is_shared)

    def __add__(self, other: "Dispatched") -> "Dispatched":
        return Dispatched(
            self.put + other.put,
            self.failed + other.failed,
            self.left or other.left,
            self.is_shared or other.is_shared,
            self.state or other.state,
        )


def is_place(hint: Hint) -> bool:
    """Check whether a signal names a gate and, if any, one of its slices."""
    return is_name(hint.gate) and (hint.slice is None or 0 <= hint.slice < SLICES)


def no_prediction() -> float:
    """Predict no time for a chunk: the slack is the time until the deadline."""
    return 0.0


class Outflow:
    """Releases the entries behind gates. One per process."""

    def __init__(
        self,
        work: HeldWork,
        batches: Batches,
        slices: Slices,
        clock: Clock,
        chunk_seconds: Callable[[], float] = no_prediction,
    ) -> None:
        self._work, self._batches, self._slices, self._clock = work, batches, slices, clock
        self._chunk_seconds = chunk_seconds

    def run(
        self,
        state: GateState,
        place: Hint,
        until: float,
        announce: Callable[[Sequence[Hint]], object],
        how: SeenBy | None = None,
    ) -> Dispatched:
        """Release what may start by this state of the gate, from that place on.

        After `until`, in the clock's monotonic seconds, no further entry is begun. `announce` has other invocations
        take these slices. `how` the caller saw the opening is marked on the first chunk.
        """
        # An invocation that goes on is not the first.
        mark = NO_MARK if place.since else make_mark(place.gate, state, how)
        release = _Release(place.gate, state, until, mark)
        if place.slice is not None:
            return self._release_slice(release, place.slice, place.since)
        due, is_all = _gather(self._work.due_pages(state, place.gate, place.since))
        if is_all:
            return self._start(release, due)
        announce([Hint(place.gate, slice=number) for number in range(SLICES)])
        # Rows of an earlier version are in no slice.
        done = self._start(release, [one for one in due if one.entry.slice is None])
        # The others begin at the other end.
        for number in reversed(range(SLICES)):
            if self._clock.monotonic() >= until:
                return done + Dispatched(is_shared=True)
            done += self._release_slice(release, number, "")
        return done

    def _start(self, release: "_Release", due: Iterable[Startable]) -> Dispatched:
        seconds = self._chunk_seconds()
        ordered = sorted(due, key=lambda one: one.entry.order(seconds))
        started = self._batches.start(ordered, release.until, release.mark)
        left = Hint(release.gate, since=started.left) if started.left else None
        return Dispatched(started.put, started.failed, left, state=release.state)

    def _release_slice(self, release: "_Release", number: int, since: str) -> Dispatched:
        with self._slices.lease(release.gate, number) as is_mine:
            if not is_mine:
                return Dispatched(is_shared=True, state=release.state)
            return self._release_leased(release, number, since)

    def _release_leased(self, release: "_Release", number: int, since: str) -> Dispatched:
        state, gate = release.state, release.gate
        done, tried = Dispatched(state=state), set[str]()
        if not since:
            urgent, _ = _gather(self._work.due_pages(state, gate, number=number, is_urgent=True))
            done += self._start(release, urgent)
            if done.left:
                # Of the others, none was tried.
                return _leave_at(done, Hint(gate, slice=number))
            tried = {one.entry.id for one in urgent}
        for page in self._work.due_pages(state, gate, since, number=number):
            done += self._start(release, [one for one in page if one.entry.id not in tried])
            if done.left:
                return _leave_at(done, Hint(gate, since=done.left.since, slice=number))
            if self._clock.monotonic() >= release.until:
                last = page[-1].entry.id if page else since
                return _leave_at(done, Hint(gate, since=last, slice=number))
        return done


@dataclass(frozen=True, slots=True)
class _Release:
    gate: str
    state: GateState
    until: float
    mark: OneMark


def _leave_at(done: Dispatched, place: Hint) -> Dispatched:
    return Dispatched(done.put, done.failed, place, done.is_shared, done.state)


def _gather(pages: Iterable[list[Startable]]) -> tuple[list[Startable], bool]:
    """Return the entries of the first pages, and whether these are all."""
    found: list[Startable] = []
    for page in pages:
        found += page
        if len(found) > MOST_ALONE:
            return found, False
    return found, True
