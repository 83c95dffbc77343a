"""The tick's part: sample the queues, decide, write the changes, record. It does nothing while no job is open."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from shared.azure import Governor, Pushback, governors_of_work
from shared.clock import Clock
from shared.concurrency.decide import ANNOUNCED_FOR, BUDGET, Decision, decide_tasks, may_forget
from shared.concurrency.fleet import Fleet, RulesInForce
from shared.concurrency.fleet_table import FleetChange, FleetTable
from shared.concurrency.observe import Depths, QueueReading, Seen, observe, take_reading
from shared.concurrency.rules import Observation, RuleInput, Rules
from shared.concurrency.rules_blob import RulesBlob, Unchanged
from shared.concurrency.rules_text import lint
from shared.concurrency.trace import Stretch
from shared.telemetry import events, tell

#: Processes that ended long ago are forgotten.
GONE_AFTER: Final = timedelta(hours=1)
#: Minutes between two reads of the oldest message's age if no rule needs it, and the seconds from which it is logged.
AGE_EVERY: Final = 15
OLD: Final = 900


class SampleDepths(Protocol):
    """Samples the work queues."""

    def __call__(self, *, with_age: bool) -> Depths:
        """Return the depth and, if requested, the age of the oldest message."""
        ...


def no_budget(_now: datetime, _tasks: int) -> int | None:
    """Give no limit: no budget is set."""
    return None


def no_lane() -> int:
    """Hold nothing: no task asks the urgent lane."""
    return 0


def no_top_up(_depth: int, _tasks: int) -> int:
    """Start nothing: the host's own triggers do."""
    return 0


