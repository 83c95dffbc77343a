"""The decision how many tasks may run, and why: an operator's rules, the limits of the services, the budget.

Reading order:

- `shares`: how the rooms share the work.
- `rules`: the inputs of a rule, the rule that applies, and how the text of the rules is read and kept.
- `fleet`: the smallest limit, with its reason; the rows that the processes share.
- `following`: how a process measures its work and keeps to the decision.
- `tuning`: the tick's part, and the record of it.
"""

from shared.concurrency.fleet import (
    FED_FOR as FED_FOR,
    LOOK_EVERY as LOOK_EVERY,
    VIEW_SECONDS as VIEW_SECONDS,
    Decision as Decision,
    FeedRow as FeedRow,
    Fleet as Fleet,
    FleetTable as FleetTable,
    decide_tasks as decide_tasks,
)
from shared.concurrency.following import (
    FleetPace as FleetPace,
    Following as Following,
    Foresight as Foresight,
    Gauge as Gauge,
)
from shared.concurrency.rules import (
    BUILT_IN as BUILT_IN,
    NONE as NONE,
    SAMPLE as SAMPLE,
    Lint as Lint,
    Observation as Observation,
    Rule as Rule,
    Rules as Rules,
    RulesBlob as RulesBlob,
    RulesText as RulesText,
    lint as lint,
    parse as parse,
)
from shared.concurrency.shares import (
    RoomShare as RoomShare,
    Shares as Shares,
)
from shared.concurrency.tuning import (
    QueueDepths as QueueDepths,
    Stretch as Stretch,
    Trace as Trace,
    TraceHeader as TraceHeader,
    Tuning as Tuning,
    read as read,
    trace_of as trace_of,
    write as write,
)
