"""Keeps a process to the fleet's decision. It reads the decision while it has work, and makes no request without work.

`Foresight` makes a burst's decision when the burst is put: at the next tick the burst may be over.

Measures the work of one process without any request: messages in work, seconds per message, CPU.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from threading import Event, Lock, Timer
from typing import Final, NamedTuple

from shared import __version__
from shared.azure import USED_BY_WORK, Cause, Governor, Pushback, because, governors_of_work
from shared.clock import Clock
from shared.concurrency.fleet import (
    ANNOUNCED_FOR,
    LOOK_EVERY,
    Decision,
    FeedRow,
    Fleet,
    FleetTable,
    Resting,
    Worker,
    is_late,
    must_announce,
)
from shared.concurrency.rules import Observation
from shared.concurrency.shares import Shares
from shared.errors import StorageUnavailableError
from shared.telemetry import describe_error, events, tell


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """The counts of a process since it started. The difference of two shows what happened in between."""

    in_flight: int
    done: int
    #: Seconds of work on the messages that are done.
    busy: float
    #: Cores used since the previous counts.
    cpu: float | None
    #: Chunks whose payload was read, and the stored bytes of these payloads.
    chunks: int = 0
    stored: int = 0
    #: Transactions of these chunks, and messages that failed.
    transactions: int = 0
    failed: int = 0
    #: By room: messages that are hidden after a failure, and until when.
    resting: Mapping[str, Resting] = field(default_factory=dict)


#: Seconds of a chunk, until one was measured, and the least that counts.
ASSUMED, BRIEFEST = 1.0, 0.01
#: Tasks that a fleet without work is expected to have soon.
FIRST_TASKS: Final = 16


class FleetPace(NamedTuple):
    """The work of the fleet, as last seen."""

    #: Tasks decided, and those in work.
    decided: int
    in_work: int
    #: Seconds of a chunk. None: none was measured.
    seconds: float | None = None

    @property
    def chunk(self) -> float:
        """Seconds of a chunk, measured or assumed."""
        return max(BRIEFEST, ASSUMED if self.seconds is None else self.seconds)

    def count_direct(self) -> int:
        """Return how many messages the queues may hold before a job waits: four seconds of the tasks that work."""
        tasks = max(FIRST_TASKS, min(self.decided, 2 * self.in_work))
        return ceil(tasks * max(1.75, 4 / self.chunk))

    def count_small(self) -> int:
        """Return how many messages the queues may hold before a small job waits: a chunk and a finish for each task.

        Its chunk may take no time. Accepting, crediting and finishing it takes as long as for a large job.
        """
        return 2 * max(FIRST_TASKS, min(self.decided, self.in_work))


class Gauge:
    """Counts the work of this process. Several threads may use it."""

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float] = time.process_time) -> None:
        self._clock, self._cpu_seconds, self._lock = clock, cpu_seconds, Lock()
        self._in_flight, self._done, self._busy = 0, 0, 0.0
        self._chunks, self._stored, self._transactions, self._failures = 0, 0, 0, 0
        self._failed: list[tuple[datetime, str]] = []
        self._read_at, self._cpu_then = clock.monotonic(), cpu_seconds()

    @property
    def in_flight(self) -> int:
        """The number of messages in work."""
        return self._in_flight

    @property
    def done(self) -> int:
        """The number of messages whose work has ended."""
        return self._done

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the work inside as one message, also if it fails."""
        began = self._clock.monotonic()
        with self._lock:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1
                self._done += 1
                self._busy += self._clock.monotonic() - began

    def weigh(self, stored: int, transactions: int) -> None:
        """Count a chunk whose payload has so many stored bytes and transactions."""
        with self._lock:
            self._chunks += 1
            self._stored += stored
            self._transactions += transactions

    def note_failed(self, room: str, until: datetime) -> None:
        """Count a message of a room that failed, and is hidden until then."""
        with self._lock:
            self._failures += 1
            self._failed.append((until, room))

    def _count_resting(self) -> dict[str, Resting]:
        now, found = self._clock.now(), dict[str, Resting]()
        self._failed = [one for one in self._failed if one[0] > now]
        for until, room in self._failed:
            found[room] = Resting(found[room].messages + 1 if room in found else 1, until)
        return found

    def read(self) -> WorkCounts:
        """Return the counts. The CPU is measured since the previous call."""
        now, cpu = self._clock.monotonic(), self._cpu_seconds()
        passed, used = now - self._read_at, cpu - self._cpu_then
        with self._lock:
            self._read_at, self._cpu_then = now, cpu
            cores = used / passed if passed > 0 else None
            return WorkCounts(
                in_flight=self._in_flight,
                done=self._done,
                busy=self._busy,
                cpu=cores,
                chunks=self._chunks,
                stored=self._stored,
                transactions=self._transactions,
                failed=self._failures,
                resting=self._count_resting(),
            )


