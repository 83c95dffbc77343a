"""How many tasks may run, and why: rules of an operator, the limits of the services, the budget.

Reading order: `rules` (what a rule may look at, and which one holds), `decide` (the smallest limit, with its reason),
`following` (how a process keeps to the decision), `tuning` (the tick's part).
"""

from shared.concurrency.decide import Decision, decide_tasks
from shared.concurrency.fleet import LOOK_EVERY, Fleet
from shared.concurrency.fleet_table import FleetTable
from shared.concurrency.following import Following, Foresight
from shared.concurrency.gauge import MOST_HERE, Gauge, Limiter
from shared.concurrency.observe import QueueDepths
from shared.concurrency.rules import BUILT_IN, Observation, Ratio, Rule, Rules
from shared.concurrency.rules_blob import RulesBlob
from shared.concurrency.rules_text import lint, parse
from shared.concurrency.trace import Recorder, Stretch, Trace, TraceHeader, read, write
from shared.concurrency.tuning import Tuning, no_top_up

__all__ = [
    "BUILT_IN",
    "LOOK_EVERY",
    "MOST_HERE",
    "Decision",
    "Fleet",
    "FleetTable",
    "Following",
    "Foresight",
    "Gauge",
    "Limiter",
    "Observation",
    "QueueDepths",
    "Ratio",
    "Recorder",
    "Rule",
    "Rules",
    "RulesBlob",
    "Stretch",
    "Trace",
    "TraceHeader",
    "Tuning",
    "decide_tasks",
    "lint",
    "no_top_up",
    "parse",
    "read",
    "write",
]
