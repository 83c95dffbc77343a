"""Replays in tests: an operator over the requests of one process, and the waves of a whole replay."""

from shared.concurrency import FleetTable
from shared.operating.audit import AuditTable
from shared.operating.parked_acts import ParkedOperator
from shared.operating.replay import Replayer, nobody
from shared.operating.replay_record import ReplayTable
from shared.pending import PendingTable
from shared.watch import WatchTable


def build_operator(process, stages, clock, pause, wake=nobody):
    """Return an operator whose requests are those of this process."""
    table = process.connections.tables.get_table_client
    return ParkedOperator(
        table=process.parked,
        causes=process.causes,
        overflow=process.overflow,
        replays=ReplayTable(table("replays")),
        pending=PendingTable(table("pending")),
        audit=AuditTable(table("audit"), clock),
        replayer=Replayer(process.parked, stages, wake),
        fleet=FleetTable(table("decisions")),
        clock=clock,
        pause=pause,
        watch=WatchTable(table("decisions")),
    )


def replay_all(operator, selection, pace, **named):
    """Replay to the end, and return the waves."""
    *_, last = operator.replay(selection, pace, by="ann", **named)
    return last.waves


def fates_of(waves):
    """Return the fate of each entry, those of one wave in no order."""
    return [fate for wave in waves for fate, number in wave.counts.items() for _ in range(number)]
