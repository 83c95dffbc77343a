"""Calls for single transactions: when one may begin, and which fail, wait or are left, so that one costs the others nothing.

A call for one transaction names it. A call for many is made again for the halves of the list, until one transaction is
alone. What concerns the whole chunk is raised: then it is tried again as a whole. So is what may pass, of a call for many.

A service that says `Later` gets no call of this process for so long. After twenty failures in a row it rests: 30 s, then
twice as long each time, up to five minutes. Then one call tries it, and if that ends well, all go on.

A delivery begins no call after a minute. What it has not called is left, and comes next time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from shared.errors import HaltedError, Later, NoSlotError, NotCalledError
from shared.parked import Nature, nature_of, note_item
from shared.telemetry import contain, origin_of, replace_exit
from shared.workloads.workload import AnyWorkload

T = TypeVar("T")
#: Failures of a chunk that keep their traceback. Thousands of them would cost half a second to describe.
MOST_TRACED: Final = 100
#: Failures of a chunk of which the others are kept. More than these are seldom the fault of single transactions.
MOST_LEFT: Final = 100


class Left(NamedTuple):
    """A transaction whose call raised, or did not begin."""

    number: int
    error: Exception
    #: As sent, of the first MOST_LEFT of a chunk. Above, none is parked by itself.
    line: bytes = b""


class PartialPiece(NamedTuple):
    """The partial of transactions that follow each other, and the id of the first."""

    first: int
    partial: Any


@dataclass(slots=True)
class Failures:
    """The failures of one chunk, by transaction, while it is run."""

    by_number: dict[int, Exception] = field(default_factory=dict)

    def add(self, raised: BaseException, number: int) -> None:
        """Note what a call for one transaction raised. Raise it again if it does not concern that one alone."""
        error = raised if isinstance(raised, Exception) else replace_exit(raised)
        if not (_is_of_one(error) or is_waiting_error(error) or is_uncalled(error)):
            note_item(error, number)
            raise error
        if len(self.by_number) >= MOST_TRACED:
            origin_of(error).__traceback__ = None
        self.by_number[number] = error

    def count_faults(self) -> int:
        """Return how many failed of themselves, and do not wait."""
        return sum(not (is_waiting_error(error) or is_uncalled(error)) for error in self.by_number.values())

    def list_left(self) -> list[Left]:
        """Return the failures in the order of their transactions."""
        return [Left(*one) for one in sorted(self.by_number.items())]


def call_halves(
    call: Callable[[Sequence[Any], Sequence[int]], T],
    items: Sequence[Any],
    numbers: Sequence[int],
    error: Exception,
    failures: Failures,
) -> Iterator[tuple[Sequence[int], T | None]]:
    """Yield the numbers of each part of the list, in order, and the values that the call returns for it.

    The call raised `error` for the whole list. None: the part is one transaction, whose failure is noted.
    """
    if not _is_of_one(error):
        raise error
    if len(items) <= 1:
        for number in numbers:
            failures.add(error, number)
            yield numbers, None
        return
    middle = len(items) // 2
    for half in (slice(middle), slice(middle, None)):
        try:
            with contain():
                found = call(items[half], numbers[half])
        except Exception as again:  # noqa: BLE001 - its nature is judged by the next call
            yield from call_halves(call, items[half], numbers[half], again, failures)
        else:
            yield numbers[half], found


def combine_rest(
    workload: AnyWorkload, values: Sequence[Any], numbers: Sequence[int], error: Exception, failures: Failures
) -> Any:
    """Return the partial of the values that can be combined. Raise the error if no transaction is alone to blame."""
    before = len(failures.by_number)
    for _ in call_halves(lambda part, _numbers: workload.combine(part), values, numbers, error, failures):
        pass
    if len(failures.by_number) == before:
        raise error
    rest = [value for value, number in zip(values, numbers, strict=True) if number not in failures.by_number]
    with contain():
        return workload.combine(rest)


def combine_pieces(
    workload: AnyWorkload, values: Mapping[int, Any], ids: Sequence[int], failures: Failures
) -> list[PartialPiece] | None:
    """Return a partial of each row of neighbours that passed. None: too many failed to be worth it, or they cannot be combined.

    So what is left can be put between them later: `merge` need not take them in any other order.
    """
    if failures.count_faults() > MOST_LEFT:
        return None
    rows: list[list[int]] = []
    before = None
    for number in ids:
        if number in failures.by_number:
            continue
        if before is None or number != before + 1:
            rows.append([])
        rows[-1].append(number)
        before = number
    try:
        with contain():
            each = ((row[0], [values[number] for number in row if number in values]) for row in rows)
            return [PartialPiece(first, workload.combine(row)) for first, row in each if row]
    except Exception:  # noqa: BLE001 - then the whole chunk runs again, as it would without them
        return None


def _is_of_one(error: Exception) -> bool:
    """Check whether an error may be a transaction's own. An outage is not, nor is a lack of memory."""
    return nature_of(error) is Nature.UNKNOWN and not isinstance(origin_of(error), MemoryError)


