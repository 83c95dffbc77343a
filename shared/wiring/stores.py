"""The stores that several stages share."""

from collections.abc import Callable
from functools import partial

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.connections import Connections
from shared.gate.held_work import NEVER_EXPIRES
from shared.ledger.table_ledger import TableLedger
from shared.outbox import BusAnnouncements, Outbox
from shared.parked.parked_table import ParkedTable
from shared.pending import OUTBOX_POINTER, PendingTable
from shared.pipeline.finish import is_finishing


def table_ledger(connections: Connections) -> TableLedger:
    """Return the ledger."""
    tables = connections.tables
    return TableLedger(tables.get_table_client("jobs"), tables.get_table_client("jobindex"))


def parked_table(connections: Connections) -> ParkedTable:
    """Return the store of what is parked."""
    return ParkedTable(connections.tables.get_table_client("parked"), connections.blobs.get_container_client("parked"))


def queue_sender(connections: Connections) -> Callable[[str, str], None]:
    """Return what puts a message on a storage queue, where it stays until somebody takes it."""

    def send(queue: str, message: str) -> None:
        with expecting_an_answer(f"put a message on queue {queue!r}"):
            connections.queues.get_queue_client(queue).send_message(message, time_to_live=NEVER_EXPIRES)

    return send


def outbox(connections: Connections, clock: Clock) -> Outbox:
    """Return what tells the world that jobs are finished."""
    pending = PendingTable(connections.tables.get_table_client("pending"))
    ledger, announce = table_ledger(connections), BusAnnouncements(connections)
    return Outbox(ledger, pending, announce, clock, kind=OUTBOX_POINTER, awaits=partial(is_finishing, ledger))
