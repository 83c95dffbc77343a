"""The ledger's records as table entities, and back."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from azure.data.tables import EdmType, EntityProperty

from shared.azure import Entity, check_limits
from shared.errors import LedgerCorruptError, NewerVersionError
from shared.grammar import Amounts, texts
from shared.ledger.records import (
    NO_PORTION,
    BesideRow,
    ChunkRow,
    ChunkState,
    ColumnCodec,
    Job,
    JobState,
    PlanBlob,
    PlanText,
    Portion,
    Risk,
    Sources,
    StretchRow,
    Told,
    Totals,
    columns,
)
from shared.payload import Ranges

Convert: TypeAlias = Callable[[Any], Any]
JOB_KEY: Final = "job"
CHUNK_PREFIX: Final = "chunk:"
STRETCH_PREFIX: Final = "stretch:"
EVENT_PREFIX: Final = "event:"
#: Python's errors for a row that another program wrote: a text instead of an object, a number out of range.
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, ArithmeticError)
#: What the words of every version look like.
_WORD: Final = re.compile(r"[a-z][a-z_]{0,39}", re.ASCII)
#: Created once: with custom separators, `json.dumps` builds an encoder per call.
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode
#: Letters stay as they are: the limit of a column is in UTF-16, and an escape takes six.
_dumps_letters: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_loads: Final = json.JSONDecoder().decode


def chunk_key(chunk: int) -> str:
    """Return the row key of a chunk. Keys sort in the order of the numbers."""
    return f"{CHUNK_PREFIX}{chunk:09}"


#: In the column `chunks` of a job that grows: a settler of an earlier version, which knows no other, never ends it.
_ENDLESS: Final = 2**31 - 1


def job_entity(job: Job) -> Entity:
    """Encode a job as its row."""
    entity = _entity({"PartitionKey": job.job, "RowKey": JOB_KEY}, job)
    if job.growing:
        entity |= {"known_chunks": entity["chunks"], "chunks": EntityProperty(_ENDLESS, EdmType.INT64)}
    return entity


def job_of(entity: Mapping[str, Any], etag: str) -> Job:
    """Decode the job of a row."""
    try:
        if "known_chunks" in entity:
            entity = {**entity, "chunks": entity["known_chunks"]}
        return Job(job=entity["PartitionKey"], etag=etag, **_values(entity, Job))
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


#: The state of a row that came before its job: it has only the names of those that wait for that job. As a state that no
#: version knows: an earlier one that meets such a row leaves it, and its message, to a newer one.
_AWAITED: Final = "awaited"


def entity_of_waiters(job: str, waiters: Sequence[str], now: datetime) -> Entity:
    """Encode the row of a job that was not accepted yet, and that others wait for."""
    return job_entity(Job(job=job, content_hash="", workload="", accepted_at=now, waiters=tuple(waiters))) | {
        "state": _AWAITED
    }


def waiters_before(entity: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the names of those that wait for a job without a row, or None for the row of a job."""
    return job_of({**entity, "state": JobState.HELD.value}, "").waiters if entity["state"] == _AWAITED else None


def row_key(row: BesideRow) -> str:
    """Return the row key of a chunk's or a stretch's row."""
    return chunk_key(row.chunk) if isinstance(row, ChunkRow) else f"{STRETCH_PREFIX}{row.chunk:09}"


def row_entity(row: BesideRow) -> Entity:
    """Encode a row of a job's chunk or stretch as its entity."""
    return _entity({"PartitionKey": row.job, "RowKey": row_key(row)}, row)


def row_of_entity(entity: Mapping[str, Any], etag: str) -> ChunkRow:
    """Decode the chunk row of an entity."""
    try:
        chunk = int(entity["RowKey"].removeprefix(CHUNK_PREFIX))
        return ChunkRow(job=entity["PartitionKey"], chunk=chunk, etag=etag, **_values(entity, ChunkRow))
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def stretch_of_entity(entity: Mapping[str, Any], etag: str) -> StretchRow:
    """Decode the row of a stretch."""
    try:
        chunk = int(entity["RowKey"].removeprefix(STRETCH_PREFIX))
        return StretchRow(job=entity["PartitionKey"], chunk=chunk, etag=etag, **_values(entity, StretchRow))
    except _UNREADABLE as error:
        raise _corrupt(entity, error) from error


