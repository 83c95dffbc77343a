"""Replays a trace in virtual time, and measures the delays of its messages and the requests that would be paid.

A dequeue task receives a share of the waiting messages, handles them one after the other, deletes each, and receives the
next share. A strategy decides how many tasks there are, and when they start and end.

Simulates Sluice itself in push mode for the simulator: its decisions, its permits, and every request.

`decide_tasks` itself makes the decisions. The requests of a dispatch, a permit, a drain and a tick are counted as the
code in `shared/dequeue` and `shared/app/app.py` makes them.

A synthetic day: bursts of chunks as a billing office sends them, made from a random seed.

It is labelled synthetic wherever it is shown. Long jobs come at night and at noon, medium ones during the working hours,
and small ones at any time. Between them are hours without any job.
"""

import heapq
import itertools
import math
import random
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

from shared.azure import Cause, Charge, Governor, RequestCounts
from shared.concurrency import LOOK_EVERY, Decision, Observation, Rules, Stretch, Trace, TraceHeader, decide_tasks
from shared.dequeue import AHEAD, DEPTH_EVERY, PATIENCE, SlotPlan, receive_size
from shared.messages import Permit
from shared.topology import RENEW_AFTER
from shared.usage import MOST_UNNOTED

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


#: Seconds between two ticks, and seconds for which a job counts as open after its end.
TICK: Final = 60.0
OPEN: Final = 600.0
#: Ticks between two drains of the poison queues, and the number of those queues.
POISON_TICKS, POISON_QUEUES = 15, 2
#: Seconds that a replay takes from the sending of a permit to the first receive. docs/dequeue.md has measured ones.
WAKE: Final = 0.25
_MIDNIGHT: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Push:
    """Sluice with `SLUICE_DEQUEUE=push`, under these rules."""

    rules: Rules
    name: str = "Sluice, push"
    #: Tasks that a permit starts.
    permit_tasks: int = 4
    wake: float = WAKE
    budget: int | None = None
    decisions: list[Decision] = field(default_factory=list)
    _decision: Decision | None = None
    _held: set[int] = field(default_factory=set)
    _active_until: float = float("-inf")
    _looked_at: float = float("-inf")
    _traced_done: int = 0

    def start(self, simulation: Simulation) -> None:
        """Start the ticks."""
        simulation.at(TICK, lambda: self._tick(simulation, 1))

    def on_end(self, simulation: Simulation) -> None:
        """Count the requests by which processes record their own requests. No poller waits in push mode."""
        simulation.count("table", Cause.SWEEP, simulation.counted // MOST_UNNOTED)

    def on_arrival(self, simulation: Simulation, _messages: int, coming: int) -> None:
        """Decide for a put that calls for more tasks, then send the missing permits, once per put."""
        self._look(simulation)
        if self._cap() < self.rules.ask(self._observe(simulation, coming)).tasks:
            # One read of the fleet's rows, one of the rules. `_decide` counts the write of a decision that differs.
            simulation.count("table", Cause.USEFUL)
            simulation.count("blob-read", Cause.USEFUL)
            seen = self._decision.observation if self._decision else None
            self._decide(simulation, coming + (seen.depth if seen else 0))
        self._active_until = simulation.now + OPEN
        self._send(simulation, max(simulation.depth, coming), Cause.USEFUL)

    def _tick(self, simulation: Simulation, number: int) -> None:
        simulation.count("table", Cause.SWEEP, 2)
        if number % POISON_TICKS == 0:
            simulation.count("queue", Cause.SWEEP, POISON_QUEUES)
        if simulation.depth:
            self._active_until = simulation.now + OPEN
        if simulation.now <= self._active_until:
            for meter in ("table", "blob-read", "queue"):
                simulation.count(meter, Cause.SWEEP)
            self._decide(simulation, simulation.depth)
            if simulation.depth or simulation.done != self._traced_done:
                # The line of the trace.
                self._traced_done = simulation.done
                simulation.count("blob-write", Cause.SWEEP)
            if simulation.depth:
                self._send(simulation, simulation.depth, Cause.SWEEP)
        simulation.at(simulation.now + TICK, lambda: self._tick(simulation, number + 1))

    def _decide(self, simulation: Simulation, depth: int) -> None:
        now = _MIDNIGHT + timedelta(seconds=simulation.now)
        seen = Observation(
            depth=depth,
            hour=now.hour,
            latency=simulation.busy / simulation.done if simulation.done else None,
            payload_bytes=simulation.payload_bytes,
            in_flight=simulation.in_work,
        )
        governors: dict[str, Governor] = {}
        decision = decide_tasks(self.rules, seen, governors, self.budget, self._decision, now)
        if self._decision is None or decision.tasks != self._decision.tasks:
            simulation.count("table", Cause.SWEEP)
            self.decisions.append(decision)
            self._decision = decision

    def _send(self, simulation: Simulation, depth: int, cause: Cause) -> None:
        tasks = min(self.rules.ask(self._observe(simulation, depth)).tasks, self._cap(), depth)
        slots = -(-tasks // self.permit_tasks)
        if not slots:
            return
        # The list of the held slots.
        simulation.count("blob-list", cause)
        for slot in range(slots):
            if slot not in self._held:
                # Sent, received and completed.
                simulation.count("bus", cause, 3)
                # The depth now: messages still to come cannot be received.
                permit = Permit(slot=slot, depth=simulation.depth, tasks=tasks)
                simulation.at(simulation.now + self.wake, partial(self._drain, simulation, permit))

    def _observe(self, simulation: Simulation, depth: int) -> Observation:
        latency = simulation.busy / simulation.done if simulation.done else None
        hour = int(simulation.now // 3600) % 24
        return Observation(depth=depth, hour=hour, latency=latency, payload_bytes=simulation.payload_bytes)

    def _cap(self) -> int:
        return self._decision.tasks if self._decision else 0

    def allowance(self, slot: int) -> int:
        """Return how many tasks of a slot may run now."""
        return SlotPlan(rule=lambda depth: depth, cap=self._cap, tasks=self.permit_tasks).allowance(slot)

    def _drain(self, simulation: Simulation, permit: Permit) -> None:
        if not self.allowance(permit.slot):
            return
        simulation.count("blob-other", Cause.USEFUL)
        if permit.slot not in self._held:
            self._held.add(permit.slot)
            _Drain(self, simulation, permit, permit.depth).begin()

    def _look(self, simulation: Simulation) -> None:
        if simulation.now - self._looked_at >= LOOK_EVERY:
            self._looked_at = simulation.now
            simulation.count("table", Cause.SWEEP)

    def release(self, simulation: Simulation, permit: Permit, seconds: float) -> None:
        """Count the requests of a drain of so many seconds besides its messages, and free its slot."""
        self._held.discard(permit.slot)
        # The release and the renewals of the lease, the reads of the depth, the reads and reports of the fleet's rows.
        simulation.count("blob-other", Cause.USEFUL, 1 + int(seconds // RENEW_AFTER))
        simulation.count("queue", Cause.SWEEP, int(seconds // DEPTH_EVERY))
        simulation.count("table", Cause.SWEEP, 2 + 2 * int(seconds // LOOK_EVERY))
        handed_over = int(seconds // PATIENCE)
        simulation.count("bus", Cause.USEFUL, 3 * handed_over)
        simulation.count("blob-other", Cause.USEFUL, 2 * handed_over)
        if permit.slot == 0:
            simulation.count("queue", Cause.IDLE)
            if simulation.waiting:
                self._drain(simulation, permit)


@dataclass(slots=True)
class _Drain:
    """The tasks of one slot, until the first empty receive of any of them."""

    push: Push
    simulation: Simulation
    permit: Permit
    #: The last sample.
    depth: int
    running: int = 0
    began: float = 0.0
    sampled_at: float = 0.0
    is_empty: bool = False

    def begin(self) -> None:
        self.began = self.sampled_at = self.simulation.now
        self._start()

    def _start(self) -> None:
        self.running += 1
        self.simulation.grow()
        self.simulation.at(self.simulation.now, self._receive)

    def _receive(self) -> None:
        if self.is_empty or self.running > self.push.allowance(self.permit.slot):
            self._end()
            return
        size = self._size()
        taken = self.simulation.receive(size)
        if not taken:
            self.is_empty = True
            self._end()
            return
        if len(taken) == size:
            # One task receives first. A short receive means that the queue is empty.
            for _ in range(self.push.allowance(self.permit.slot) - self.running):
                self._start()
        self.simulation.work(taken, self._receive)

    def _size(self) -> int:
        simulation = self.simulation
        if simulation.now - self.sampled_at >= DEPTH_EVERY:
            self.depth, self.sampled_at = simulation.depth, simulation.now
        # A process learns the seconds per message from its first messages; the simulation has one process.
        pace = simulation.latency if simulation.done else AHEAD
        return receive_size(self.depth, self.permit.tasks, pace=pace, seconds=AHEAD)

    def _end(self) -> None:
        self.simulation.tasks -= 1
        self.running -= 1
        if not self.running:
            self.push.release(self.simulation, self.permit, self.simulation.now - self.began)


#: The random seed of the tables in the documentation.
SEED: Final = 20261120
DAY: Final = datetime(2026, 11, 20, tzinfo=UTC)
#: Messages that a dispatch puts per second.
PUT_RATE: Final = 500.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one size: their number, their hours and their chunks."""

    number: int
    hours: tuple[float, float]
    chunks: tuple[int, int]


KINDS: Final = (
    Kind(3, (1, 4), (1500, 4000)),
    Kind(1, (12, 13), (800, 1500)),
    Kind(45, (7, 19), (20, 300)),
    Kind(60, (0, 24), (1, 15)),
)
#: The least and the most seconds of work per chunk.
WORK: Final = (0.2, 1.0)


def bursty_day(seed: int = SEED) -> Trace:
    """Make the day of this random seed."""
    chance = random.Random(seed)  # noqa: S311 - makes an example, hides nothing
    stretches = {}
    for kind in KINDS:
        for _ in range(kind.number):
            at = DAY + timedelta(milliseconds=round(chance.uniform(*kind.hours) * 3_600_000))
            chunks = chance.randint(*kind.chunks)
            stretches[at] = Stretch(
                at=at, seconds=round(chunks / PUT_RATE, 3), arrived=chunks, latency=round(chance.uniform(*WORK), 3)
            )
    note = f"{len(stretches)} jobs, {sum(stretch.arrived for stretch in stretches.values())} chunks"
    return Trace(TraceHeader(what="synthetic", seed=seed, note=note), [stretches[at] for at in sorted(stretches)])
