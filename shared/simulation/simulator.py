"""Replays a trace in virtual time, and measures the delays of its messages and the requests that would be paid.

A dequeue task receives a share of the waiting messages, handles them one after the other, deletes each, and receives the
next share. A strategy decides how many tasks there are, and when they start and end.
"""

import heapq
import itertools
import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from shared.azure import Cause, Charge, RequestCounts
from shared.concurrency import Stretch, Trace

#: Messages that are put at once: those that a dispatch puts between two writes of its cursor.
PUT_TOGETHER: Final = 100
#: The upper bound of one receive.
MOST_AT_ONCE: Final = 32
#: Seconds of work per message if the trace does not give them.
UNKNOWN_LATENCY: Final = 1.0
#: Seconds after the end of a trace for which remaining work goes on. Rules that allow no task would never end it.
LONGEST_REST: Final = 86_400.0
#: Seconds of a span, of which a day has 96.
SPAN: Final = 900


class Strategy(Protocol):
    """The decisions when tasks start and end."""

    name: str

    def start(self, simulation: "Simulation") -> None:
        """Begin, before anything has arrived."""
        ...

    def on_arrival(self, simulation: "Simulation", messages: int, coming: int) -> None:
        """React to a put of so many messages. `coming` counts them and all later ones of the same stretch."""
        ...

    def on_end(self, simulation: "Simulation") -> None:
        """Count the idle requests until the end of the trace."""
        ...


@dataclass(slots=True)
class Span:
    """What was worst in a quarter of an hour."""

    #: Seconds that a message put in it waited at most.
    longest: float = 0.0
    most_tasks: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trace under a strategy."""

    name: str
    messages: int
    #: Seconds from the put of a message to the beginning of its work.
    delays: list[float]
    usage: RequestCounts
    most_tasks: int
    #: By the quarters of an hour since the midnight before the trace. A quiet one is left out.
    spans: dict[int, Span]

    def delay(self, percentile: int) -> float:
        """Return the delay that so many percent of the messages do not exceed, 0 without messages."""
        if len(self.delays) < 2:
            return max(self.delays, default=0.0)
        return statistics.quantiles(self.delays, n=100, method="inclusive")[percentile - 1]

    def count(self, *meters: str) -> int:
        """Count the requests that are billed as one of these meters, or all requests without a meter."""
        return sum(number for charge, number in self.usage.items() if not meters or charge.meter in meters)


@dataclass(slots=True)
class Simulation:
    """One replay. Strategies schedule with `at`, receive with `receive` and count with `count`."""

    trace: Trace
    strategy: Strategy
    now: float = 0.0
    latency: float = UNKNOWN_LATENCY
    payload_bytes: float | None = None
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
    _spans: defaultdict[int, Span] = field(default_factory=partial(defaultdict, Span))
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def depth(self) -> int:
        """The depth that storage would report: messages that wait, and messages in work."""
        return len(self._waiting) + self.in_work

    @property
    def waiting(self) -> int:
        """The messages that a task could receive."""
        return len(self._waiting)

    @property
    def counted(self) -> int:
        """The requests so far, of every kind."""
        return self._usage.total()

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Schedule a call."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), act))

    def count(self, meter: str, cause: Cause, number: int = 1) -> None:
        """Count requests."""
        self._usage[Charge(meter, cause.value)] += number

    def run(self) -> Outcome:
        """Replay the trace, and the work that is left at its end."""
        for when, messages, coming, stretch in _arrivals(self.trace):
            self.at(when, partial(self._arrive, messages, coming, stretch))
        end = length(self.trace)
        self.strategy.start(self)
        while self._events:
            when, _, act = heapq.heappop(self._events)
            # Events that repeat without end are cut at the end of the trace. Work that is left is done.
            if when > end and (not self.depth or when > end + LONGEST_REST):
                break
            self.now = when
            act()
        self.now = max(self.now, end)
        self.strategy.on_end(self)
        return Outcome(
            self.strategy.name, self.done, self._delays, dict(self._usage), self.most_tasks, dict(self._spans)
        )

    def _arrive(self, messages: int, coming: int, stretch: Stretch) -> None:
        self.latency = stretch.latency or self.latency
        self.payload_bytes = stretch.payload_bytes or self.payload_bytes
        self._waiting.extend([self.now] * messages)
        self.count("queue", Cause.USEFUL, messages)
        self.strategy.on_arrival(self, messages, coming)

    def receive(self, most: int) -> list[float]:
        """Receive up to so many messages. Return the time of each one's put. Counts one request."""
        taken = [self._waiting.popleft() for _ in range(min(most, MOST_AT_ONCE, len(self._waiting)))]
        self.count("queue", Cause.USEFUL if taken else Cause.IDLE)
        self.in_work += len(taken)
        return taken

    def share(self, tasks: int) -> int:
        """Return the size of a receive by one of so many tasks."""
        return max(1, min(MOST_AT_ONCE, math.ceil(self.waiting / max(1, tasks))))

    def work(self, taken: list[float], then: Callable[[], None]) -> None:
        """Handle the messages one after the other, delete each, then call `then`."""
        for number, put in enumerate(taken):
            delay = self.now + number * self.latency - put
            self._delays.append(delay)
            span = self._spans[int(put // SPAN)]
            span.longest = max(span.longest, delay)
        self._note_tasks()
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
        self._note_tasks()

    def _note_tasks(self) -> None:
        span = self._spans[int(self.now // SPAN)]
        span.most_tasks = max(span.most_tasks, self.tasks)


def length(trace: Trace) -> float:
    """Return the seconds from the beginning of the first stretch's day to the end of the last stretch's day."""
    if not trace.stretches:
        return 0.0
    first = trace.stretches[0].at
    last = max(stretch.at + timedelta(seconds=stretch.seconds) for stretch in trace.stretches)
    return ((last.date() - first.date()).days + 1) * 86_400.0


def _arrivals(trace: Trace) -> Iterator[tuple[float, int, int, Stretch]]:
    """Yield each put: its time, its messages, those of the stretch from here on, and the stretch."""
    if not trace.stretches:
        return
    midnight = trace.stretches[0].at.replace(hour=0, minute=0, second=0, microsecond=0)
    for stretch in trace.stretches:
        begin, left = (stretch.at - midnight).total_seconds(), stretch.arrived
        puts = _puts(stretch)
        for number, messages in enumerate(puts):
            yield begin + stretch.seconds * number / len(puts), messages, left, stretch
            left -= messages


def _puts(stretch: Stretch) -> list[int]:
    """Return the sizes of a stretch's puts: one put per second, none larger than a dispatch makes."""
    if not stretch.arrived:
        return []
    number = min(stretch.arrived, max(1, int(stretch.seconds), math.ceil(stretch.arrived / PUT_TOGETHER)))
    least, more = divmod(stretch.arrived, number)
    return [least + (place < more) for place in range(number)]
