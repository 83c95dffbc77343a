"""Limits of calls: at most so many calls of `map` in a second or a minute, over all processes, whichever of them die.

A limit is cut into lots of at most 16 calls. A lot is a leased blob: its holder calls so often, at even distances, and
only while the lease surely holds. Who takes a lot waits for one distance before its first call. So no window has more
calls than the rate, no clocks have to agree, and nothing is written for a call.

One chunk with limits runs at a time in a process, and a second one waits. It begins with the first lot, and takes further
ones. A process that has several gives one back now and then, so that other processes find some. How long a chunk takes
does not matter: what it has not called after a minute comes next time.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import ceil, inf
from random import SystemRandom
from threading import Lock
from typing import Final, Protocol

from shared.clock import Clock
from shared.dequeue import SlotLease
from shared.errors import NoSlotError, StorageUnavailableError, WorkloadsRefusedError
from shared.grammar import Rate
from shared.workloads import DELIVERY_SECONDS, AnyWorkload, Turns, Workloads, rates_of

#: Calls of a lot. Fewer, larger lots would leave more idle when a holder dies.
LOT: Final = 16
#: Two calls of a lot are so much further apart than its rate says. A call may come so much of the time too late or too early.
SPARE: Final = 1.06
#: The share of the time by which a late call may be made up for. It is well below that of `SPARE`.
_LATE: Final = 0.02
#: Seconds between two reads for a free lot, and until a process without any gives its chunk back.
_LOOKS_EVERY, _PATIENCE = 2.0, 20.0
#: Seconds until one of several lots is given back, and for which none is taken then: others look meanwhile.
_GIVES_EVERY, _RESTS = 10.0, 3.0
#: Distances between calls for which a lot is kept at least.
_CALLS_KEPT: Final = 4
#: Seconds that a chunk is taken to be inside before one was, and the longest after which one comes again.
_ASSUMED, _LONGEST = 5.0, 30.0
#: Seconds for which a second chunk waits for the first one, and the longest of a wait after which it is seen that it is over.
_WAITS, _STEP = 30.0, 1.0


class LotSource(Protocol):
    """The lots of all limits."""

    def lease_lot(self, limit: str, number: int) -> SlotLease | None:
        """Lease a lot, or return None if it is leased. Makes one request, three at its very first use."""
        ...

    def list_leased_lots(self, limit: str) -> frozenset[int]:
        """Return the leased lots of a limit. Makes one request."""
        ...


def cut_lots(rate: Rate) -> list[int]:
    """Return the calls of each lot. A higher rate has the same lots and more, so two rates in force add up to the higher one."""
    whole, rest = divmod(rate.calls, LOT)
    return [LOT] * whole + [rest] * (rest > 0)


def count_seconds(rate: Rate, items: int) -> float:
    """Return how long so many calls take at a rate."""
    return SPARE * rate.seconds * items / rate.calls


def check_limits(workloads: Workloads, replaced: Mapping[str, Rate]) -> None:
    """Raise WorkloadsRefusedError for a rate of a limit that no workload has, or at which no call begins in a delivery."""
    for name in replaced:
        if name not in workloads.limits:
            known = ", ".join(sorted(workloads.limits)) or "none"
            raise WorkloadsRefusedError(
                f"SLUICE_LIMITS names the limit {name}, and no workload has it (known: {known}): correct the name, or take it out"
            )
    for name, rate in {**workloads.limits, **replaced}.items():
        # Who takes a lot waits for one distance, and so does the first call of each delivery.
        if (SPARE / cut_lots(rate)[0] + _LATE) * rate.seconds >= DELIVERY_SECONDS:
            raise WorkloadsRefusedError(
                f"at the limit {name} of {rate} no call begins within the {DELIVERY_SECONDS:.0f} s of a delivery: take 2/min or more"
            )


@dataclass(slots=True)
class _HeldLot:
    number: int
    calls: int
    lease: SlotLease
    next_call: float


class _Limit:
    """One limit as this process has it. Only the thread of the chunk that is inside takes turns."""

    def __init__(
        self, name: str, rate: Rate, lots: LotSource, monotonic: Callable[[], float], pause: Callable[[float], object]
    ) -> None:
        self._name, self._rate, self._lots, self._monotonic, self._pause = name, rate, lots, monotonic, pause
        self._calls = cut_lots(rate)
        self._held: list[_HeldLot] = []
        #: Lots that were free at the last read, in the order in which they are tried.
        self._free: list[int] = []
        self._looks_at, self._gives_at = -inf, inf

    def open(self) -> None:
        """Take a lot."""
        self._wait(lambda _now: bool(self._held), lambda: False)

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait for a turn, and take further lots meanwhile."""
        self._wait(lambda now: self.find(now) is not None, is_over)

    def find(self, now: float) -> _HeldLot | None:
        """Return a lot that has a turn now."""
        return next((lot for lot in self._held if lot.next_call <= now and lot.lease.is_held), None)

    def note(self, lot: _HeldLot, now: float) -> None:
        """Note that a call begins. A little delay, as of a busy machine, is made up for by the next ones."""
        lot.next_call = max(lot.next_call, now - _LATE * self._rate.seconds) + self._distance(lot.calls)

    def close(self) -> None:
        """Give all back."""
        while self._held:
            self._held.pop().lease.release()

    def _wait(self, done: Callable[[float], bool], is_over: Callable[[], bool]) -> None:
        until = self._monotonic() + _PATIENCE
        while True:
            now = self._monotonic()
            self._keep(now)
            if done(now):
                return
            if is_over() or (now >= until and not self._held):
                raise NoSlotError(
                    f"other processes have the calls of the limit {self._name} ({self._rate}); this chunk is delivered again",
                    waits_for=f"the limit {self._name} ({self._rate})",
                )
            if self._is_wanting(now):
                self._take(now)
                continue
            times = [self._looks_at, *(time for lot in self._held for time in (lot.next_call, lot.lease.due))]
            # A lot that has its turn while more lots are wanted is no reason to wake at once, again and again.
            self._pause(min([now + _STEP, *(time for time in times if time > now)]) - now)

    def _keep(self, now: float) -> None:
        """Drop lots that are lost, give back one of several now and then, and renew the others in time."""
        self._held = [lot for lot in self._held if lot.lease.is_held]
        if len(self._held) > 1 and now >= self._gives_at:
            self._held.pop(0).lease.release()
            self._free.clear()
            self._looks_at, self._gives_at = now + _RESTS, now + self._keeps(self._held[0].calls)
        for lot in self._held:
            if now >= lot.lease.due:
                lot.lease.renew()

    def _is_wanting(self, now: float) -> bool:
        return now >= self._looks_at and len(self._held) < len(self._calls)

    def _take(self, now: float) -> None:
        try:
            self._try_take(now)
        except StorageUnavailableError:
            # With a lot in hand the chunk goes on.
            if not self._held:
                raise
            self._looks_at = now + _LOOKS_EVERY

    def _try_take(self, now: float) -> None:
        if not self._free:
            mine = {lot.number for lot in self._held}
            gone = self._lots.list_leased_lots(self._name) | mine
            self._free = [number for number in range(len(self._calls)) if number not in gone]
            SystemRandom().shuffle(self._free)
        lease = self._lots.lease_lot(self._name, number := self._free.pop()) if self._free else None
        if lease is not None:
            calls = self._calls[number]
            # Its last holder may have called a moment ago, and late.
            first = self._monotonic() + self._distance(calls) + _LATE * self._rate.seconds
            self._held.append(_HeldLot(number, calls, lease, first))
            if len(self._held) == 1:
                self._gives_at = now + self._keeps(calls)
        if not self._free:
            self._looks_at = now + _LOOKS_EVERY

    def _distance(self, calls: int) -> float:
        return SPARE * self._rate.seconds / calls

    def _keeps(self, calls: int) -> float:
        return max(_GIVES_EVERY, _CALLS_KEPT * self._distance(calls))


