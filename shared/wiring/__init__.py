"""Builds what the app, the command and any worker use from their connections; the only place that knows every adapter."""

from shared.wiring.concurrency import fleet_table, following, recorder, rules_blob, tuning
from shared.wiring.gates import Gatehouse, gatehouse
from shared.wiring.line import Line, line, resume
from shared.wiring.push import Push, push, work_sources
from shared.wiring.stores import outbox, parked_table, queue_sender, table_ledger
from shared.wiring.usage import day_budget, diary
from shared.wiring.works import Works, finisher, parked_operator, works

__all__ = [
    "Gatehouse",
    "Line",
    "Push",
    "Works",
    "day_budget",
    "diary",
    "finisher",
    "fleet_table",
    "following",
    "gatehouse",
    "line",
    "outbox",
    "parked_operator",
    "parked_table",
    "push",
    "queue_sender",
    "recorder",
    "resume",
    "rules_blob",
    "table_ledger",
    "tuning",
    "work_sources",
    "works",
]
