"""The generator of short numbers, unique over every instance, thread, process, crash and restore, from one small blob.

- A caller without a number waits, with a deadline, for the fetch that one thread does for all.
- A forked child would hand out the ids of its parent, so every generator is disowned there.
- After a loss or a restore, `resume` is the one way on: a person says which numbers may be in use.
"""

import asyncio
import os
import secrets
import socket
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from shared.azure import OptimisticStore, Snapshot
from shared.clock import Clock, SystemClock
from shared.closing import ClosingEitherWay
from shared.errors import ContentionError, SequenceCorruptError, WaitExpiredError
from shared.ids import book, sequence
from shared.ids.book import MARKER
from shared.ids.history import LIMIT, Signature
from shared.ids.reservations import Reservations, Sizing
from shared.ids.sequence import Sequence
from shared.ids.supply import Flight, Pool, Supply, drain, lane


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
