"""How a process keeps to what was decided for the fleet: it looks while it has work, and is free while it has none.

Lets a burst have its decision when it is put, and not only at the next tick, when it may be over.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Lock, Timer

from shared.azure import USED_BY_WORK, Cause, Governor, Pushback, because, governors_of_work
from shared.clock import Clock
from shared.concurrency.decide import Decision
from shared.concurrency.fleet import LOOK_EVERY, Fleet, Worker, share_here
from shared.concurrency.fleet_table import FleetTable
from shared.concurrency.gauge import Gauge
from shared.concurrency.rules import Observation
from shared.errors import StorageUnavailableError
from shared.telemetry import describe_error, events, tell


def run_later(seconds: float, act: Callable[[], None]) -> None:
    """Run it after so many seconds, unless the process ends before."""
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()


class Following:
    """What one process knows of the current decision; safe from several threads.

    Two requests at most every `every` seconds, and only from a call of `look`, which whoever has work makes.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - everything that a process has of its own
        self,
        table: FleetTable,
        pushback: Pushback,
        gauge: Gauge,
        clock: Clock,
        every: float = LOOK_EVERY,
        later: Callable[[float, Callable[[], None]], None] = run_later,
    ) -> None:
        self._table, self.pushback, self.gauge, self._clock, self._every = table, pushback, gauge, clock, every
        self._later = later
        self._name, self._started_at = secrets.token_hex(8), clock.now()
        self._fleet, self._looked_at, self._looking = Fleet(), float("-inf"), Lock()
        self._reported: dict[str, Governor] = {}
        self._reported_done = 0

    def look(self) -> None:
        """Read the decision and tell what this process does, if that was not done lately.

        One thread does it and the others go on with what is known. Should storage not answer, what is known stays:
        concurrency is no reason to fail.
        """
        if self._clock.monotonic() - self._looked_at < self._every or not self._looking.acquire(blocking=False):
            return
        try:
            self._looked_at = self._clock.monotonic()
            # What is done until then is told then, also when nothing else comes and nobody looks any more.
            self._later(self._every, self._report_rest)
            with because(Cause.SWEEP):
                self._look()
        except StorageUnavailableError as error:
            tell(events.FLEET_UNREAD, error=describe_error(error))
        finally:
            self._looking.release()

    def _report_rest(self) -> None:
        if self.gauge.done == self._reported_done:
            return
        try:
            self.look()
        except Exception as error:  # noqa: BLE001 - on a thread of its own; the connections may be closed by now
            tell(events.FLEET_UNREAD, error=describe_error(error))

    def _look(self) -> None:
        news = {
            resource: governor
            for resource, governor in self.pushback.governors().items()
            if governor.slowed_at and self._reported.get(resource, Governor()).times < governor.times
        }
        self._fleet = self._table.read(self._fleet.in_force)
        self.pushback.learn(self._fleet.governors)
        if self.gauge.in_flight or self.gauge.done != self._reported_done:
            self._table.report(self._worker())
        # What others were told later, they have told already.
        own = self.pushback.governors()
        self._table.report_slow(
            {name: governor for name, governor in news.items() if own[name].slowed_at == governor.slowed_at}
        )
        self._reported = own

    def _worker(self) -> Worker:
        counted = self.gauge.read()
        self._reported_done = counted.done
        return Worker(
            name=self._name,
            at=self._clock.now(),
            started_at=self._started_at,
            in_flight=counted.in_flight,
            done=counted.done,
            busy=counted.busy,
            cpu=counted.cpu,
            share=min((one.share for one in governors_of_work(self.pushback.governors()).values()), default=1.0),
        )

    def here(self, full: int) -> int:
        """Return how many messages this process may have in work, of `full`; free."""
        return min(self._bearable(full, self.gauge.in_flight), share_here(self._fleet, self._clock.now(), full))

    def puts(self, full: int) -> int:
        """Return how many concurrent storage requests are allowed, at most `full`; looks first."""
        self.look()
        return self._bearable(full, full)

    def learn(self, decision: Decision) -> None:
        """Follow a decision that this process has just made itself."""
        self._fleet = replace(self._fleet, decision=decision)

    def read_decision(self) -> int:
        """Return the tasks that were decided for the fleet, none while nothing was; free."""
        return self._fleet.decision.tasks if self._fleet.decision else 0

    def tasks(self) -> int:
        """Return the tasks that were decided for the fleet; those of the rules while nothing was decided; free."""
        decision = self._fleet.decision
        return self._fleet.rules.most if decision is None else decision.tasks

    def cap(self) -> int:
        """Return the tasks that services and budget allow the fleet now, whatever the rules want.

        Asked by whoever was woken for work, before it takes any: so it looks, as often as `look` does.
        """
        self.look()
        decision, most = self._fleet.decision, self._fleet.rules.most
        decided = most if decision is None or decision.cap is None else min(most, decision.cap)
        return min(decided, self._bearable(most, decided))

    def rule(self, depth: int) -> int:
        """Return the tasks that the rules in force want for this depth; free."""
        last = self._fleet.decision.observation if self._fleet.decision else None
        seen = replace(last or Observation(depth=0), depth=depth, hour=self._clock.now().hour)
        return self._fleet.rules.ask(seen).tasks

    def _bearable(self, full: int, used: int) -> int:
        return min(self.pushback.limit(full, used, resource) for resource in USED_BY_WORK)


@dataclass(slots=True, kw_only=True)
class Foresight:
    """Decides before a put that calls for more tasks than are decided, then wakes whoever is woken for it."""

    following: Following
    decide: Callable[[int], Decision]
    wake: Callable[[int, int], AbstractContextManager[None]]
    clock: Clock
    every: float = LOOK_EVERY
    _decided_at: float = field(default=float("-inf"), init=False)

    @contextmanager
    def __call__(self, messages: int, coming: int) -> Iterator[None]:
        """Enter around a put of so many messages, the first of `coming` in the same dispatch."""
        if self._is_news(coming):
            self._decided_at = self.clock.monotonic()
            # The tick decides it otherwise; work is put in any case.
            with suppress(StorageUnavailableError):
                self.following.learn(self.decide(coming))
        with self.wake(messages, coming):
            yield

    def _is_news(self, coming: int) -> bool:
        if self.clock.monotonic() - self._decided_at < self.every:
            return False
        self.following.look()
        return self.following.read_decision() < self.following.rule(coming)
