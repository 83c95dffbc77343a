"""Process managers: pure decisions, and the rows that they are kept in. They know neither storage nor bus.

Reading order: `process` (the types), `rows` (the state as a row, and its format).
"""

from shared.processes.process import Decision, Incoming, Process, ReplyClass, Timeout
from shared.processes.rows import restore_process, store_process

__all__ = [
    "Decision",
    "Incoming",
    "Process",
    "ReplyClass",
    "Timeout",
    "restore_process",
    "store_process",
]
