"""Releases what one gate holds, in an order and within a time, by one instance or by several.

Orders start by their roll, and one instance at a time sends them: `rolls`. What follows is about all other entries.

Up to about a page of entries are one instance's work: no lease, no further signal. More than that are divided into
slices. Each is announced by a signal of its own and guarded by a lease. Their announcer takes slices too, so all of them
are released even if no signal arrives. Entries that were left are found by a further signal or by the tick.

The order: entries with a deadline come first, by their slack, then all others by their id. A slice keeps that order for
itself, with about a thousand of its entries with a deadline. Slices do not wait for each other.

Leases on the slices of a gate: its many entries are released by several instances at the same time.

A lease only saves requests: entries that two instances release at the same time still count once. An instance that is
killed blocks its slice until the lease has ended. Its signal comes again, and waits for that.

Starts entries of a gate that may start, a hundred at a time: one preparation, one wake-up and one deletion for all.

The order for each batch: the pointers of its jobs, the jobs and messages themselves, then the held rows go. A crash in
between leaves held rows, which the next release finds. Its jobs that have started already make one request each.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Protocol

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer, try_lease
from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.held import SLICES, HeldEntry
from shared.gate.held_work import HeldWork, Startable
from shared.gate.receipts import NO_MARK, OneMark, SeenBy, make_mark
from shared.gate.rolls import Rolls
from shared.gate.state import GateState, Reading, is_name
from shared.signals import Hint
from shared.telemetry import describe_error, events, tell
from shared.topology import LEASE_SECONDS, RENEW_AFTER

#: A leading underscore is in no gate's name.
_PREFIX: Final = "_slice"


class Slices:
    """The leases of all gates, each on a blob of its own: a lease on the gate's blob would refuse its closing."""

    def __init__(self, container: ContainerClient, clock: Clock) -> None:
        self._container, self._clock = container, clock

    @contextmanager
    def lease(self, gate: str, number: int) -> Iterator[Callable[[], bool] | None]:
        """Enter with the lease, or with None while another process has it.

        The lease is called to renew it when that is due. It returns False if another process may have it by now.
        """
        lease, due = None, self._clock.monotonic() + RENEW_AFTER
        # Its last holder may have removed the blob just now: then there is hardly anything left to release.
        with expecting_an_answer(f"lease slice {number} of gate {gate!r}"), suppress(ResourceNotFoundError):
            lease = try_lease(self._container, f"{_PREFIX}-{number:02}-{gate}", LEASE_SECONDS)
        if lease is None:
            yield None
            return

        def renew() -> bool:
            nonlocal due
            if (now := self._clock.monotonic()) < due:
                return True
            due = now + RENEW_AFTER
            return lease.renew()

        try:
            yield renew
        finally:
            lease.remove()


#: Rows dispatched at a time. Fewer than the ten connections that the library keeps for one service.
PARALLEL: Final = 8
#: Rows between two wake-ups and two deletions: a table transaction takes no more. The first batch is small, so that the
#: first tasks start at once.
BATCH: Final = 100


class Jobs(Protocol):
    """Starts the entries that are put on no queue: the app's own jobs."""

    def is_job(self, entry: HeldEntry, /) -> bool:
        """Return True if the entry is a job."""
        ...

    def begin(self, entries: Sequence[HeldEntry], coming: Sequence[HeldEntry], /) -> AbstractContextManager[None]:
        """Enter around the start of several jobs, the first of `coming`."""
        ...

    def carry_out(self, entry: HeldEntry, gate: Reading, until: float, mark: OneMark, /) -> bool:
        """Start the job, which this reading allows. Return False if the time was up before all of it was dispatched.

        Its first chunk message gets the mark, unless another one has it.
        """
        ...


class HeldFate(Enum):
    """The outcome of one release for an entry that may start."""

    PUT = "put"
    FAILED = "failed"
    #: The time was up.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Started:
    """The outcome of a list of entries."""

    put: int = 0
    failed: int = 0
    #: The smallest id of those for which there was no time. Empty if nothing was left.
    left: str = ""


class Batches:
    """Starts lists of entries. One per process."""

    def __init__(self, work: HeldWork, jobs: Jobs, clock: Clock, parallel: int = PARALLEL) -> None:
        self._work, self._jobs, self._clock, self._parallel = work, jobs, clock, parallel

    def start(self, due: Sequence[Startable], until: float, mark: OneMark) -> Started:
        """Start them in this order. After `until`, in the clock's monotonic seconds, no further one is begun."""
        fates: Counter[HeldFate] = Counter()
        left: list[str] = []
        with ThreadPoolExecutor(self._parallel) as pool:
            for batch, coming in self._split(due):
                for one, fate in zip(batch, self._start_batch(batch, coming, until, mark, pool), strict=True):
                    fates[fate] += 1
                    left += [one.entry.id] if fate is HeldFate.LEFT else []
        return Started(fates[HeldFate.PUT], fates[HeldFate.FAILED], min(left, default=""))

    def _split(self, due: Sequence[Startable]) -> Iterator[tuple[Sequence[Startable], Sequence[Startable]]]:
        begin, end = 0, self._parallel
        while begin < len(due):
            yield due[begin:end], due[begin:]
            begin, end = end, end + BATCH

    def _start_batch(
        self,
        batch: Sequence[Startable],
        coming: Sequence[Startable],
        until: float,
        mark: OneMark,
        pool: ThreadPoolExecutor,
    ) -> Sequence[HeldFate]:
        if self._clock.monotonic() >= until:
            return [HeldFate.LEFT] * len(batch)
        try:
            with self._beginning(batch, coming):
                # Each in a copy of this context, so that its requests are counted for their cause.
                running = [pool.submit(copy_context().run, self._try_start, one, until, mark) for one in batch]
                fates = [one.result() for one in running]
            # Put before the rows are deleted: a crash in between puts them again, while the other order would lose them.
            self._work.forget_all([one.entry for one, fate in zip(batch, fates, strict=True) if fate is HeldFate.PUT])
        except SluiceError as error:
            _tell_undispatched(batch[0].entry, error)
            return [HeldFate.FAILED] * len(batch)
        return fates

    def _beginning(self, batch: Sequence[Startable], coming: Sequence[Startable]) -> AbstractContextManager[None]:
        jobs = [one.entry for one in batch if self._jobs.is_job(one.entry)]
        if not jobs:
            return nullcontext()
        return self._jobs.begin(jobs, [one.entry for one in coming if self._jobs.is_job(one.entry)])

    def _try_start(self, one: Startable, until: float, mark: OneMark) -> HeldFate:
        if self._clock.monotonic() >= until:
            return HeldFate.LEFT
        # What was held after the opening does not wait for it.
        mark = mark if one.entry.epoch < one.gate.epoch else NO_MARK
        try:
            if not self._jobs.is_job(one.entry):
                self._work.put(one.entry)
            elif not self._jobs.carry_out(one.entry, one.gate, until, mark):
                return HeldFate.LEFT
        except SluiceError as error:
            _tell_undispatched(one.entry, error)
            return HeldFate.FAILED
        return HeldFate.PUT