def run_later(seconds: float, act: Callable[[], None]) -> None:
    """Run the function after so many seconds, unless the process ends before."""
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()


class Following:
    """The current decision as one process knows it. Several threads may use it.

    It makes at most two requests per `every` seconds, and only in a call of `look`, which a process makes when it has
    work.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - everything that a process has of its own
        self,
        table: FleetTable,
        pushback: Pushback,
        gauge: Gauge,
        clock: Clock,
        every: float = LOOK_EVERY,
        later: Callable[[float, Callable[[], None]], None] = run_later,
        *,
        decide: Callable[[], Decision],
    ) -> None:
        self._table, self.pushback, self.gauge, self._clock, self._every = table, pushback, gauge, clock, every
        self._later, self._decide, self._decided_at = later, decide, float("-inf")
        self.name, self._started_at = secrets.token_hex(8), clock.now()
        self._fleet, self._looked_at, self._looking = Fleet(), float("-inf"), Lock()
        #: Whether the first reading has ended.
        self._has_read = Event()
        self._seen_at = self._beside_at = float("-inf")
        self._reported: dict[str, Governor] = {}
        self._reported_done = 0

    def look(self) -> None:
        """Read the decision and report this process's work, unless that was done lately.

        One thread does it, and the others go on with the last decision. Before the first reading they wait for it: in a
        fresh process they would pass what waits, and any limit. If storage does not answer, the last decision stays:
        concurrency is no reason to fail.
        """
        if self._clock.monotonic() - self._looked_at < self._every or not self._looking.acquire(blocking=False):
            self._has_read.wait()
            return
        try:
            self._looked_at = self._clock.monotonic()
            # Work that is done until then is reported then, even if no further message comes and calls `look`.
            self._later(self._every, self._report_rest)
            with because(Cause.SWEEP):
                self._look()
        except StorageUnavailableError as error:
            tell(events.FLEET_UNREAD, error=describe_error(error))
        finally:
            self._has_read.set()
            self._looking.release()

    def _report_rest(self) -> None:
        if self.gauge.done != self._reported_done:
            self._try_look()

    def _try_look(self) -> None:
        try:
            self.look()
        except Exception as error:  # noqa: BLE001 - on a thread of its own: the connections may be closed by now
            tell(events.FLEET_UNREAD, error=describe_error(error))

    def _look(self) -> None:
        news = {
            resource: governor
            for resource, governor in self.pushback.governors().items()
            if governor.slowed_at and self._reported.get(resource, Governor()).times < governor.times
        }
        self._fleet = self._table.read(self._fleet.in_force)
        self._seen_at = self._clock.monotonic()
        self.pushback.learn(self._fleet.governors)
        if self.gauge.in_flight or self.gauge.done != self._reported_done:
            self._table.report(self._worker())
        # If another process has reported a later moment, its report stands: this one is not sent.
        own = self.pushback.governors()
        self._table.report_slow(
            {name: governor for name, governor in news.items() if own[name].slowed_at == governor.slowed_at}
        )
        self._reported = own

    def _worker(self) -> Worker:
        counted = self.gauge.read()
        self._reported_done = counted.done
        return Worker(
            name=self.name,
            at=self._clock.now(),
            started_at=self._started_at,
            in_flight=counted.in_flight,
            done=counted.done,
            busy=counted.busy,
            cpu=counted.cpu,
            chunks=counted.chunks,
            stored=counted.stored,
            transactions=counted.transactions,
            failed=counted.failed,
            resting=counted.resting,
            version=__version__,
            share=min((each.share for each in governors_of_work(self.pushback.governors()).values()), default=1.0),
        )

    def puts(self, full: int) -> int:
        """Return how many concurrent storage requests are allowed, at most `full`. Calls `look` first."""
        self.look()
        return self._bearable(full, full)

    def is_halted(self, job: str, halts: int) -> bool:
        """Check whether chunk messages of a job with this number are dropped, by the last reading. Makes no request."""
        return halts < self._fleet.halts.get(job, 0)

    def look_beside(self) -> None:
        """Call `look` on a thread of its own if it is due. So the calls of a long chunk go on meanwhile."""
        now = self._clock.monotonic()
        if now - max(self._looked_at, self._beside_at) >= self._every:
            self._beside_at = now
            self._later(0.0, self._try_look)

    def learn(self, decision: Decision) -> None:
        """Follow a decision that this process has just made itself."""
        if decision.rules_version != self._fleet.rules.version:
            # It found newer rules: they are read at the next call of `look`.
            self._looked_at = float("-inf")
        self._fleet = replace(self._fleet, decision=decision)

    def may_hold_urgent(self) -> bool:
        """Check whether the urgent lane may hold something. Makes no request."""
        return self._fleet.lane is not None

    def view_feed(self, age: float) -> FeedRow | None:
        """Return the feeder's row by a reading of at most this age, if it holds. None: it does not, or is unknown."""
        with self._looking, suppress(StorageUnavailableError):
            try:
                if (now := self._clock.monotonic()) - self._seen_at > age:
                    self._fleet, self._seen_at = self._table.read(self._fleet.in_force), now
            finally:
                self._has_read.set()
        is_known = self._clock.monotonic() - self._seen_at <= age
        return self._fleet.living_feed(self._clock.now()) if is_known else None

    def resting(self) -> dict[str, int]:
        """Return by room how many messages are hidden after a failure, by the last reading. Makes no request."""
        return self._fleet.resting(self._clock.now())

    def shares(self) -> Shares:
        """Return how the rooms share the work, by the last reading. Makes no request."""
        return self._fleet.rules.shares

    def is_limited(self, room: str) -> bool:
        """Check whether the rules limit the chunks of a room, by the last reading. Makes no request."""
        # Not by `Shares.of`: each job is looked up here, and most installations name no room.
        share = self._fleet.rules.shares.rooms.get(room)
        return share is not None and share.most is not None

    def waiting(self) -> int:
        """Return the chunks that wait for their turn, by the last reading. Makes no request."""
        return self._fleet.waiting(self._clock.now())

    def pace(self) -> FleetPace:
        """Return the tasks decided, the messages in work, and the seconds of one. Makes no request."""
        now, decision = self._clock.now(), self._fleet.decision
        seen = decision.observation if decision else None
        latency = self._fleet.latency(now) or (seen.latency if seen else None)
        in_work = sum(worker.in_flight for worker in self._fleet.fresh(now))
        return FleetPace(self.read_decision(), in_work, latency)

    def is_late(self, deadline: datetime, messages: int) -> bool:
        """Predict whether the fleet ends so many messages after a deadline. Calls `look` first."""
        self.look()
        now = self._clock.now()
        return is_late(deadline, messages, self._fleet.latency(now), self.read_decision(), now)

    def announce(self) -> None:
        """Say that messages come on the urgent lane, before they are put there. One request in some minutes."""
        now = self._clock.now()
        if must_announce(self._fleet.lane, now):
            self._fleet = replace(self._fleet, lane=self._table.announce(now + ANNOUNCED_FOR))

    def read_decision(self) -> int:
        """Return the tasks decided for the fleet, 0 without a decision. Makes no request."""
        return self._fleet.decision.tasks if self._fleet.decision else 0

    def chunk_seconds(self) -> float:
        """Return the seconds between two chunks that the fleet ends, as last decided and seen. 0 if nothing is known."""
        decision = self._fleet.decision
        seen = decision.observation if decision else None
        return ((seen and seen.latency) or 0.0) / max(1, self.read_decision())

    def cap(self) -> int:
        """Return the tasks that may run over the fleet now: what was decided, within what services bear.

        While nothing is decided, that is one task. Calls `look`, which limits its requests.
        """
        self.look()
        decided = self.read_decision() if self._has_decision() else 1
        return min(decided, self._bearable(self._fleet.rules.most, decided))

    def notice_work(self) -> None:
        """Call with a message at hand. Without a decision for it, which a dispatch makes before its put, decide now."""
        self.look()
        # While another thread looks, this one does not know yet whether there is a decision.
        if self._has_decision() or not self._looking.acquire(blocking=False):
            return
        try:
            now = self._clock.monotonic()
            if not self._has_decision() and now - self._decided_at >= self._every:
                self._decided_at = now
                # Without an answer one task runs, until this process reads again or the next tick decides.
                with suppress(StorageUnavailableError):
                    self.learn(self._decide())
        finally:
            self._looking.release()

    def _has_decision(self) -> bool:
        decision = self._fleet.decision
        return decision is not None and not decision.is_idle

    def rule(self, depth: int, payload_bytes: float | None = None) -> int:
        """Return the tasks that the rules in force want for this depth, and payloads of this size if it is known.

        Makes no request.
        """
        last = self._fleet.decision.observation if self._fleet.decision else None
        seen = replace(last or Observation(depth=0), depth=depth, hour=self._clock.now().hour)
        if payload_bytes is not None:
            seen = replace(seen, payload_bytes=payload_bytes)
        return self._fleet.rules.ask(seen).tasks

    def _bearable(self, full: int, used: int) -> int:
        return min(self.pushback.limit(full, used, resource) for resource in USED_BY_WORK)