@dataclass(slots=True)
class _Door:
    """Lets one chunk in, and a second one wait. Others come again one after the other, as often as one has been inside."""

    #: The limit, for a person.
    _named: str
    _monotonic: Callable[[], float]
    #: Seconds that the last chunk was inside, and the moment at which the last of those that were sent away comes again.
    _took: float = _ASSUMED
    _comes_at: float = -inf
    _inside: Lock = field(default_factory=Lock)
    _counting: Lock = field(default_factory=Lock)
    _here: int = 0

    @contextmanager
    def enter(self, seconds: float, leave: Callable[[], object]) -> Iterator[None]:
        """Be inside. `leave` is called at the end, unless another one waits."""
        if not self._count_in():
            raise self._refuse("two chunks with this limit are here already")
        has_entered = False
        try:
            has_entered = self._inside.acquire(timeout=seconds)
            if not has_entered:
                raise self._refuse("a chunk with this limit runs here")
            began = self._monotonic()
            yield
            self._took = self._monotonic() - began
        finally:
            with self._counting:
                self._here -= 1
                is_last = not self._here
            if has_entered:
                if is_last:
                    leave()
                self._inside.release()

    def _refuse(self, found: str) -> NoSlotError:
        with self._counting:
            now = self._monotonic()
            self._comes_at = min(max(now, self._comes_at) + self._took, now + _LONGEST)
            seconds = ceil(max(1.0, self._comes_at - now))
        return NoSlotError(f"{found}; this one is delivered again", waits_for=self._named, seconds=seconds)

    def _count_in(self) -> bool:
        with self._counting:
            can_wait = self._here < 2
            self._here += can_wait
        return can_wait


