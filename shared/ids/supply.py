"""The numbers that a process holds, and the one thread that fetches more before they run out.

- `Pool`: the ranges in memory that are not handed out.
- A lane: the part of a range that many threads take from, one by one, without a lock.
- `Supply`: the pool under a lock, and the refills.

With the interpreter lock, one step of a `range` iterator is atomic for all threads. A free-threaded build (3.13 and
later, `Py_GIL_DISABLED`) does not promise that and may hand one number to two threads. There, each step takes a lock.
"""

import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from shared.clock import Clock
from shared.errors import GeneratorClosedError, SluiceError
from shared.ids import book
from shared.ids.history import NodeReport
from shared.ids.reservations import IdDemand, Reservations, Sizing, low_mark, next_size
from shared.telemetry import describe_error, events, tell

#: The most ranges in a pool. Remnants too small for the wanted blocks would pile up without end. Beyond this number the
#: shortest is given up, and the log says so.
MOST_SPANS: Final = 8


class Pool:
    """Ranges of numbers, handed out from the oldest. Used under its owner's lock."""

    def __init__(self) -> None:
        self._spans: deque[range] = deque()
        self._left: list[range] = []
        self._lent = range(0)
        #: The number of ids in it.
        self.size = 0

    def add(self, numbers: range) -> None:
        """Add a range. If it follows the newest one, join the two, so that larger blocks fit."""
        self.size += len(numbers)
        if self._spans and self._spans[-1].stop == numbers.start:
            numbers = range(self._spans.pop().start, numbers.stop)
        self._spans.append(numbers)
        if len(self._spans) > MOST_SPANS:
            shortest = min(self._spans, key=len)
            self._spans.remove(shortest)
            self._left.append(shortest)
            self.size -= len(shortest)

    def lend(self, most: int) -> range | None:
        """Take up to `most` numbers to hand out one by one. They count as open until the next are lent."""
        if not self._spans:
            return None
        self._lent = self._take(0, min(most, len(self._spans[0])))
        return self._lent

    def block(self, count: int) -> range | None:
        """Take exactly `count` consecutive numbers from the oldest range that has them, or return None."""
        for place, span in enumerate(self._spans):
            if len(span) >= count:
                return self._take(place, count)
        return None

    def _take(self, place: int, count: int) -> range:
        span = self._spans[place]
        if len(span) == count:
            del self._spans[place]
        else:
            self._spans[place] = span[count:]
        self.size -= count
        return span[:count]

    def open(self) -> tuple[range, ...]:
        """Return the ranges that are not handed out, or not certainly."""
        return (self._lent, *self._spans) if self._lent else tuple(self._spans)

    def take_left(self) -> tuple[range, ...]:
        """Take the ranges that were given up since the last call."""
        left, self._left = tuple(self._left), []
        return left

    def take_all(self) -> tuple[range, ...]:
        """Take all numbers that are not lent."""
        spans = tuple(self._spans)
        self._spans.clear()
        self.size = 0
        return spans


IS_FREE_THREADED: Final = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


class LockedLane:
    """Iterator over a range that hands each number to one thread on any build."""

    def __init__(self, numbers: range) -> None:
        self._numbers, self._lock = iter(numbers), threading.Lock()

    def __iter__(self) -> "LockedLane":
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)

    def rest(self) -> list[int]:
        """Take all remaining numbers in one step."""
        with self._lock:
            return list(self._numbers)


Lane: TypeAlias = Iterator[int]


def lane(numbers: range) -> Lane:
    """Return an iterator that threads may share."""
    return LockedLane(numbers) if IS_FREE_THREADED else iter(numbers)


def drain(shared: Lane) -> range:
    """Take all remaining numbers. A thread that still holds the lane finds it empty from then on.

    The lane is emptied, not replaced. Otherwise a thread that has read the attribute but not yet taken its number would
    take one that is about to be given back.
    """
    rest = shared.rest() if isinstance(shared, LockedLane) else list(shared)
    return range(rest[0], rest[-1] + 1) if rest else range(0)


_Taken = TypeVar("_Taken")
#: Loans per range: at each loan it is decided whether to fetch the next range.
_LOANS: Final = 8
#: Attempts of a close: a few seconds, not a minute.
_CLOSE_ATTEMPTS: Final = 12
#: A running refill. Its result is the failure, if any, and not an exception: perhaps no caller waits for it.
Flight: TypeAlias = Future[SluiceError | None]