def _entity(entity: Entity, record: Job | ChunkRow | StretchRow) -> Entity:
    table = _TABLES[type(record)]
    for (name, write), value in zip(table.writers, table.values(record), strict=True):
        if value is not None and (written := value if write is None else write(value)) is not None:
            entity[name] = written
    for name in table.plans:
        if isinstance(plan := getattr(record, name), PlanText):
            entity[f"{name}_text"] = plan.text
        elif plan is not None:
            entity |= {f"{name}_blob": plan.name, f"{name}_etag": plan.etag, f"{name}_container": plan.container}
    # Rows are replaced as a whole. What a newer version wrote into this one must survive that.
    return check_limits({**record.others, **entity} if record.others else entity)


def _values(entity: Mapping[str, Any], record: type[Job | ChunkRow | StretchRow]) -> dict[str, Any]:
    """Decode the fields that the row has. The others have their default."""
    table = _TABLES[record]
    values = {name: entity[name] if read is None else read(entity[name]) for name, read in table.always}
    for name, read in table.others:
        if name in entity:
            values[name] = entity[name] if read is None else read(entity[name])
    for name in table.plans:
        if f"{name}_text" in entity:
            values[name] = PlanText(entity[f"{name}_text"])
        elif f"{name}_blob" in entity:
            values[name] = _plan_of(entity, name)
    if others := entity.keys() - table.known:
        values["others"] = MappingProxyType({name: entity[name] for name in sorted(others)})
    return values


def _corrupt(entity: Mapping[str, Any], error: Exception) -> LedgerCorruptError:
    where = f"row {entity.get('RowKey')!r} of {entity.get('PartitionKey')!r}"
    return LedgerCorruptError(f"could not read {where} of the ledger: {error!r}; restore the row from a backup")


def _int(value: Any) -> int:
    return int(value.value if isinstance(value, EntityProperty) else value)


def write_totals(totals: Totals) -> str:
    """Return totals as the text of their column."""
    named = {"accepted": totals.accepted, "rejected": totals.rejected, "parked": totals.parked}
    return _dumps({name: _portion_document(portion) for name, portion in named.items() if portion != NO_PORTION})


def _portion_document(portion: Portion) -> dict[str, Any]:
    return {"items": portion.items, "sums": texts(portion.sums), "unknown": portion.unknown}


def read_totals(text: str) -> Totals:
    """Return the totals of a column's text."""
    return Totals(**{name: _portion_of(found) for name, found in _loads(text).items()})


def _portion_of(found: Mapping[str, Any]) -> Portion:
    return Portion(int(found["items"]), _amounts(found["sums"]), int(found["unknown"]))


def _amounts(found: Mapping[str, str]) -> Amounts:
    # Without the limit on digits of a message: the sum of many large amounts has more digits than each.
    return MappingProxyType({name: Decimal(text) for name, text in found.items()})


def _story_text(story: Sequence[Told]) -> str | None:
    """Return a story as the text of its column. A row of an earlier version stays without one."""
    lines = [
        {
            "state": one.state,
            "at": one.at.isoformat(),
            "revision": one.revision,
            **({"note": one.note} if one.note else {}),
        }
        for one in story
    ]
    return _dumps_letters(lines) if lines else None


def _story_of(text: str) -> tuple[Told, ...]:
    # A line about a state of a newer version stays unchanged: the job has gone on from there.
    known = {state.value: state for state in JobState}
    return tuple(
        Told(
            known.get(one["state"], one["state"]),
            datetime.fromisoformat(one["at"]),
            one["revision"],
            one.get("note", ""),
        )
        for one in _loads(text)
    )


def _sources_text(sources: Sources | None) -> str | None:
    if sources is None:
        return None
    files = {"files": sources.files} if sources.files else {}
    return _dumps({"jobs": sources.count, "sums": dict(sources.sums), **files})


def _sources_of(text: str) -> Sources:
    found = _loads(text)
    return Sources(int(found["jobs"]), MappingProxyType(found["sums"]), found.get("files"))