#: Seconds after which a delivery begins no call. The host ends a process after ten minutes, of which a drain has used some.
DELIVERY_SECONDS: Final = 60.0
#: Failures in a row, of a service that does not answer, after which it rests.
MOST_IN_A_ROW: Final = 20
#: The pause after a failure, which doubles, and the longest one. A message is hidden so long, and no longer.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0
#: The shortest pause after a `Later`, and the longest until a wait is looked at again.
_SHORTEST, _STEP = 1.0, 1.0


def pause_after(tries: int) -> float:
    """Return the pause after so many tries, at least one."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries - 1, 10))


def is_waiting_error(error: BaseException) -> bool:
    """Check whether a call that ended so may end well later: its service did not answer, or said when."""
    return isinstance(error, Later) or nature_of(error) is Nature.TRANSIENT


def is_uncalled(error: BaseException) -> bool:
    """Check whether the call did not begin."""
    return isinstance(error, NoSlotError | HaltedError)


class Turns(Protocol):
    """The turns of the limits of a chunk's calls."""

    def begin(self) -> bool:
        """Take a turn if one is free now. The call follows at once."""
        ...

    def wait(self) -> None:
        """Wait until a turn may be free. Raises NoSlotError if none comes."""
        ...


class _Counts(NamedTuple):
    """Answers so far, and failures since the last one: all, and of these, calls that began after the service had said when."""

    answers: int = 0
    failures: int = 0
    waves: int = 0


@dataclass(slots=True)
class Service:
    """The service of a workload as this process met it. All its chunks share it."""

    counts: _Counts = field(default_factory=_Counts)
    rests_until: float = -inf
    #: Rests since the last answer. While there are some, one call at a time tries it.
    rests: int = 0
    is_tried: bool = False
    _changed_at: float = -inf
    _lock: Lock = field(default_factory=Lock)

    def note_answer(self) -> None:
        """Note that a call ended by itself."""
        with self._lock:
            self.counts = _Counts(self.counts.answers + 1)
            self.rests, self.is_tried = 0, False

    def note_failure(self, error: BaseException, began: float, now: float, before: _Counts) -> None:
        """Note that the service did not answer, or said when. `before`: the counts when the delivery began."""
        with self._lock:
            self.is_tried = False
            answers, failures, waves = self.counts
            # Of the calls that were under way when it said when, none says more.
            self.counts = _Counts(answers, failures + 1, waves + (is_new := began > self._changed_at))
            if isinstance(error, Later):
                self._rest(now, max(_SHORTEST, error.seconds))
            if is_new and (self.rests or self.since(before).waves >= MOST_IN_A_ROW):
                self.rests += 1
                self._rest(now, pause_after(self.rests))

    def _rest(self, now: float, seconds: float) -> None:
        self.rests_until, self._changed_at = max(self.rests_until, now + seconds), now

    def since(self, before: _Counts) -> _Counts:
        """Return the counts since then."""
        answers, failures, waves = self.counts
        if answers > before.answers:
            return self.counts
        return _Counts(answers, failures - before.failures, waves - before.waves)

    def try_alone(self) -> bool:
        """Check whether a call may begin while the service rests after failures: one at a time."""
        with self._lock:
            if not self.rests:
                return True
            is_first, self.is_tried = not self.is_tried, True
            return is_first


def _is_not_halted() -> bool:
    return False


