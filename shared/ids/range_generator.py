"""The generator of short numbers, unique over every instance, thread, process, crash and restore, from one small blob.

- A caller without a number waits, with a deadline, for the fetch that one thread does for all.
- A forked child would hand out the ids of its parent, so every generator is disowned there.
- After a loss or a restore, `resume` is the one way on: a person says which numbers may be in use.

The numbers that a process holds, and the one thread that fetches more before they run out.

- `Pool`: the ranges in memory that are not handed out.
- A lane: the part of a range that many threads take from, one by one, without a lock.
- `Supply`: the pool under a lock, and the refills.

With the interpreter lock, one step of a `range` iterator is atomic for all threads. A free-threaded build (3.13 and
later, `Py_GIL_DISABLED`) does not promise that and may hand one number to two threads. There, each step takes a lock.
"""

import asyncio
import os
import secrets
import socket
import sysconfig
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias, TypeVar

from shared.azure import OptimisticStore, Snapshot
from shared.clock import Clock, ClosingEitherWay, SystemClock
from shared.errors import ContentionError, GeneratorClosedError, SequenceCorruptError, SluiceError, WaitExpiredError
from shared.ids import book, sequence
from shared.ids.book import MARKER, IdDemand, Reservations, Sizing, low_mark, next_size
from shared.ids.sequence import LIMIT, NodeReport, Sequence, Signature
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


class Disownable(Protocol):
    """Something that belongs to the process that made it."""

    def disown(self) -> None:
        """Refuse every later use, without touching storage."""
        ...


_owned: Final[weakref.WeakSet[Disownable]] = weakref.WeakSet()


def disown_in_children(generator: Disownable) -> None:
    """Register the generator to be disowned in every child that is forked while it lives."""
    _owned.add(generator)


def _disown_all() -> None:
    for generator in tuple(_owned):
        generator.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def node_name() -> str:
    """Return a name for this node that no other has had: machine, process, and a random part per generator."""
    return f"{socket.gethostname()[:40]}/{os.getpid()}/{secrets.token_hex(3)}"


