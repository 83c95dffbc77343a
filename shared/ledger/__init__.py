"""Jobs and their chunks: in flight, done, and the proof that nothing was lost or counted twice.

Reading order:

- `records` defines the data, `columns` and `entities` how it is stored.
- `job_decisions`, `settlement` and `progress` decide. They make no request.
- `ledger` is the contract, with `change`: the one loop that changes a job.
- `table_ledger` is the store.
"""

from shared.ledger.entities import Entity, check_limits, entity_size
from shared.ledger.job_decisions import (
    Collision,
    advance_cursor,
    bury,
    finish,
    halt,
    judge,
    may_dispatch,
    may_start,
    note_gate_passed,
    note_missing_plan,
    note_put_again,
    note_warning,
    record_plan,
    resume,
    undispatchable,
)
from shared.ledger.ledger import MOST_ROWS, Ledger, Listed, Written, change, commit, counting
from shared.ledger.progress import Balance, check_balance, is_overdue, next_look, overdue, read_progress
from shared.ledger.records import FINISHED, ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Totals
from shared.ledger.settlement import Settlement, settle
from shared.ledger.table_ledger import LOST_RACE, MOST_TRANSACTION_BYTES, TableLedger, error_code

__all__ = [
    "FINISHED",
    "LOST_RACE",
    "MOST_ROWS",
    "MOST_TRANSACTION_BYTES",
    "Balance",
    "ChunkRow",
    "ChunkState",
    "Collision",
    "Entity",
    "Job",
    "JobState",
    "Ledger",
    "Listed",
    "PlanBlob",
    "Portion",
    "Settlement",
    "TableLedger",
    "Totals",
    "Written",
    "advance_cursor",
    "bury",
    "change",
    "check_balance",
    "check_limits",
    "commit",
    "counting",
    "entity_size",
    "error_code",
    "finish",
    "halt",
    "is_overdue",
    "judge",
    "may_dispatch",
    "may_start",
    "next_look",
    "note_gate_passed",
    "note_missing_plan",
    "note_put_again",
    "note_warning",
    "overdue",
    "read_progress",
    "record_plan",
    "resume",
    "settle",
    "undispatchable",
]
