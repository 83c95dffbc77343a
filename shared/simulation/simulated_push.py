"""Simulates Sluice itself in push mode for the simulator: its decisions, its permits, and every request.

`decide_tasks` itself makes the decisions. The requests of a dispatch, a permit, a drain and a tick are counted as the
code in `shared/dequeue` and `shared/app/tick.py` makes them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from shared.azure import Cause, Governor
from shared.concurrency import LOOK_EVERY, Decision, Observation, Rules, decide_tasks
from shared.dequeue import AHEAD, DEPTH_EVERY, PATIENCE, RENEW_AFTER, SlotPlan, receive_size
from shared.permit import Permit
from shared.simulation.simulator import Simulation
from shared.usage import MOST_UNNOTED

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
