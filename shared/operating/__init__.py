"""The acts of an operator, each audited.

Reading order:

- `audit`: a row before the effect, its result after
- `gate_acts`: gates are opened and closed; all gates, with the work behind each
- `job_acts`: paused jobs are resumed, rules put in force; a job with everything around it, and the lines that it made
- `prefixes`: the one name that a person typed the beginning of
- `parked_acts`: parked messages are replayed by cause, or discarded; the transactions of each
- `replay`, `replay_record`: a selection is replayed as a row, which any process steps
"""

from shared.operating.audit import ActKey, AuditedAct, AuditTable, RecordedAct
from shared.operating.gate_acts import GateActResult, GateReader, Operator, Overview
from shared.operating.job_acts import (
    MOST_AT_THE_DOOR,
    NOT_RECORDED,
    WRITTEN,
    JobLook,
    JobReader,
    OutputKind,
    OutputReader,
    QueueLook,
    Resume,
    describe_refused,
    explain_pace,
    find_job_of_number,
    group_later,
    put_rules,
    read_queue,
)
from shared.operating.parked_acts import MOST_LINES, EntryReader, ParkedOperator
from shared.operating.prefixes import LEAST, complete_prefix
from shared.operating.replay import (
    Group,
    Replayer,
    ReplayFate,
    ReplayPace,
    Selection,
    choose,
    digest_entries,
    nobody,
    summarize_causes,
    waves,
)
from shared.operating.replay_record import Replay, ReplayTable, Wave, describe_fates, draw_owner, estimate

__all__ = [
    "LEAST",
    "MOST_AT_THE_DOOR",
    "MOST_LINES",
    "NOT_RECORDED",
    "WRITTEN",
    "ActKey",
    "AuditTable",
    "AuditedAct",
    "EntryReader",
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
    "Replay",
    "ReplayFate",
    "ReplayPace",
    "ReplayTable",
    "Replayer",
    "Resume",
    "Selection",
    "Wave",
    "choose",
    "complete_prefix",
    "describe_fates",
    "describe_refused",
    "digest_entries",
    "draw_owner",
    "estimate",
    "explain_pace",
    "find_job_of_number",
    "group_later",
    "nobody",
    "put_rules",
    "read_queue",
    "summarize_causes",
    "waves",
]
