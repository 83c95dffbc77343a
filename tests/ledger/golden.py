"""Jobs and chunk rows with every field set and with none, of which `golden_rows.json` holds the rows."""

from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType

from azure.data.tables import EntityProperty

from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Risk, Told, Totals


def moment(minute):
    """Return a moment of its own for each field, with and without a fraction of a second."""
    return datetime(2026, 11, 22, 7, minute, 5, 250_000 * (minute % 2), tzinfo=UTC)


TOTALS = Totals(
    accepted=Portion(7, MappingProxyType({"amount": Decimal("12.340"), "quantity": Decimal(-3)})),
    parked=Portion(2, MappingProxyType({}), unknown=1),
)
FULL_JOB = Job(
    job="north~nightly",
    content_hash="c0ffee",
    workload="billing",
    accepted_at=moment(1),
    state=JobState.COMPLETED_WITH_PARKED,
    gate="evening",
    held_epoch=3,
    passed_epoch=4,
    deadline=moment(2),
    warned=Risk.PREDICTED_LATE,
    items=9,
    chunks=5,
    declared=MappingProxyType({"amount": Decimal("12.34")}),
    id_base=2**40,
    plan=PlanBlob("north~nightly/plan", '"0x1"', "plans"),
    revision=2,
    done=4,
    parked_chunks=1,
    totals=TOTALS,
    dispatch_cursor=5,
    lane="work-urgent",
    started_at=moment(3),
    progressed_at=moment(4),
    finished_at=moment(5),
    nudged_at=moment(6),
    put_until=moment(8),
    again_from=4,
    forgiven=1,
    problem="ünïcode 🎉",
    milliseconds=2**33,
    requests=MappingProxyType({"table useful": 3, "blob-write retry": 1}),
    trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    story=(Told(JobState.HELD, moment(1), 1, "gate ünï 🎉"), Told(JobState.COMPLETED_WITH_PARKED, moment(5), 2)),
    nonce="7614867638e54bfb8a77087f87c184f2",
)
EMPTY_JOB = Job(job="weekly", content_hash="0", workload="billing", accepted_at=moment(0))
FULL_ROW = ChunkRow(
    job="north~nightly",
    chunk=12,
    state=ChunkState.PARKED,
    revision=2,
    settled_at=moment(7),
    totals=TOTALS,
    blob="north~nightly/2/12",
    hash="e3b0c442",
    reason="workload_failed",
    milliseconds=2**33,
    nonce="7614867638e54bfb8a77087f87c184f2",
)
EMPTY_ROW = ChunkRow(job="weekly", chunk=0, state=ChunkState.DONE, revision=1, settled_at=moment(0))


def as_json(entity):
    """Return an entity with the type of each column where it is not the usual one of its value."""
    return {
        name: {"value": value.value, "type": str(value.edm_type)} if isinstance(value, EntityProperty) else value
        for name, value in entity.items()
    }
