"""The numbers a process holds, and the one thread that fetches more before they run out."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Final, TypeVar

from shared.clock import Clock
from shared.errors import GeneratorClosedError, SluiceError
from shared.ids import book
from shared.ids.event import Account
from shared.ids.pool import Pool
from shared.ids.reservations import Reservations
from shared.ids.sizing import Demand, Sizing, low_mark, next_size
from shared.ids.waiting import Flight
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told

_Taken = TypeVar("_Taken")
#: Part of a range that is lent at a time: at each one it is decided whether to fetch the next range.
_LOANS: Final = 8
#: A close is worth a few seconds, not a minute.
_CLOSE_ATTEMPTS: Final = 12


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
        self._demand, self._measured = Demand(), clock.monotonic()
        #: What the pool held when the rate was last measured, and what came in since.
        self._supplied = 0
        #: Size of the block asked for last: ranges are made of whole blocks, or their ends would never fit one.
        self._block = 1

    def take(self, draw: Callable[[Pool, int], _Taken | None], block: int = 1) -> _Taken | Flight:
        """Return what `draw` takes of the pool, or the flight to wait for before trying again."""
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
        """Begin to fetch the first numbers, if nobody has."""
        with self._lock:
            if not self._refusal and not self._demand.previous:
                self._fly()

    def refuse(self, refusal: str) -> bool:
        """Refuse every later call with this message; false when it was so already."""
        with self._lock:
            was_refused, self._refusal = bool(self._refusal), self._refusal or refusal
            return not was_refused

    def disown(self, refusal: str) -> None:
        """Refuse in a forked child, where the thread that held the lock or ran the flight does not exist."""
        self._lock = threading.Lock()
        self._refusal = refusal

    def close(self, rest: Callable[[], range]) -> None:
        """Wait for a running flight, then give back what is unused, `rest` of what was lent included."""
        self._closing.set()
        self._worker.shutdown()
        # Only now: no flight can add to the pool any more.
        unused = (rest(), *self._pool.take_all())
        if not self._demand.previous:
            return
        try:
            self._reservations.close(unused, self._pool.take_left(), replace(book.WRITES, attempts=_CLOSE_ATTEMPTS))
        except SluiceError as error:
            # These numbers are gaps now, which the log explains as held by this node; an end must not fail for that.
            tell(events.IDS_CLOSE_FAILED, node=self._reservations.node, error=told(error))

    def _fly(self) -> Flight:
        if self._flight is None or self._flight.done():
            # In a copy of this context: its requests are counted for the caller who needed the numbers.
            self._flight = self._worker.submit(copy_context().run, self._refill)
        return self._flight

    def _refill(self) -> SluiceError | None:
        size, account = self._measure()
        try:
            reserved = self._reservations.reserve(size, account, self._retry)
        except SluiceError as error:
            # A refill that a close cut short is no failure.
            if not self._closing.is_set():
                tell(events.IDS_REFILL_FAILED, node=self._reservations.node, error=told(error))
            return error
        with self._lock:
            self._pool.add(reserved.numbers)
            self._supplied += len(reserved.numbers)
            self._demand = self._demand.after_refill(len(reserved.numbers), reserved.conflicts)
        return None

    def _measure(self) -> tuple[int, Account]:
        with self._lock:
            now = self._clock.monotonic()
            drawn = self._supplied - self._pool.size
            self._demand = self._demand.after_drawing(drawn, now - self._measured)
            self._measured, self._supplied = now, self._pool.size
            size = next_size(self._demand, self._sizing)
            blocks = -(-size // self._block)
            return blocks * self._block, Account(self._pool.open(), self._pool.take_left())
