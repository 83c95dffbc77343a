"""Jobs and their chunks: in flight, done, and the proof that nothing was lost or counted twice.

Reading order:

- `records` defines the data, `columns` and `entities` how it is stored.
- `job_decisions`, `settlement`, `progress` and `turn` decide. They make no request.
- `job_stamp` is what each write adds to a job.
- `ledger` is the contract, with `change`: the one loop that changes a job.
- `table_ledger` is the store, `job_list` what pages and lists read of it.
"""

from shared.ledger.entities import read_totals, write_totals
from shared.ledger.job_decisions import (
    Collision,
    advance_cursor,
    bury,
    finish,
    halt,
    is_waiting,
    judge,
    may_dispatch,
    may_start,
    note_gate_passed,
    note_lane,
    note_missing_plan,
    note_put_again,
    note_warning,
    record_plan,
    resume,
    undispatchable,
)
from shared.ledger.job_list import JOB_COLUMNS, JobColumn, JobList, Wanted
from shared.ledger.job_stamp import LISTED_EVERY
from shared.ledger.ledger import MOST_ROWS, Ledger, Listed, Written, change, commit, counting
from shared.ledger.progress import (
    Balance,
    Turn,
    check_balance,
    first_turn,
    is_overdue,
    list_open,
    next_look,
    next_warning,
    note_turn,
    read_progress,
)
from shared.ledger.records import (
    CLOSED,
    FINISHED,
    ChunkRow,
    ChunkState,
    Job,
    JobState,
    PlanBlob,
    Portion,
    Risk,
    Told,
    Totals,
)
from shared.ledger.settlement import Settlement, result_blob, settle
from shared.ledger.table_ledger import TableLedger
from shared.ledger.turn import (
    FRONT,
    Fronted,
    Fronts,
    Silence,
    Watermark,
    judge_silence,
    over_since,
    read_turn,
    read_watermark,
    turn_of,
)

__all__ = [
    "CLOSED",
    "FINISHED",
    "FRONT",
    "JOB_COLUMNS",
    "LISTED_EVERY",
    "MOST_ROWS",
    "Balance",
    "ChunkRow",
    "ChunkState",
    "Collision",
    "Fronted",
    "Fronts",
    "Job",
    "JobColumn",
    "JobList",
    "JobState",
    "Ledger",
    "Listed",
    "PlanBlob",
    "Portion",
    "Risk",
    "Settlement",
    "Silence",
    "TableLedger",
    "Told",
    "Totals",
    "Turn",
    "Wanted",
    "Watermark",
    "Written",
    "advance_cursor",
    "bury",
    "change",
    "check_balance",
    "commit",
    "counting",
    "finish",
    "first_turn",
    "halt",
    "is_overdue",
    "is_waiting",
    "judge",
    "judge_silence",
    "list_open",
    "may_dispatch",
    "may_start",
    "next_look",
    "next_warning",
    "note_gate_passed",
    "note_lane",
    "note_missing_plan",
    "note_put_again",
    "note_turn",
    "note_warning",
    "over_since",
    "read_progress",
    "read_totals",
    "read_turn",
    "read_watermark",
    "record_plan",
    "result_blob",
    "resume",
    "settle",
    "turn_of",
    "undispatchable",
    "write_totals",
]
