"""The acts of an operator, each audited.

Reading order:

- `audit`: a row before the effect, its result after
- `gate_acts`, `job_acts`, `rules_acts`: gates are opened and closed, paused jobs resumed, rules put in force
- `gate_look`: all gates, with the work behind each
- `job_look`, `job_outputs`: a job with everything around it, and the lines that it made
- `entry_lines`: the transactions of a parked entry
- `prefixes`: the one name that a person typed the beginning of
- `parked_acts`, `grouping`, `selection`: parked messages are replayed by cause, or discarded
- `replay`, `replay_record`, `replay_table`, `replay_run`: a replay is a row, and any process steps it
"""

from shared.operating.audit import ActKey, AuditedAct, AuditTable, RecordedAct
from shared.operating.entry_lines import MOST_LINES, EntryReader
from shared.operating.gate_acts import GateActResult, Operator
from shared.operating.gate_look import GateReader, Overview
from shared.operating.grouping import Group, summarize_causes, waves
from shared.operating.job_acts import Resume
from shared.operating.job_look import (
    MOST_AT_THE_DOOR,
    NOT_RECORDED,
    JobLook,
    JobReader,
    QueueLook,
    describe_refused,
    explain_pace,
    find_job_of_number,
    group_later,
    read_queue,
)
from shared.operating.job_outputs import WRITTEN, OutputKind, OutputReader
from shared.operating.parked_acts import ParkedOperator
from shared.operating.prefixes import LEAST, complete_prefix
from shared.operating.replay import Replayer, ReplayFate, ReplayPace, choose, nobody
from shared.operating.replay_record import Replay, Wave, describe_fates, estimate
from shared.operating.replay_run import draw_owner
from shared.operating.replay_table import ReplayTable
from shared.operating.rules_acts import put_rules
from shared.operating.selection import Selection, digest_entries

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