class RangeGenerator(ClosingEitherWay):
    """Hands out the ids of one sequence. Safe for any number of threads, and for coroutines.

    Ids are unique and rise roughly, but not across nodes, and not between `next_id` and `next_ids`. Use it as a context
    manager, or call `close`, which gives unused numbers back. A forked child must make its own.
    """

    def __init__(  # noqa: PLR0913  # all but the store have a fitting default
        self,
        store: OptimisticStore,
        range_size: int = 1000,
        max_attempts: int = 25,
        *,
        sizing: Sizing | None = None,
        prefetch: bool = True,
        wait: timedelta = timedelta(seconds=30),
        first_id: int = 1,
        node: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._wait = store, wait.total_seconds()
        self._clock = clock or SystemClock()
        sizing = sizing or Sizing.up_to(range_size)
        reservations = Reservations(store, node or node_name(), self._clock.now, first_id)
        self.node = reservations.node
        self._supply = Supply(reservations, sizing, self._clock, max_attempts, prefetch=prefetch)
        self._lane = lane(range(0))
        disown_in_children(self)

    def prepare(self) -> None:
        """Fetch the first range in the background, for a process that will need an id soon and should not wait then."""
        self._supply.prepare()

    def next_id(self) -> int:
        """Return the next id, without a lock and without I/O in the steady state."""
        # A `for` over the lane is the fastest indivisible step there is: no call, no lock, no exception at its end.
        for taken in self._lane:
            return taken
        return take(self._one, self._clock, self._wait, self._what)

    async def anext_id(self) -> int:
        """Return the next id without blocking the event loop."""
        for taken in self._lane:
            return taken
        return await take_async(self._one, self._clock, self._wait, self._what)

    def next_ids(self, count: int) -> range:
        """Return a block of consecutive ids, which may be larger than a range."""
        _check(count)
        return take(lambda: self._block(count), self._clock, self._wait, self._what)

    async def anext_ids(self, count: int) -> range:
        """Return a block of consecutive ids without blocking the event loop."""
        _check(count)
        return await take_async(lambda: self._block(count), self._clock, self._wait, self._what)

    def close(self) -> None:
        """Wait for a running refill, give back the numbers at the top of the sequence, and record the others as left.

        Safe to call twice. If storage fails now, the unused numbers are lost, and no error is raised.
        """
        if self._supply.refuse(f"the generator of {self._store.name!r} is closed; make a new one"):
            self._supply.close(lambda: drain(self._lane))

    def disown(self) -> None:
        """Refuse every call from now on, without writing: the numbers belong to the parent process."""
        self._lane = lane(range(0))
        self._supply.disown(
            f"the generator of {self._store.name!r} was made before this process was forked, and its numbers stay with "
            "the parent; make a generator, and its client, in the child"
        )

    @property
    def _what(self) -> str:
        return f"id of {self._store.name!r}"

    def _one(self) -> int | Flight:
        return self._supply.take(self._from_lane)

    def _from_lane(self, pool: Pool, most: int) -> int | None:
        # Another thread may have set a new lane while this one waited for the lock.
        for taken in self._lane:
            return taken
        lent = pool.lend(most)
        if lent is None:
            return None
        self._lane = lane(lent[1:])
        return lent[0]

    def _block(self, count: int) -> range | Flight:
        return self._supply.take(lambda pool, _: pool.block(count), count)

    def __reduce__(self) -> str:
        raise TypeError(f"the generator of {self._store.name!r} cannot be copied: two would hand out the same numbers")


def _check(count: int) -> None:
    if not 1 <= count <= LIMIT:
        raise ValueError(f"the count of ids is {count}, expected 1 or more and at most {LIMIT}")


_Number = TypeVar("_Number")


def take(attempt: Callable[[], _Number | Flight], clock: Clock, wait: float, what: str) -> _Number:
    """Return the number of an attempt. Wait for each flight it returns instead, up to `wait` seconds together."""
    deadline = None
    while isinstance(flight := attempt(), Future):
        deadline = clock.monotonic() + wait if deadline is None else deadline
        try:
            failure = flight.result(max(deadline - clock.monotonic(), 0))
        except TimeoutError as expired:
            raise _expired_error(what, wait) from expired
        if failure is not None:
            raise failure
    return flight


async def take_async(attempt: Callable[[], _Number | Flight], clock: Clock, wait: float, what: str) -> _Number:
    """Return the number of an attempt as `take` does, without blocking the event loop."""
    deadline = None
    while isinstance(flight := attempt(), Future):
        deadline = clock.monotonic() + wait if deadline is None else deadline
        # asyncio.wait cancels nothing when the time is up: other callers wait for the same flight.
        done, _ = await asyncio.wait([asyncio.wrap_future(flight)], timeout=max(deadline - clock.monotonic(), 0))
        if not done:
            raise _expired_error(what, wait)
        failure = flight.result()
        if failure is not None:
            raise failure
    return flight


def _expired_error(what: str, wait: float) -> WaitExpiredError:
    return WaitExpiredError(
        f"no {what} within {wait:g} s, and storage has not answered yet; check the storage account, then try again"
    )


def resume(store: OptimisticStore, above: int, who: str, now: datetime) -> Sequence:
    """Continue the sequence above the given number, for any content of its blob, and return the new content.

    `above` must be the highest id that may have been given, numbers held by running processes included. Stop or restart
    these processes: they have seen the lost history and refuse this one. It never moves a sequence back.
    """
    snapshot = store.read()
    by = Signature(who, secrets.token_hex(8), now.replace(microsecond=0))
    page = _readable(snapshot, store.name) or sequence.create(0, by)
    resumed = sequence.resume(page, above + 1, book.end(store, page), by)
    # A sequence that was lost once must not be taken for a new one later.
    store.beside(MARKER).try_write(b"{}\n", None)
    if store.try_write(resumed.encode(), snapshot.etag if snapshot else None) is None:
        raise ContentionError(
            f"blob {store.name!r} was changed by another process while it was resumed; read it again, then repeat"
        )
    return resumed


def _readable(snapshot: Snapshot | None, name: str) -> Sequence | None:
    try:
        return sequence.parse(snapshot.value, name) if snapshot else None
    except SequenceCorruptError:
        return None