@dataclass(slots=True, kw_only=True)
class Tuning:
    """Makes the decisions. There is one per process, and it remembers its last sample."""

    fleet: FleetTable
    rules: RulesBlob
    depths: SampleDepths
    pushback: Pushback
    record: Callable[[Stretch], None]
    clock: Clock
    #: The tasks that the budget of the day allows now, after so many ran. None: no budget is set.
    budget: Callable[[datetime, int], int | None] = no_budget
    #: Reads how many messages the urgent lane holds. Called while its row is there, and once an hour.
    lane: Callable[[], int] = no_lane
    #: Sends the permits that are missing for this depth, and returns how many. Only in push mode.
    top_up: Callable[[int, int], int] = no_top_up
    _before: QueueReading | None = field(default=None, init=False)

    def run(self) -> Decision:
        """Sample and decide. Called while a job is open."""
        now, before = self.clock.now(), self._before
        fleet = self.fleet.read()
        rules, found = self._watch(fleet)
        needs_age = any(part.metric is RuleInput.OLDEST_AGE for rule in rules.rules for part in rule.conditions)
        # By the clock and not by a count, as the tick does with poison queues.
        depths = self.depths(with_age=needs_age or now.minute % AGE_EVERY == 0)
        depths = replace(depths, depth=depths.depth + self._look_at_lane(fleet, now))
        if depths.oldest_age is not None and depths.oldest_age >= OLD:
            tell(events.WORK_WAITING, oldest_seconds=round(depths.oldest_age), depth=depths.depth)
        seen = observe(depths, fleet, before, now)
        self._before = take_reading(depths, fleet.workers, now)
        governors = self._governors(fleet, seen, now)
        decision = decide_tasks(
            rules,
            seen.observation,
            governors_of_work(governors),
            self.budget(now, _count_running(fleet.decision)),
            fleet.decision,
            now,
        )
        self._write(fleet, decision, governors, found)
        if before is not None and (seen.arrived or seen.drained or seen.observation.depth):
            self.record(_stretch(before.at, seen, decision))
        if seen.observation.depth:
            self.top_up(seen.observation.depth, decision.tasks)
        return decision

    def _look_at_lane(self, fleet: Fleet, now: datetime) -> int:
        """Return how many messages the urgent lane holds, and correct its row."""
        if fleet.lane is None and now.minute:
            return 0
        depth = self.lane()
        if fleet.lane is None and depth:
            self.fleet.announce(now + ANNOUNCED_FOR)
        elif fleet.lane is not None and may_forget(fleet.lane, depth, now):
            self.fleet.forget(fleet.lane)
        return depth

    def foresee(self, messages: int, payload_bytes: float | None = None) -> Decision:
        """Decide for a coming put, so that a burst has its decision before it begins. Makes three requests."""
        fleet = self.fleet.read()
        before = fleet.decision.observation if fleet.decision else None
        # The messages of the last sample may still be there. To count too many only starts a task too many.
        return self._decide_now(fleet, messages + (before.depth if before else 0), payload_bytes)

    def catch_up(self) -> Decision:
        """Decide for work that came without a decision, such as messages that were put back. Wake tasks for it."""
        depth = self.depths(with_age=False).depth
        decision = self._decide_now(self.fleet.read(), depth)
        if depth:
            self.top_up(depth, decision.tasks)
        return decision

    def _decide_now(self, fleet: Fleet, depth: int, payload_bytes: float | None = None) -> Decision:
        now, last = self.clock.now(), fleet.decision
        rules, found = self._watch(fleet)
        before = last.observation if last else None
        seen = replace(before or Observation(depth=0), depth=depth, hour=now.hour)
        if payload_bytes is not None:
            # Of the put that is decided for: what was there before was read already, or is read beside it.
            seen = replace(seen, payload_bytes=payload_bytes)
        own = self.pushback.governors()
        governors = {name: known.after(own.get(name, known)) for name, known in fleet.governors.items()}
        # Only the tick reads the cost of the day. It did so within the last minute.
        budget = last.terms.get(BUDGET) if last else None
        decision = decide_tasks(rules, seen, governors_of_work(governors), budget, last, now)
        if self._write(fleet, decision, {}, found):
            return decision
        # Another process decided first. Its decision binds this one too.
        return self.fleet.read().decision or decision

    def _watch(self, fleet: Fleet) -> tuple[Rules, FleetChange]:
        """Return the rules to decide by, and their change."""
        found = self.rules.look(fleet.in_force.etag if fleet.in_force else None)
        if isinstance(found, Unchanged):
            return fleet.rules, FleetChange()
        if found is None:
            return Fleet().rules, FleetChange(rules_gone=fleet.in_force is not None)
        linted = lint(found.text)
        if linted.rules is None:
            # The rules in force stay: a slip of an operator must not change the tasks that run.
            tell(events.RULES_UNREADABLE, problems=[str(problem) for problem in linted.problems])
            return fleet.rules, FleetChange()
        return linted.rules, FleetChange(in_force=RulesInForce(linted.rules, found.text, found.etag))

    def _governors(self, fleet: Fleet, seen: Seen, now: datetime) -> dict[str, Governor]:
        self.pushback.learn(fleet.governors)
        own = self.pushback.governors()
        # With work on the queues, all that is allowed is used. Without work, nothing proves that a service is back.
        is_in_use = seen.observation.depth > 0
        return {
            name: fleet.governors.get(name, governor).after(governor).grow(now, is_in_use=is_in_use)
            for name, governor in own.items()
        }

    def _write(self, fleet: Fleet, decision: Decision, governors: dict[str, Governor], found: FleetChange) -> bool:
        """Write what has changed. Return False if another decision was written meanwhile, and stands."""
        change = FleetChange(
            decision=decision if is_news(fleet.decision, decision) else None,
            governors={name: new for name, new in governors.items() if fleet.governors.get(name) != new},
            in_force=found.in_force,
            rules_gone=found.rules_gone,
            gone=[worker for worker in fleet.workers if decision.at - worker.at > GONE_AFTER],
        )
        if change.is_none:
            return True
        # If another tick decided first, its decision stands, and that tick logs it.
        if not self.fleet.commit(fleet, change):
            return False
        if change.decision:
            tell(events.CONCURRENCY_DECIDED, tasks=decision.tasks, binding=decision.binding, reason=decision.reason)
        return True


def is_news(before: Decision | None, after: Decision) -> bool:
    """Return True if a decision differs in its tasks, its binding term or its rules."""
    return before is None or (before.tasks, before.binding, before.rules_version) != (
        after.tasks,
        after.binding,
        after.rules_version,
    )


def _count_running(decision: Decision | None) -> int:
    """Return how many tasks a decision kept busy, as far as known: no task runs without a message."""
    seen = decision.observation if decision else None
    return 0 if decision is None else decision.tasks if seen is None else min(decision.tasks, seen.depth)


def _stretch(since: datetime, seen: Seen, decision: Decision) -> Stretch:
    observation = seen.observation
    return Stretch(
        at=since,
        seconds=seen.seconds,
        arrived=seen.arrived,
        drained=seen.drained,
        depth=observation.depth,
        tasks=decision.tasks,
        oldest_age=observation.oldest_age,
        latency=observation.latency,
        cpu=observation.cpu,
        payload_bytes=observation.payload_bytes,
        in_flight=observation.in_flight,
    )