@dataclass(slots=True, kw_only=True)
class Foresight:
    """Decides before a put that calls for more tasks than the current decision. Enters `wake` around the put."""

    following: Following
    decide: Callable[[int, float | None], Decision]
    wake: Callable[[int, int], AbstractContextManager[None]]
    clock: Clock
    every: float = LOOK_EVERY
    #: The last time that it decided, and the tasks that were wanted then.
    _decided_at: float = field(default=float("-inf"), init=False)
    _decided_for: int = field(default=0, init=False)

    @contextmanager
    def __call__(self, messages: int, coming: int, payload_bytes: float | None = None) -> Iterator[None]:
        """Enter around a put of so many messages, the first of `coming` in the same dispatch.

        `payload_bytes` is the mean of their stored bytes. None: they are no chunks.
        """
        if self._needs_decision(coming, payload_bytes):
            # Without an answer the process that begins the work decides. The work is put in any case.
            with suppress(StorageUnavailableError):
                self.following.learn(self.decide(coming, payload_bytes))
        with self.wake(messages, coming):
            yield

    def _needs_decision(self, coming: int, payload_bytes: float | None) -> bool:
        self.following.look()
        wanted, now = self.following.rule(coming, payload_bytes), self.clock.monotonic()
        # A decision may stay below what is wanted: a service pushes back. Only a larger put asks again soon.
        if self.following.read_decision() >= wanted or (
            now - self._decided_at < self.every and wanted <= self._decided_for
        ):
            return False
        self._decided_at, self._decided_for = now, wanted
        return True
