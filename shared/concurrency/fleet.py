"""What the whole fleet shares about its concurrency, one table partition: the decision, governors, rules, processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.concurrency.decide import Decision
from shared.concurrency.governor import Governor
from shared.concurrency.rules import BUILT_IN, Rules

#: Seconds between two looks of a process that has work.
LOOK_EVERY: Final = 10.0
#: A process that was not heard of for so long works on nothing.
FRESH: Final = timedelta(seconds=3 * LOOK_EVERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What one process tells: its counts since it started."""

    name: str
    at: datetime
    started_at: datetime
    in_flight: int
    done: int
    busy: float
    cpu: float | None = None
    #: The part of the full rate that it keeps to, by the slowest resource.
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules as the tick found them, and the ETag of their blob."""

    rules: Rules
    text: str
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One reading of the partition."""

    decision: Decision | None = None
    decision_etag: str = ""
    governors: Mapping[str, Governor] = field(default_factory=dict)
    in_force: RulesInForce | None = None
    workers: Sequence[Worker] = ()

    @property
    def rules(self) -> Rules:
        """The rules in force; those built in where nobody wrote any."""
        return self.in_force.rules if self.in_force else BUILT_IN

    def fresh(self, now: datetime) -> list[Worker]:
        """Return the processes that work now, as far as anybody knows."""
        return [worker for worker in self.workers if now - worker.at <= FRESH]


def share_here(fleet: Fleet, now: datetime, full: int) -> int:
    """Return how many messages this process may have in work, of the `full` that it can have; pure.

    The decision counts tasks over the fleet, so each process that works takes an equal part. The rules' own wish binds
    a process only where an operator wrote rules: the built-in ones follow the depth of the moment, and a decision is
    a minute old at times.
    """
    decision = fleet.decision
    if decision is None or not decision.tasks:
        # No task over the fleet means that the queues were empty; whoever has a message knows better.
        return full
    allowed = decision.tasks if decision.rules_version else decision.cap
    if allowed is None:
        return full
    return max(1, min(full, -(-allowed // max(1, len(fleet.fresh(now))))))