class _ChunkTurns:
    """The turns of the chunk that is inside: each is one of every limit."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.limits: list[_Limit] = []
        self._monotonic, self._waiting, self._is_over = monotonic, Lock(), False

    def begin(self) -> bool:
        """Take a turn of each limit if all have one now."""
        now = self._monotonic()
        found = [(limit, limit.find(now)) for limit in self.limits]
        if not all(lot for _, lot in found):
            return False
        for limit, lot in found:
            if lot is not None:
                limit.note(lot, now)
        return True

    def wait(self) -> None:
        """Wait until each limit has had a turn."""
        with self._waiting:
            for limit in self.limits:
                if not self._is_over:
                    limit.wait(lambda: self._is_over)

    def end(self) -> None:
        """End a wait that goes on in a thread: its chunk has failed."""
        self._is_over = True
        with self._waiting:
            pass


class CallLimits:
    """The limits of a process. They make no request until a chunk with limits comes."""

    def __init__(
        self,
        lots: LotSource,
        clock: Clock,
        replaced: Mapping[str, Rate],
        *,
        pause: Callable[[float], object] = time.sleep,
        waits: float = _WAITS,
    ) -> None:
        self._lots, self._clock, self._replaced, self._pause, self._waits = lots, clock, replaced, pause, waits
        self._known: dict[str, tuple[_Door, _Limit]] = {}
        self._making = Lock()

    @contextmanager
    def pace(self, workload: AnyWorkload) -> Iterator[Turns]:
        """Yield the turns of a chunk, when it may begin. Raises NoSlotError if it may not."""
        rates = {name: self._replaced.get(name, rate) for name, rate in rates_of(workload).items()}
        with ExitStack() as stack:
            turns = _ChunkTurns(self._clock.monotonic)
            # In the order of the names, so that two chunks do not wait for each other.
            for name, rate in sorted(rates.items()):
                door, limit = self._find(name, rate)
                stack.enter_context(door.enter(self._waits, limit.close))
                turns.limits.append(limit)
            stack.callback(turns.end)
            for limit in turns.limits:
                limit.open()
            yield turns

    def _find(self, name: str, rate: Rate) -> tuple[_Door, _Limit]:
        with self._making:
            if name not in self._known:
                limit = _Limit(name, rate, self._lots, self._clock.monotonic, self._pause)
                self._known[name] = _Door(f"the limit {name} ({rate})", self._clock.monotonic), limit
            return self._known[name]
