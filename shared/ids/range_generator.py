"""Short numbers, unique over every instance, thread, process, crash and restore, from one small blob."""

import os
import secrets
import socket
from datetime import timedelta

from shared.clock import Clock, SystemClock
from shared.closing import ClosingEitherWay
from shared.ids.event import LIMIT
from shared.ids.forking import disown_in_children
from shared.ids.lane import drain, lane
from shared.ids.pool import Pool
from shared.ids.reservations import Reservations
from shared.ids.sizing import Sizing
from shared.ids.store import OptimisticStore
from shared.ids.supply import Supply
from shared.ids.waiting import Flight, take, take_async


def node_name() -> str:
    """Return a name for this node that no other has had: machine, process, and a random part for each generator."""
    return f"{socket.gethostname()[:40]}/{os.getpid()}/{secrets.token_hex(3)}"


class RangeGenerator(ClosingEitherWay):
    """Hands out the ids of one sequence; safe for any number of threads, and for coroutines.

    Ids are unique and rise roughly: not across nodes, nor between `next_id` and `next_ids`. Use it as a context
    manager, or call `close`, which gives unused numbers back. A forked child must make its own.
    """

    def __init__(  # noqa: PLR0913  # all but the store have a default that suits
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
        """Fetch the first range in the background: for a process that will need an id soon, and not wait for it."""
        self._supply.prepare()

    def next_id(self) -> int:
        """Return the next id; without a lock and without I/O in the steady state."""
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
        """Return a block of adjoining ids, which may be larger than a range."""
        _check(count)
        return take(lambda: self._block(count), self._clock, self._wait, self._what)

    async def anext_ids(self, count: int) -> range:
        """Return a block of adjoining ids without blocking the event loop."""
        _check(count)
        return await take_async(lambda: self._block(count), self._clock, self._wait, self._what)

    def close(self) -> None:
        """End: wait for a running refill, give back what is still the top of the sequence, note what is left.

        Safe to call twice; a storage that fails now costs the unused numbers, not an error.
        """
        if self._supply.refuse(f"the generator of {self._store.name!r} is closed; make a new one"):
            self._supply.close(lambda: drain(self._lane))

    def disown(self) -> None:
        """Refuse every call from now on without writing anything: the numbers belong to the process forked from."""
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
        # Another thread may have put a new lane in place while this one waited for the lock.
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
        raise TypeError(f"the generator of {self._store.name!r} has no copies: two would hand out the same numbers")


def _check(count: int) -> None:
    if not 1 <= count <= LIMIT:
        raise ValueError(f"asked for {count} ids, expected 1 or more")
