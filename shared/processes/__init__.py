"""Process managers: pure decisions, the rows that they are kept in, and the runtime that stores and sends.

Reading order: `decisions` (the types), `rows` (the state as a row, and its format), `agenda` (what is due), `outgoing`
(what a home has unsent), `cases` and `drafts` (from messages to one commit), `runtime`, `follower`; `hot_notes` and
`receiver` (commands to aggregates), `due_hints`, `removals`.
"""

from shared.processes.agenda import SHARDS, Agenda, Alias, Note, TimeoutRow, notes_of
from shared.processes.cases import Case, CaseOutcome, Handled
from shared.processes.decisions import Incoming, Process, ProcessDecision, ReplyClass, Timeout
from shared.processes.due_hints import DueHints, due_shards
from shared.processes.follower import STUCK_AFTER, Follower
from shared.processes.hot_notes import HotNotes
from shared.processes.outgoing import Outgoing, Routes
from shared.processes.receiver import Receiver
from shared.processes.removals import Removals
from shared.processes.rows import restore_process, store_process
from shared.processes.runtime import Runtime

__all__ = [
    "SHARDS",
    "STUCK_AFTER",
    "Agenda",
    "Alias",
    "Case",
    "CaseOutcome",
    "DueHints",
    "Follower",
    "Handled",
    "HotNotes",
    "Incoming",
    "Note",
    "Outgoing",
    "Process",
    "ProcessDecision",
    "Receiver",
    "Removals",
    "ReplyClass",
    "Routes",
    "Runtime",
    "Timeout",
    "TimeoutRow",
    "due_shards",
    "notes_of",
    "restore_process",
    "store_process",
]