def _plan_of(entity: Mapping[str, Any], name: str) -> PlanBlob:
    # A row of an earlier version has no column for the container, which is then the default.
    container = {"container": entity[f"{name}_container"]} if f"{name}_container" in entity else {}
    return PlanBlob(entity[f"{name}_blob"], entity[f"{name}_etag"], **container)


_Word = TypeVar("_Word", bound=StrEnum)


def _word_of(kind: type[_Word]) -> Callable[[Any], _Word]:
    """Return the reader of a word of this kind. Another word is of a newer version, which has more of them."""
    known = {word.value: word for word in kind}

    def read(text: Any) -> _Word:
        if text not in known and isinstance(text, str) and _WORD.fullmatch(text):
            raise NewerVersionError(
                f"a row of the ledger has {kind.__name__} {text!r}, which this program does not know: deploy the newer "
                "version of Sluice that wrote it"
            )
        return known[text]

    return read


#: The writer and the reader of each codec. None: the value is stored unchanged.
_CODECS: Final[Mapping[ColumnCodec, tuple[Convert | None, Convert | None]]] = {
    ColumnCodec.TEXT: (None, None),
    ColumnCodec.WHOLE: (lambda number: EntityProperty(number, EdmType.INT64), _int),
    ColumnCodec.SMALL: (None, _int),
    ColumnCodec.MOMENT: (datetime.isoformat, datetime.fromisoformat),
    ColumnCodec.JOB_STATE: (attrgetter("value"), _word_of(JobState)),
    ColumnCodec.CHUNK_STATE: (attrgetter("value"), _word_of(ChunkState)),
    ColumnCodec.RISK: (attrgetter("value"), _word_of(Risk)),
    ColumnCodec.AMOUNTS: (lambda sums: _dumps(texts(sums)), lambda text: _amounts(_loads(text))),
    ColumnCodec.TOTALS: (write_totals, read_totals),
    ColumnCodec.COUNTS: (lambda counts: _dumps(dict(counts)), lambda text: MappingProxyType(_loads(text))),
    ColumnCodec.FLAG: (lambda is_set: is_set or None, bool),
    ColumnCodec.RARE: (lambda number: EntityProperty(number, EdmType.INT64) if number else None, _int),
    ColumnCodec.STORY: (_story_text, _story_of),
    ColumnCodec.NAMES: (lambda names: _dumps(list(names)) if names else None, lambda text: tuple(_loads(text))),
    ColumnCodec.SOURCES: (_sources_text, _sources_of),
    ColumnCodec.RANGES: (
        lambda ranges: None if ranges is None else _dumps(asdict(ranges)),
        lambda text: Ranges(**_loads(text)),
    ),
    ColumnCodec.REVISIONS: (
        lambda used: _dumps(dict(used)) if used else None,
        lambda text: MappingProxyType(_loads(text)),
    ),
}


class _Table(NamedTuple):
    """The columns of a record, prepared once, because every request encodes or decodes them."""

    values: Callable[[Any], tuple[Any, ...]]
    writers: Sequence[tuple[str, Convert | None]]
    #: The readers of columns that a row must have.
    always: Sequence[tuple[str, Convert | None]]
    #: The readers of the other columns.
    others: Sequence[tuple[str, Convert | None]]
    #: The fields that take three columns, or one.
    plans: Sequence[str]
    #: The names of all columns of this version.
    known: frozenset[str]


def _table(record: type[Job | ChunkRow | StretchRow]) -> _Table:
    plain = {name: column for name, column in columns(record).items() if column.codec in _CODECS}
    plans = [name for name, column in columns(record).items() if column.codec is ColumnCodec.PLAN]
    of_plans = {f"{name}_{part}" for name in plans for part in ("blob", "etag", "container", "text")}
    return _Table(
        values=attrgetter(*plain),
        writers=[(name, _CODECS[column.codec][0]) for name, column in plain.items()],
        always=[(name, _CODECS[column.codec][1]) for name, column in plain.items() if column.always],
        others=[(name, _CODECS[column.codec][1]) for name, column in plain.items() if not column.always],
        plans=plans,
        known=frozenset({"PartitionKey", "RowKey", "Timestamp", "known_chunks", *plain, *of_plans}),
    )


_TABLES: Final = {record: _table(record) for record in (Job, ChunkRow, StretchRow)}