def _tell_undispatched(entry: HeldEntry, error: SluiceError) -> None:
    tell(events.HELD_UNDISPATCHED, gate=entry.gate, entry=entry.id, queue=entry.queue, error=describe_error(error))


#: The number of the lease under which one instance sends the orders of a gate: it is that of no slice.
ORDERS: Final = SLICES
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

    def __init__(  # noqa: PLR0913, PLR0917 - the work, and who starts which part of it
        self,
        work: HeldWork,
        batches: Batches,
        slices: Slices,
        rolls: Rolls,
        clock: Clock,
        chunk_seconds: Callable[[], float] = no_prediction,
    ) -> None:
        self._work, self._batches, self._slices, self._rolls = work, batches, slices, rolls
        self._clock, self._chunk_seconds = clock, chunk_seconds

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
        found, is_all = _gather(self._work.due_pages(state, place.gate, place.since))
        due, orders = self._divide(found)
        done = Dispatched(state=state)
        if due or not orders:
            done = self._start(release, due) if is_all else self._share(release, due, announce)
        if orders:
            done += self._call(release, orders if is_all and not place.since else None)
            # The pages had orders alone, and others may be behind them.
            done = done if is_all or due else replace(done, left=done.left or Hint(place.gate))
        return done

    def _divide(self, found: Iterable[Startable]) -> tuple[list[Startable], list[HeldEntry]]:
        """Return the entries that start by themselves, and the orders."""
        every = list(found)
        orders = [one.entry for one in every if self._work.sends(one.entry)]
        return [one for one in every if not self._work.sends(one.entry)], orders

    def _share(
        self, release: "_Release", due: Sequence[Startable], announce: Callable[[Sequence[Hint]], object]
    ) -> Dispatched:
        announce([Hint(release.gate, slice=number) for number in range(SLICES)])
        # Rows of an earlier version are in no slice.
        done = self._start(release, [one for one in due if one.entry.slice is None])
        # The others begin at the other end.
        for number in reversed(range(SLICES)):
            if self._clock.monotonic() >= release.until:
                return done + Dispatched(is_shared=True)
            done += self._release_slice(release, number, "")
        return done

    def _call(self, release: "_Release", known: Sequence[HeldEntry] | None) -> Dispatched:
        """Send the orders that may start, by their roll, unless another instance does. `known`: these are all."""
        gate, state, put = release.gate, release.state, 0
        with self._slices.lease(gate, ORDERS) as renew:
            if renew is None:
                return Dispatched(is_shared=True, state=state)
            for before, batch in self._rolls.batches(gate, state, known, renew):
                if self._clock.monotonic() >= release.until:
                    return Dispatched(put, left=Hint(gate), state=state)
                if not renew():
                    return Dispatched(put, is_shared=True, state=state)
                try:
                    self._work.send(batch, before)
                    self._work.forget_all(batch)
                except SluiceError as error:
                    # Those behind it must not overtake it.
                    _tell_undispatched(batch[0], error)
                    return Dispatched(put, failed=len(batch), state=state)
                put += len(batch)
        return Dispatched(put, state=state)

    def _start(self, release: "_Release", due: Sequence[Startable]) -> Dispatched:
        seconds = self._chunk_seconds()
        ordered = sorted(due, key=lambda one: one.entry.order(seconds))
        started = self._batches.start(ordered, release.until, release.mark)
        left = Hint(release.gate, since=started.left) if started.left else None
        return Dispatched(started.put, started.failed, left, state=release.state)

    def _release_slice(self, release: "_Release", number: int, since: str) -> Dispatched:
        with self._slices.lease(release.gate, number) as renew:
            if renew is None:
                return Dispatched(is_shared=True, state=release.state)
            return self._release_leased(release, number, since, renew)

    def _release_leased(self, release: "_Release", number: int, since: str, renew: Callable[[], object]) -> Dispatched:
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
            renew()
            due, orders = self._divide(one for one in page if one.entry.id not in tried)
            done += self._start(release, due)
            # A tick sends them when the others are gone.
            done += Dispatched(is_shared=bool(orders))
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
