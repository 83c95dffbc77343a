"""Jobs and their chunks: what is in flight, what is done, and the proof that nothing was lost or counted twice.

Reading order: records (the words), decisions and balance (what happens, pure), ledger (what a store of it promises),
table_ledger (the store; the tests hold one in memory to the same contract).
"""

from shared.ledger.ledger import Ledger
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Tally, Totals
from shared.ledger.table_ledger import TableLedger

__all__ = [
    "ChunkRow",
    "ChunkState",
    "Job",
    "JobState",
    "Ledger",
    "PlanBlob",
    "TableLedger",
    "Tally",
    "Totals",
]