@dataclass(slots=True)
class Calls:
    """The calls of one delivery of a chunk."""

    service: Service = field(default_factory=Service)
    turns: Turns | None = None
    #: Whether the job is paused or stopped.
    is_halted: Callable[[], bool] = _is_not_halted
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep
    seconds: float = DELIVERY_SECONDS
    _before: _Counts = field(init=False)
    _until: float = field(init=False)
    # One call at a time waits for its turn. A loop lasts for a part of the chunk.
    _thread: ThreadPoolExecutor | None = None
    _locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before, self._until = self.service.counts, self.monotonic() + self.seconds

    @property
    def are_free(self) -> bool:
        """True while a call may begin at any time, as far as known."""
        return self.turns is None and not self.service.rests and self.service.rests_until <= self.monotonic()

    @property
    def is_outage(self) -> bool:
        """True if the service, and no transaction, is why calls failed."""
        return self.service.rests > 0 or self.service.since(self._before).failures >= MOST_IN_A_ROW

    @property
    def rest(self) -> float:
        """The seconds for which the service still rests."""
        return max(0.0, self.service.rests_until - self.monotonic())

    def begin(self) -> bool:
        """Check whether a call may begin now. Raises if none may in this delivery."""
        if self.is_halted():
            raise HaltedError("its job is paused or stopped")
        now, rests_until = self.monotonic(), self.service.rests_until
        # A rest after failures is not awaited here, and a worker is free meanwhile.
        is_long = rests_until > now and (self.service.rests > 0 or rests_until >= self._last(now))
        if now >= self._until or is_long:
            raise NotCalledError("no call begins any more in this delivery", waits_for="the next delivery")
        if rests_until > now or (self.service.rests and self.service.is_tried):
            return False
        if self.turns is not None and not self.turns.begin():
            return False
        return self.service.try_alone()

    def _last(self, now: float) -> float:
        """Return until when a `Later` is awaited here."""
        return min(self._until, now + DELIVERY_SECONDS)

    def wait(self) -> None:
        """Wait until a call may begin, or until that is worth another question."""
        rest = self.rest
        if rest or self.service.is_tried or self.turns is None:
            self.pause(min(rest or _STEP, _STEP))
        else:
            self.turns.wait()

    def call(
        self, call: Callable[[Any, int], Any], transaction: Any, number: int, end: BaseException | None = None
    ) -> Any:
        """Call when that may begin, again after a short `Later`, and return the value. A `Later` is raised.

        `end`: how the first call for this transaction ended, which was made before.
        """
        later = None if end is None else self._judge(end, self.monotonic())
        while True:
            try:
                while not self.begin():
                    self.wait()
            except (NoSlotError, HaltedError) as error:
                raise later or error from None
            began = self.monotonic()
            try:
                value = call(transaction, number)
            except BaseException as error:  # noqa: BLE001 - it is judged there
                later = self._judge(error, began)
            else:
                later = self._judge(value if type(value) is Later else None, began)
                if later is None:
                    return value

    async def call_waiting(self, call: Callable[[Any, int], Awaitable[Any]], transaction: Any, number: int) -> Any:
        """Do the same beside other calls."""
        loop = asyncio.get_running_loop()
        later: Later | None = None
        while True:
            try:
                async with self._locks.setdefault(loop, asyncio.Lock()):
                    # The call begins in this loop, behind all that keeps it busy, so a late loop does not crowd calls.
                    while not self.begin():
                        self._thread = self._thread or ThreadPoolExecutor(1)
                        await loop.run_in_executor(self._thread, copy_context().run, self.wait)
            except (NoSlotError, HaltedError) as error:
                raise later or error from None
            began = self.monotonic()
            try:
                value = await call(transaction, number)
            except BaseException as error:  # noqa: BLE001 - it is judged there
                later = self._judge(error, began)
            else:
                later = self._judge(value if type(value) is Later else None, began)
                if later is None:
                    return value

    def _judge(self, end: BaseException | None, began: float) -> Later | None:
        """Note how a call ended. Return a `Later` that is over in this delivery, and raise any other failure."""
        if end is None or not is_waiting_error(end):
            self.service.note_answer()
            if end is not None:
                raise end
            return None
        now = self.monotonic()
        self.service.note_failure(end, began, now, self._before)
        if isinstance(end, Later) and not self.service.rests and self.service.rests_until < self._last(now):
            return end
        raise end
