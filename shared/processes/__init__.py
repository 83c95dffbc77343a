"""Process managers: pure decisions, the rows that they are kept in, and the runtime that stores and sends.

Reading order: `process` (the types), `rows` (the state as a row, and its format), `agenda` (what is due), `outgoing`
(what a home has unsent), `cases` and `drafts` (from messages to one commit), `runtime`, `follower`.
"""

from shared.processes.agenda import SHARDS, Agenda, Alias, DueRows, Note, TimeoutRow
from shared.processes.cases import Belief, Case, Handled, Outcome
from shared.processes.follower import Follower
from shared.processes.outgoing import Outgoing, Routes
from shared.processes.process import Decision, Incoming, Process, ReplyClass, Timeout
from shared.processes.rows import restore_process, store_process
from shared.processes.runtime import Runtime

__all__ = [
    "SHARDS",
    "Agenda",
    "Alias",
    "Belief",
    "Case",
    "Decision",
    "DueRows",
    "Follower",
    "Handled",
    "Incoming",
    "Note",
    "Outcome",
    "Outgoing",
    "Process",
    "ReplyClass",
    "Routes",
    "Runtime",
    "Timeout",
    "TimeoutRow",
    "restore_process",
    "store_process",
]
