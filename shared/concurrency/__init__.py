"""The decision how many tasks may run, and why: an operator's rules, the limits of the services, the budget.

Reading order:

- `rules`: the inputs of a rule, the rule that applies, and how the text of the rules is read and kept.
- `fleet`: the smallest limit, with its reason; the rows that the processes share.
- `following`: how a process measures its work and keeps to the decision.
- `tuning`: the tick's part, and the record of it.
"""

from shared.concurrency.fleet import LOOK_EVERY, Decision, Fleet, FleetTable, decide_tasks
from shared.concurrency.following import Following, Foresight, Gauge
from shared.concurrency.rules import (
    BUILT_IN,
    NONE,
    SAMPLE,
    Observation,
    Ratio,
    Rule,
    Rules,
    RulesBlob,
    RulesText,
    lint,
    parse,
)
from shared.concurrency.tuning import (
    QueueDepths,
    Recorder,
    Stretch,
    Trace,
    TraceHeader,
    Tuning,
    no_lane,
    no_top_up,
    read,
    write,
)

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
