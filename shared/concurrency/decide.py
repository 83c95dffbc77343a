"""Decides how many tasks may run over the fleet: the smallest limit of rules, services and budget, damped.

The same inputs give the same decision, so any decision can be replayed from its record. Makes no request.

It also decides about the urgent lane, a work queue that every task asks first while a row beside the decision says that
it holds something. The row is written before the messages, and says until when more may come. Only the tick removes it:
after that time, when the lane is empty and the row was not written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.azure import Governor
from shared.concurrency.rules import Observation, Rules

#: The quiet time after pressure lowered a decision: ten seconds and ten times the seconds per message, at most half a
#: minute.
QUIET: Final = timedelta(seconds=10)
LATENCIES: Final = 10
LONGEST_QUIET: Final = timedelta(seconds=30)
#: A change by a smaller part than this is not made: every change costs a row and moves the fleet.
SMALLEST_CHANGE: Final = 0.1
RULE, GOVERNOR, BUDGET = "rule", "governor", "budget"


@dataclass(frozen=True, slots=True)
class Decision:
    """The tasks over the fleet, and the reason."""

    tasks: int
    at: datetime
    #: The limit that each term gave. None: it gave no limit.
    terms: Mapping[str, int | None]
    #: The term that decided.
    binding: str
    reason: str
    rules_version: int = 0
    #: The last time that a term other than a rule lowered it.
    pressed_at: datetime | None = None
    #: The inputs, so that the decision can be replayed.
    observation: Observation | None = None

    @property
    def is_idle(self) -> bool:
        """True if it was made for empty queues, so that it says nothing about work that has come since."""
        return not self.tasks and (self.observation is None or not self.observation.depth)


def decide_tasks(  # noqa: PLR0913, PLR0917 - a decision has these inputs, and no object would make them fewer
    rules: Rules,
    observation: Observation,
    governors: Mapping[str, Governor],
    budget: int | None,
    previous: Decision | None,
    now: datetime,
) -> Decision:
    """Return the decision that holds from now on."""
    asked = rules.ask(observation)
    slowest = min(governors, key=lambda name: governors[name].share, default="")
    governor = governors[slowest].limit(rules.most) if slowest else rules.most
    terms = {RULE: asked.tasks, GOVERNOR: governor, BUDGET: budget}
    known = {name: term for name, term in terms.items() if term is not None}
    binding = min(known, key=lambda name: known[name])
    why = {
        RULE: asked.why,
        GOVERNOR: f"{slowest} pushes back, {governors[slowest].share:.0%} of the full rate" if slowest else "",
        BUDGET: f"the budget of the day allows {budget}",
    }
    fresh = Decision(known[binding], now, terms, binding, why[binding], rules.version, None, observation)
    return fresh if previous is None else _damp(fresh, previous)


def _damp(fresh: Decision, previous: Decision) -> Decision:
    """Limit the step from the previous decision: hold back a small change, and growth in quiet time."""
    if fresh.tasks < previous.tasks:
        # Other rules bind at once: the tasks that run must not stay above what an operator just wrote.
        if _is_small(fresh, previous) and fresh.rules_version == previous.rules_version:
            return _hold_back(fresh, previous, "too small a change")
        return replace(fresh, pressed_at=previous.pressed_at if fresh.binding == RULE else fresh.at)
    fresh = replace(fresh, pressed_at=previous.pressed_at)
    # Growth from 0 is not damped: work has come.
    if fresh.tasks == previous.tasks or not previous.tasks:
        return fresh
    if previous.pressed_at and fresh.at < previous.pressed_at + _quiet(fresh):
        return _hold_back(fresh, previous, f"quiet time after it was lowered at {previous.pressed_at:%H:%M:%S}")
    return _hold_back(fresh, previous, "too small a change") if _is_small(fresh, previous) else fresh


def _hold_back(fresh: Decision, previous: Decision, why: str) -> Decision:
    # Never above the limit of a term: holding back is for growth, and for a small fall.
    tasks = min([previous.tasks, *(term for name, term in fresh.terms.items() if name != RULE and term is not None)])
    return replace(fresh, tasks=tasks, pressed_at=previous.pressed_at, reason=f"{fresh.reason}; held at {tasks}: {why}")


def _is_small(fresh: Decision, previous: Decision) -> bool:
    # A step to 0 is never small. From a few tasks, every step is a large part.
    return bool(fresh.tasks) and abs(fresh.tasks - previous.tasks) < SMALLEST_CHANGE * previous.tasks


def _quiet(decision: Decision) -> timedelta:
    latency = (decision.observation.latency if decision.observation else None) or 0.0
    return min(LONGEST_QUIET, QUIET + timedelta(seconds=min(LATENCIES * latency, LONGEST_QUIET.total_seconds())))


#: The row announces messages for so long.
ANNOUNCED_FOR: Final = timedelta(minutes=5)
#: A row with less time left is written again. A put comes within a minute; the rest is for clocks that differ.
LEFT: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class LaneRow:
    """The row that says that the lane may hold something."""

    #: Until then messages may come.
    until: datetime
    etag: str = ""


def must_announce(lane: LaneRow | None, now: datetime) -> bool:
    """Check whether the row has to be written before a put, by any earlier reading of it.

    No reading is too old for this: a row is never removed before its time.
    """
    return lane is None or lane.until - now < LEFT


def may_forget(lane: LaneRow, depth: int, now: datetime) -> bool:
    """Check whether the row may be removed: the lane was empty after the row was read, and no put may still come."""
    return not depth and now >= lane.until


def is_late(deadline: datetime, messages: int, latency: float | None, tasks: int, now: datetime) -> bool:
    """Predict whether so many messages, each of which takes `latency` seconds, end after a deadline.

    False if nothing was measured yet, or no task was decided.
    """
    return bool(latency and tasks) and messages * (latency or 0.0) / tasks > (deadline - now).total_seconds()
