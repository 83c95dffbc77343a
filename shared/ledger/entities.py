"""The ledger's records as table entities and back; guards Azure's limits, since the local Azurite has none."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from azure.data.tables import EdmType, EntityProperty

from shared.errors import LedgerCorruptError, RowTooLargeError
from shared.ledger.amounts import Amounts, texts
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Risk, Tally, Totals

Entity: TypeAlias = dict[str, Any]

#: Azure Tables: 32 Ki UTF-16 characters a string, 1 MiB an entity; half of that leaves room for how it counts names.
MOST_CHARACTERS: Final = 32 * 1024 - 1
MOST_BYTES: Final = 512 * 1024

JOB_KEY: Final = "job"
CHUNK_PREFIX: Final = "chunk:"
EVENT_PREFIX: Final = "event:"
_WHOLE_NUMBERS: Final = (
    "items",
    "chunks",
    "id_base",
    "held_epoch",
    "passed_epoch",
    "revision",
    "done",
    "parked_chunks",
    "dispatch_cursor",
    "forgiven",
    "milliseconds",
)
#: What Python raises for a row that another hand wrote: a text for an object, a number beyond every column.
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, ArithmeticError)
_MOMENTS: Final = ("accepted_at", "deadline", "started_at", "progressed_at", "finished_at", "nudged_at")
_TEXTS: Final = ("content_hash", "workload", "gate", "problem", "trace", "nonce")


def chunk_key(chunk: int) -> str:
    """Return the row key of a chunk; keys sort as numbers do."""
    return f"{CHUNK_PREFIX}{chunk:09}"


def job_entity(job: Job) -> Entity:
    """Return the job as its row."""
    entity: Entity = {"PartitionKey": job.job, "RowKey": JOB_KEY, "state": job.state.value}
    entity |= {name: getattr(job, name) for name in _TEXTS}
    entity |= {name: _whole_number(getattr(job, name)) for name in _WHOLE_NUMBERS}
    entity |= {name: _moment(getattr(job, name)) for name in _MOMENTS}
    entity |= {"declared": _dumps(texts(job.declared)), "totals": _totals_text(job.totals)}
    entity |= {"requests": _dumps(dict(job.requests)), "warned": job.warned and job.warned.value}
    if job.plan is not None:
        entity |= {"plan_blob": job.plan.name, "plan_etag": job.plan.etag, "plan_container": job.plan.container}
    return guarded({name: value for name, value in entity.items() if value is not None})


def job_of(entity: Mapping[str, Any], etag: str) -> Job:
    """Return the job that a row holds."""
    try:
        values: dict[str, Any] = {name: entity.get(name) for name in _TEXTS}
        values |= {name: _int(entity[name]) for name in _WHOLE_NUMBERS if name in entity}
        values |= {name: datetime.fromisoformat(entity[name]) for name in _MOMENTS if name in entity}
        return Job(
            **values,
            job=entity["PartitionKey"],
            state=JobState(entity["state"]),
            declared=_amounts(json.loads(entity["declared"])),
            totals=_totals_of(entity["totals"]),
            requests=MappingProxyType(json.loads(entity["requests"])),
            plan=_plan_of(entity) if "plan_blob" in entity else None,
            warned=Risk(entity["warned"]) if "warned" in entity else None,
            etag=etag,
        )
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def _plan_of(entity: Mapping[str, Any]) -> PlanBlob:
    # A row of before does not say the container: it has the default.
    said = {"container": entity["plan_container"]} if "plan_container" in entity else {}
    return PlanBlob(entity["plan_blob"], entity["plan_etag"], **said)


def row_entity(row: ChunkRow) -> Entity:
    """Return the chunk row as its row."""
    entity: Entity = {
        "PartitionKey": row.job,
        "RowKey": chunk_key(row.chunk),
        "state": row.state.value,
        "revision": row.revision,
        "settled_at": _moment(row.settled_at),
        "totals": _totals_text(row.totals),
        "blob": row.blob,
        "hash": row.hash,
        "reason": row.reason,
        "milliseconds": _whole_number(row.milliseconds),
        "nonce": row.nonce,
    }
    return guarded({name: value for name, value in entity.items() if value is not None})


def row_of_entity(entity: Mapping[str, Any], etag: str) -> ChunkRow:
    """Return the chunk row that a row holds."""
    try:
        return ChunkRow(
            job=entity["PartitionKey"],
            chunk=int(entity["RowKey"].removeprefix(CHUNK_PREFIX)),
            state=ChunkState(entity["state"]),
            revision=_int(entity["revision"]),
            settled_at=datetime.fromisoformat(entity["settled_at"]),
            totals=_totals_of(entity["totals"]),
            blob=entity.get("blob"),
            hash=entity.get("hash"),
            reason=entity.get("reason"),
            milliseconds=_int(entity["milliseconds"]),
            nonce=entity["nonce"],
            etag=etag,
        )
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def guarded(entity: Entity) -> Entity:
    """Return the entity, or raise RowTooLargeError where Azure would refuse it and Azurite would not."""
    where = f"row {entity['RowKey']!r} of {entity['PartitionKey']!r}"
    for name, value in entity.items():
        if isinstance(value, str) and utf16_length(value) > MOST_CHARACTERS:
            raise RowTooLargeError(f"could not write {where}: {name!r} has more than {MOST_CHARACTERS} characters")
    if entity_size(entity) > MOST_BYTES:
        raise RowTooLargeError(f"could not write {where}: it has more than {MOST_BYTES} bytes")
    return entity


def entity_size(entity: Mapping[str, Any]) -> int:
    """Return about how many bytes an entity takes, names included, as Azure counts text: two bytes a character."""
    return sum(
        2 * len(name) + (2 * utf16_length(value) if isinstance(value, str) else 16) for name, value in entity.items()
    )


def utf16_length(text: str) -> int:
    """Return the length as Azure counts it: characters outside the basic plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _corrupt(entity: Mapping[str, Any], error: Exception) -> LedgerCorruptError:
    where = f"row {entity.get('RowKey')!r} of {entity.get('PartitionKey')!r}"
    return LedgerCorruptError(f"could not read {where} of the ledger: {error!r}; restore the row from a backup")


def _whole_number(value: int | None) -> EntityProperty | None:
    return None if value is None else EntityProperty(value, EdmType.INT64)


def _int(value: Any) -> int:
    return int(value.value if isinstance(value, EntityProperty) else value)


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _totals_text(totals: Totals) -> str:
    named = {"accepted": totals.accepted, "rejected": totals.rejected, "parked": totals.parked}
    return _dumps({name: _tally(tally) for name, tally in named.items() if tally != Tally()})


def _tally(tally: Tally) -> dict[str, Any]:
    return {"items": tally.items, "sums": texts(tally.sums), "unknown": tally.unknown}


def _totals_of(text: str) -> Totals:
    return Totals(**{name: _tally_of(found) for name, found in json.loads(text).items()})


def _tally_of(found: Mapping[str, Any]) -> Tally:
    return Tally(int(found["items"]), _amounts(found["sums"]), int(found["unknown"]))


def _amounts(found: Mapping[str, str]) -> Amounts:
    # Wider than one message may be: the sum of many large amounts has more digits than each.
    return MappingProxyType({name: Decimal(text) for name, text in found.items()})


def _dumps(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