class Supply:
    """Numbers under a lock, refilled by at most one flight at a time."""

    def __init__(
        self, reservations: Reservations, sizing: Sizing, clock: Clock, max_attempts: int, *, prefetch: bool
    ) -> None:
        self._reservations, self._sizing, self._clock = reservations, sizing, clock
        self._is_prefetching = prefetch
        self._closing = threading.Event()
        self._retry = replace(book.WRITES, attempts=max_attempts, pause=self._closing.wait)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sluice-ids")
        self._flight: Flight | None = None
        self._lock = threading.Lock()
        self._refusal = ""
        self._pool = Pool()
        self._demand, self._measured = IdDemand(), clock.monotonic()
        #: The numbers in the pool when the rate was last measured, plus those added since.
        self._supplied = 0
        #: The size of the last wanted block. Ranges consist of whole blocks, or their ends would fit no block.
        self._block = 1

    def take(self, draw: Callable[[Pool, int], _Taken | None], block: int = 1) -> _Taken | Flight:
        """Return the numbers that `draw` takes from the pool, or the flight to wait for before the next try."""
        with self._lock:
            if self._refusal:
                raise GeneratorClosedError(self._refusal)
            taken = draw(self._pool, max(self._demand.previous // _LOANS, 1))
            if taken is None:
                self._block = block
                return self._fly()
            if self._is_prefetching and self._pool.size <= low_mark(self._demand, self._sizing):
                self._fly()
            return taken

    def prepare(self) -> None:
        """Begin to fetch the first numbers, unless that has begun."""
        with self._lock:
            if not self._refusal and not self._demand.previous:
                self._fly()

    def refuse(self, refusal: str) -> bool:
        """Refuse every later call with this message. Return False if it was refused before."""
        with self._lock:
            was_refused, self._refusal = bool(self._refusal), self._refusal or refusal
            return not was_refused

    def disown(self, refusal: str) -> None:
        """Refuse in a forked child, where the thread that held the lock or ran the flight does not exist."""
        self._lock = threading.Lock()
        self._refusal = refusal

    def close(self, rest: Callable[[], range]) -> None:
        """Wait for a running flight, then give back the unused numbers, `rest` of the lent ones included."""
        self._closing.set()
        self._worker.shutdown()
        # Only now: no flight can add to the pool any more.
        unused = (rest(), *self._pool.take_all())
        if not self._demand.previous:
            return
        try:
            self._reservations.close(unused, self._pool.take_left(), replace(book.WRITES, attempts=_CLOSE_ATTEMPTS))
        except SluiceError as error:
            # These numbers are gaps now, which the log explains as held by this node. Closing must not fail for that.
            tell(events.IDS_CLOSE_FAILED, node=self._reservations.node, error=describe_error(error))

    def _fly(self) -> Flight:
        if self._flight is None or self._flight.done():
            # In a copy of the context, so that its requests are counted for the caller that needed the numbers.
            self._flight = self._worker.submit(copy_context().run, self._refill)
        return self._flight

    def _refill(self) -> SluiceError | None:
        size, report = self._measure()
        try:
            reserved = self._reservations.reserve(size, report, self._retry)
        except SluiceError as error:
            # A refill that was cut short by a close is no failure.
            if not self._closing.is_set():
                tell(events.IDS_REFILL_FAILED, node=self._reservations.node, error=describe_error(error))
            return error
        with self._lock:
            self._pool.add(reserved.numbers)
            self._supplied += len(reserved.numbers)
            self._demand = self._demand.after_refill(len(reserved.numbers), reserved.conflicts)
        return None

    def _measure(self) -> tuple[int, NodeReport]:
        with self._lock:
            now = self._clock.monotonic()
            drawn = self._supplied - self._pool.size
            self._demand = self._demand.after_drawing(drawn, now - self._measured)
            self._measured, self._supplied = now, self._pool.size
            size = next_size(self._demand, self._sizing)
            blocks = -(-size // self._block)
            return blocks * self._block, NodeReport(self._pool.open(), self._pool.take_left())
