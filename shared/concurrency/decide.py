"""How many tasks may run over the fleet: the smallest of what rules, services and budget say, damped; pure.

The same inputs give the same decision, so any decision can be replayed from what was recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.azure import Governor
from shared.concurrency.rules import Observation, Rules

#: Quiet time after pressure lowered a decision: ten seconds and ten times what a message takes, half a minute at most.
QUIET: Final = timedelta(seconds=10)
LATENCIES: Final = 10
LONGEST_QUIET: Final = timedelta(seconds=30)
#: A change by a smaller part than this is none: every change is a row, and a fleet that is asked to move.
SMALLEST_CHANGE: Final = 0.1
RULE, GOVERNOR, BUDGET = "rule", "governor", "budget"


@dataclass(frozen=True, slots=True)
class Decision:
    """Tasks over the fleet, and how that came about."""

    tasks: int
    at: datetime
    #: What each term allowed; None where it has nothing to say.
    terms: Mapping[str, int | None]
    #: The term that decided.
    binding: str
    reason: str
    rules_version: int = 0
    #: When something else than a rule lowered it last.
    pressed_at: datetime | None = None
    #: What decided it, so that it can be replayed.
    observation: Observation | None = None

    @property
    def cap(self) -> int | None:
        """What services and budget allow, whatever the rules want; None: as many as you like."""
        pressing = [term for name, term in self.terms.items() if name != RULE and term is not None]
        return min(pressing, default=None)


def decide_tasks(  # noqa: PLR0913, PLR0917 - a decision has these inputs, and no object would make them fewer
    rules: Rules,
    observation: Observation,
    governors: Mapping[str, Governor],
    budget: int | None,
    previous: Decision | None,
    now: datetime,
) -> Decision:
    """Return what holds from now on."""
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
    """Return the decision as far as it may follow the one before."""
    if fresh.tasks < previous.tasks:
        if _is_small(fresh, previous):
            return _hold_back(fresh, previous, "too small a change")
        return replace(fresh, pressed_at=previous.pressed_at if fresh.binding == RULE else fresh.at)
    fresh = replace(fresh, pressed_at=previous.pressed_at)
    # From nothing there is nothing to be damped: work has come.
    if fresh.tasks == previous.tasks or not previous.tasks:
        return fresh
    if previous.pressed_at and fresh.at < previous.pressed_at + _quiet(fresh):
        return _hold_back(fresh, previous, f"quiet time after it was lowered at {previous.pressed_at:%H:%M:%S}")
    # What is allowed already is used: rules never ask for more tasks than there are messages.
    return _hold_back(fresh, previous, "too small a change") if _is_small(fresh, previous) else fresh


def _hold_back(fresh: Decision, previous: Decision, why: str) -> Decision:
    # Never above what a term allows: holding is for what would grow, and for what would hardly fall.
    tasks = min([previous.tasks, *(term for name, term in fresh.terms.items() if name != RULE and term is not None)])
    return replace(fresh, tasks=tasks, pressed_at=previous.pressed_at, reason=f"{fresh.reason}; held at {tasks}: {why}")


def _is_small(fresh: Decision, previous: Decision) -> bool:
    # To nothing, and from what little there is, every step counts.
    return bool(fresh.tasks) and abs(fresh.tasks - previous.tasks) < SMALLEST_CHANGE * previous.tasks


def _quiet(decision: Decision) -> timedelta:
    latency = (decision.observation.latency if decision.observation else None) or 0.0
    return min(LONGEST_QUIET, QUIET + timedelta(seconds=min(LATENCIES * latency, LONGEST_QUIET.total_seconds())))
