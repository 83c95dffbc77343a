"""The acts of an operator, each audited.

Reading order:

- `audit`: a row before the effect, its result after
- `gate_acts`, `job_acts`: gates are opened and closed, paused jobs resumed
- `gate_look`: all gates, with the work behind each
- `job_look`, `job_outputs`: a job with everything around it, and the lines that it made
- `prefixes`: the one name that a person typed the beginning of
- `parked_acts`, `grouping`, `replay`: parked messages are replayed by cause, or discarded
"""

from shared.operating.audit import ActKey, AuditedAct, AuditTable, RecordedAct
from shared.operating.gate_acts import GateActResult, Operator
from shared.operating.gate_look import GateReader, Overview
from shared.operating.grouping import Group, summarize_causes, waves
from shared.operating.job_acts import Resume
from shared.operating.job_look import JobLook, JobReader, QueueLook, explain_pace, read_queue
from shared.operating.job_outputs import WRITTEN, OutputKind, OutputReader
from shared.operating.parked_acts import ParkedOperator, Selection, describe_fault, digest_entries
from shared.operating.prefixes import LEAST, complete_prefix
from shared.operating.replay import Replayer, ReplayFate, ReplayPace, Wave, choose, nobody

__all__ = [
    "LEAST",
    "WRITTEN",
    "ActKey",
    "AuditTable",
    "AuditedAct",
    "GateActResult",
    "GateReader",
    "Group",
    "JobLook",
    "JobReader",
    "Operator",
    "OutputKind",
    "OutputReader",
    "Overview",
    "ParkedOperator",
    "QueueLook",
    "RecordedAct",
    "ReplayFate",
    "ReplayPace",
    "Replayer",
    "Resume",
    "Selection",
    "Wave",
    "choose",
    "complete_prefix",
    "describe_fault",
    "digest_entries",
    "explain_pace",
    "nobody",
    "read_queue",
    "summarize_causes",
    "waves",
]
