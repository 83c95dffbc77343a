"""Replays a trace in virtual time: what would have waited how long, and what would have been paid; pure.

A dequeue task takes a share of what waits, works on it one message after the other, deletes each, and takes the next
share. How many tasks there are, when they start and when they end is up to a strategy.
"""

import heapq
import itertools
import math
import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from shared.azure import Cause, Charge, RequestCounts
from shared.concurrency import Stretch, Trace

#: Messages that are put at once: what a dispatch puts between two notes of its cursor.
PUT_TOGETHER: Final = 100
#: What one receive may ask for.
MOST_AT_ONCE: Final = 32
#: Seconds of work for a message where the trace does not know.
UNKNOWN_LATENCY: Final = 1.0
#: Seconds after the end of a trace for which work that is left goes on; rules that allow no task would never end it.
LONGEST_REST: Final = 86_400.0


class Strategy(Protocol):
    """Who starts and ends tasks."""

    name: str

    def start(self, simulation: "Simulation") -> None:
        """Begin, before anything has arrived."""
        ...

    def on_arrival(self, simulation: "Simulation", messages: int, coming: int) -> None:
        """Hear that so many were put, of `coming` that are put in this stretch from here on."""
        ...

    def on_end(self, simulation: "Simulation") -> None:
        """Count what was idle until the end of the trace."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trace under a strategy."""

    name: str
    messages: int
    #: Seconds from the put of a message to the begin of its work.
    delays: list[float]
    usage: RequestCounts
    most_tasks: int

    def delay(self, percentile: int) -> float:
        """Return the delay that so many in a hundred do not exceed; 0 where nothing came."""
        if len(self.delays) < 2:
            return max(self.delays, default=0.0)
        return statistics.quantiles(self.delays, n=100, method="inclusive")[percentile - 1]

    def count(self, *meters: str) -> int:
        """Return the requests that are billed as one of these; all of them when none is named."""
        return sum(number for charge, number in self.usage.items() if not meters or charge.meter in meters)


@dataclass(slots=True)
class Simulation:
    """One replay; strategies schedule with `at`, receive with `receive` and count with `count`."""

    trace: Trace
    strategy: Strategy
    now: float = 0.0
    latency: float = UNKNOWN_LATENCY
    #: Messages in work.
    in_work: int = 0
    tasks: int = 0
    most_tasks: int = 0
    #: Messages done so far, and the seconds of work on them.
    done: int = 0
    busy: float = 0.0
    _waiting: deque[float] = field(default_factory=deque)
    _delays: list[float] = field(default_factory=list)
    _usage: Counter[Charge] = field(default_factory=Counter)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def depth(self) -> int:
        """What storage would say: what waits and what is in work."""
        return len(self._waiting) + self.in_work

    @property
    def waiting(self) -> int:
        """Messages that anybody could receive."""
        return len(self._waiting)

    @property
    def counted(self) -> int:
        """Requests so far, of every kind."""
        return self._usage.total()

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Do it then."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), act))

    def count(self, meter: str, cause: Cause, number: int = 1) -> None:
        """Count requests."""
        self._usage[Charge(meter, cause.value)] += number

    def run(self) -> Outcome:
        """Replay the trace and what it leaves behind; returns what became of it."""
        for when, messages, coming, latency in _arrivals(self.trace):
            self.at(when, partial(self._arrive, messages, coming, latency))
        end = length(self.trace)
        self.strategy.start(self)
        while self._events:
            when, _, act = heapq.heappop(self._events)
            # Whatever repeats itself for ever is cut at the end of the trace; work that is left is done.
            if when > end and (not self.depth or when > end + LONGEST_REST):
                break
            self.now = when
            act()
        self.now = max(self.now, end)
        self.strategy.on_end(self)
        return Outcome(self.strategy.name, self.done, self._delays, dict(self._usage), self.most_tasks)

    def _arrive(self, messages: int, coming: int, latency: float) -> None:
        self.latency = latency
        self._waiting.extend([self.now] * messages)
        self.count("queue", Cause.USEFUL, messages)
        self.strategy.on_arrival(self, messages, coming)

    def receive(self, most: int) -> list[float]:
        """Take up to so many messages; returns when each was put. One request."""
        taken = [self._waiting.popleft() for _ in range(min(most, MOST_AT_ONCE, len(self._waiting)))]
        self.count("queue", Cause.USEFUL if taken else Cause.IDLE)
        self.in_work += len(taken)
        return taken

    def share(self, tasks: int) -> int:
        """Return what a receive of one of so many tasks asks for."""
        return max(1, min(MOST_AT_ONCE, math.ceil(self.waiting / max(1, tasks))))

    def work(self, taken: list[float], then: Callable[[], None]) -> None:
        """Work on them one after the other, delete each, then go on."""
        for number, put in enumerate(taken):
            self._delays.append(self.now + number * self.latency - put)
        self.count("queue", Cause.USEFUL, len(taken))
        end = self.now + len(taken) * self.latency

        def finish() -> None:
            self.in_work -= len(taken)
            self.done += len(taken)
            self.busy += len(taken) * self.latency
            then()

        self.at(end, finish)

    def grow(self, number: int = 1) -> None:
        """Count tasks that start."""
        self.tasks += number
        self.most_tasks = max(self.most_tasks, self.tasks)


def length(trace: Trace) -> float:
    """Return the seconds from the begin of the day of its first stretch to the end of the day of its last."""
    if not trace.stretches:
        return 0.0
    first = trace.stretches[0].at
    last = max(one.at + timedelta(seconds=one.seconds) for one in trace.stretches)
    return ((last.date() - first.date()).days + 1) * 86_400.0


def _arrivals(trace: Trace) -> Iterator[tuple[float, int, int, float]]:
    """Yield when messages come, how many, how many of the stretch from there on, and the seconds of work for one."""
    if not trace.stretches:
        return
    midnight = trace.stretches[0].at.replace(hour=0, minute=0, second=0, microsecond=0)
    latency = UNKNOWN_LATENCY
    for stretch in trace.stretches:
        latency = stretch.latency or latency
        begin, left = (stretch.at - midnight).total_seconds(), stretch.arrived
        puts = _puts(stretch)
        for number, messages in enumerate(puts):
            yield begin + stretch.seconds * number / len(puts), messages, left, latency
            left -= messages


def _puts(stretch: Stretch) -> list[int]:
    """Return the sizes of the puts that a stretch is made of: one a second, none larger than a dispatch makes."""
    if not stretch.arrived:
        return []
    number = min(stretch.arrived, max(1, int(stretch.seconds), math.ceil(stretch.arrived / PUT_TOGETHER)))
    least, more = divmod(stretch.arrived, number)
    return [least + (place < more) for place in range(number)]
