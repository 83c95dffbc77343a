"""The ledger's records as table entities and back; guards Azure's limits, since the local Azurite has none.

The list of jobs, newest first: a table lists in key order only, so its keys count down.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from azure.data.tables import EdmType, EntityProperty

from shared.errors import LedgerCorruptError, RowTooLargeError
from shared.grammar import Amounts, texts
from shared.ledger.columns import ColumnCodec, columns
from shared.ledger.ledger import Listed
from shared.ledger.records import NO_TALLY, ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Risk, Totals

Entity: TypeAlias = dict[str, Any]
Convert: TypeAlias = Callable[[Any], Any]
#: Azure Tables: 32 Ki UTF-16 characters a string, 1 MiB an entity; half of that leaves room for how it counts names.
MOST_CHARACTERS: Final = 32 * 1024 - 1
MOST_BYTES: Final = 512 * 1024
JOB_KEY: Final = "job"
CHUNK_PREFIX: Final = "chunk:"
EVENT_PREFIX: Final = "event:"
#: What Python raises for a row that another hand wrote: a text for an object, a number beyond every column.
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, ArithmeticError)
#: Made once: for separators of its own, `json.dumps` makes an encoder each time.
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode
_loads: Final = json.JSONDecoder().decode


def chunk_key(chunk: int) -> str:
    """Return the row key of a chunk; keys sort as numbers do."""
    return f"{CHUNK_PREFIX}{chunk:09}"


def job_entity(job: Job) -> Entity:
    """Return the job as its row."""
    return _entity({"PartitionKey": job.job, "RowKey": JOB_KEY}, job)


def job_of(entity: Mapping[str, Any], etag: str) -> Job:
    """Return the job that a row holds."""
    try:
        return Job(job=entity["PartitionKey"], etag=etag, **_values(entity, Job))
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def row_entity(row: ChunkRow) -> Entity:
    """Return the chunk row as its row."""
    return _entity({"PartitionKey": row.job, "RowKey": chunk_key(row.chunk)}, row)


def row_of_entity(entity: Mapping[str, Any], etag: str) -> ChunkRow:
    """Return the chunk row that a row holds."""
    try:
        chunk = int(entity["RowKey"].removeprefix(CHUNK_PREFIX))
        return ChunkRow(job=entity["PartitionKey"], chunk=chunk, etag=etag, **_values(entity, ChunkRow))
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def _entity(entity: Entity, record: Job | ChunkRow) -> Entity:
    table = _TABLES[type(record)]
    for (name, write), value in zip(table.writers, table.values(record), strict=True):
        if value is not None:
            entity[name] = value if write is None else write(value)
    for name in table.plans:
        if (plan := getattr(record, name)) is not None:
            entity |= {f"{name}_blob": plan.name, f"{name}_etag": plan.etag, f"{name}_container": plan.container}
    return check_limits(entity)


def _values(entity: Mapping[str, Any], record: type[Job | ChunkRow]) -> dict[str, Any]:
    """Return the fields that the row has; the others have their default."""
    table = _TABLES[record]
    values = {name: entity[name] if read is None else read(entity[name]) for name, read in table.always}
    for name, read in table.others:
        if name in entity:
            values[name] = entity[name] if read is None else read(entity[name])
    for name in table.plans:
        if f"{name}_blob" in entity:
            values[name] = _plan_of(entity, name)
    return values


def check_limits(entity: Entity) -> Entity:
    """Return the entity, or raise RowTooLargeError where Azure would refuse it and Azurite would not."""
    where = f"row {entity['RowKey']!r} of {entity['PartitionKey']!r}"
    size = 0
    for name, value in entity.items():
        length = utf16_length(value) if isinstance(value, str) else 8
        if length > MOST_CHARACTERS:
            raise RowTooLargeError(f"could not write {where}: {name!r} has more than {MOST_CHARACTERS} characters")
        size += 2 * (len(name) + length)
    if size > MOST_BYTES:
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


def _int(value: Any) -> int:
    return int(value.value if isinstance(value, EntityProperty) else value)


def _totals_text(totals: Totals) -> str:
    named = {"accepted": totals.accepted, "rejected": totals.rejected, "parked": totals.parked}
    return _dumps({name: _tally(tally) for name, tally in named.items() if tally != NO_TALLY})


def _tally(tally: Portion) -> dict[str, Any]:
    return {"items": tally.items, "sums": texts(tally.sums), "unknown": tally.unknown}


def _totals_of(text: str) -> Totals:
    return Totals(**{name: _tally_of(found) for name, found in _loads(text).items()})


def _tally_of(found: Mapping[str, Any]) -> Portion:
    return Portion(int(found["items"]), _amounts(found["sums"]), int(found["unknown"]))


def _amounts(found: Mapping[str, str]) -> Amounts:
    # Wider than one message may be: the sum of many large amounts has more digits than each.
    return MappingProxyType({name: Decimal(text) for name, text in found.items()})


def _plan_of(entity: Mapping[str, Any], name: str) -> PlanBlob:
    # A row of before does not say the container: it has the default.
    said = {"container": entity[f"{name}_container"]} if f"{name}_container" in entity else {}
    return PlanBlob(entity[f"{name}_blob"], entity[f"{name}_etag"], **said)


#: How each codec writes a value and reads it again; None: as it is.
_CODECS: Final[Mapping[ColumnCodec, tuple[Convert | None, Convert | None]]] = {
    ColumnCodec.TEXT: (None, None),
    ColumnCodec.WHOLE: (lambda number: EntityProperty(number, EdmType.INT64), _int),
    ColumnCodec.SMALL: (None, _int),
    ColumnCodec.MOMENT: (datetime.isoformat, datetime.fromisoformat),
    ColumnCodec.JOB_STATE: (attrgetter("value"), JobState),
    ColumnCodec.CHUNK_STATE: (attrgetter("value"), ChunkState),
    ColumnCodec.RISK: (attrgetter("value"), Risk),
    ColumnCodec.AMOUNTS: (lambda sums: _dumps(texts(sums)), lambda text: _amounts(_loads(text))),
    ColumnCodec.TOTALS: (_totals_text, _totals_of),
    ColumnCodec.COUNTS: (lambda counts: _dumps(dict(counts)), lambda text: MappingProxyType(_loads(text))),
}


class _Table(NamedTuple):
    """The columns of a record, made ready once: both directions run for every request."""

    values: Callable[[Any], tuple[Any, ...]]
    writers: Sequence[tuple[str, Convert | None]]
    #: Readers of columns that a row must have, and of the others.
    always: Sequence[tuple[str, Convert | None]]
    others: Sequence[tuple[str, Convert | None]]
    #: Fields that take three columns.
    plans: Sequence[str]


def _table(record: type[Job | ChunkRow]) -> _Table:
    plain = {name: column for name, column in columns(record).items() if column.codec in _CODECS}
    return _Table(
        values=attrgetter(*plain),
        writers=[(name, _CODECS[column.codec][0]) for name, column in plain.items()],
        always=[(name, _CODECS[column.codec][1]) for name, column in plain.items() if column.always],
        others=[(name, _CODECS[column.codec][1]) for name, column in plain.items() if not column.always],
        plans=[name for name, column in columns(record).items() if column.codec is ColumnCodec.PLAN],
    )


_TABLES: Final = {record: _table(record) for record in (Job, ChunkRow)}
_LAST_MONTH: Final = 999_999
_LAST_MILLISECOND: Final = 10**15 - 1


def index_entity(job: Job) -> Entity:
    """Return the job's line in the list; the same job always has the same."""
    moment = job.accepted_at
    line = {"job": job.job, "workload": job.workload, "gate": job.gate, "accepted_at": moment.isoformat()}
    keys = {
        "PartitionKey": f"{_LAST_MONTH - (moment.year * 100 + moment.month):06}",
        "RowKey": f"{_LAST_MILLISECOND - int(moment.timestamp() * 1000):015}|{job.job}",
    }
    return keys | {name: value for name, value in line.items() if value is not None}


def to_listed(entity: Mapping[str, Any]) -> Listed:
    """Return the line that a row holds."""
    accepted_at = datetime.fromisoformat(entity["accepted_at"])
    return Listed(entity["job"], accepted_at, entity["workload"], entity.get("gate"))
