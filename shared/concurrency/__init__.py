"""The decision how many tasks may run, and why: an operator's rules, the limits of the services, the budget.

Reading order:

- `rules`: the inputs of a rule, and the rule that applies. `rules_text` and `rules_blob` read and keep them.
- `decide`: the smallest limit, with its reason; which jobs overtake.
- `fleet`, `fleet_table`: the rows that the processes share.
- `gauge`, `following`: how a process measures its work and keeps to the decision.
- `observe`, `tuning`: the tick's part. `trace` records it.
"""

from shared.concurrency.decide import Decision, decide_tasks
from shared.concurrency.fleet import LOOK_EVERY, Fleet
from shared.concurrency.fleet_table import FleetTable
from shared.concurrency.following import Following, Foresight
from shared.concurrency.gauge import Gauge
from shared.concurrency.observe import QueueDepths
from shared.concurrency.rules import BUILT_IN, Observation, Ratio, Rule, Rules
from shared.concurrency.rules_blob import NONE, RulesBlob, RulesText
from shared.concurrency.rules_sample import SAMPLE
from shared.concurrency.rules_text import lint, parse
from shared.concurrency.trace import Recorder, Stretch, Trace, TraceHeader, read, write
from shared.concurrency.tuning import Tuning, no_lane, no_top_up

__all__ = [
    "BUILT_IN",
    "LOOK_EVERY",
    "NONE",
    "SAMPLE",
    "Decision",
    "Fleet",
    "FleetTable",
    "Following",
    "Foresight",
    "Gauge",
    "Observation",
    "QueueDepths",
    "Ratio",
    "Recorder",
    "Rule",
    "Rules",
    "RulesBlob",
    "RulesText",
    "Stretch",
    "Trace",
    "TraceHeader",
    "Tuning",
    "decide_tasks",
    "lint",
    "no_lane",
    "no_top_up",
    "parse",
    "read",
    "write",
]
