"""The acts of an operator, each audited.

Reading order:

- `audit`: a row before the effect, its result after
- `gate_acts`, `job_acts`: gates are opened and closed, paused jobs resumed
- `parked_acts`, `grouping`, `replay`: parked messages are replayed by cause, or discarded
"""

from shared.operating.audit import AuditedAct, AuditTable
from shared.operating.gate_acts import GateActResult, Operator, Overview, overview
from shared.operating.grouping import Group, summarize_causes, waves
from shared.operating.job_acts import Resume
from shared.operating.parked_acts import ParkedOperator, Selection, describe_fault
from shared.operating.replay import Replayer, ReplayFate, ReplayPace, Wave, choose, nobody

__all__ = [
    "AuditTable",
    "AuditedAct",
    "GateActResult",
    "Group",
    "Operator",
    "Overview",
    "ParkedOperator",
    "ReplayFate",
    "ReplayPace",
    "Replayer",
    "Resume",
    "Selection",
    "Wave",
    "choose",
    "describe_fault",
    "nobody",
    "overview",
    "summarize_causes",
    "waves",
]
