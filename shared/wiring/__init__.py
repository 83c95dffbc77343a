"""Builds what the app, the command and any worker use from their connections; the only place that knows every adapter."""

from shared.wiring.gates import Gatehouse, gatehouse
from shared.wiring.line import Line, line, resume
from shared.wiring.stores import outbox, parked_table, queue_sender, table_ledger
from shared.wiring.works import Works, finisher, parked_operator, works

__all__ = [
    "Gatehouse",
    "Line",
    "Works",
    "finisher",
    "gatehouse",
    "line",
    "outbox",
    "parked_operator",
    "parked_table",
    "queue_sender",
    "resume",
    "table_ledger",
    "works",
]
