"""The rows of jobs and chunks, held against rows as they were written on 2026-11-22: storage keeps them for years."""

import json
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from azure.data.tables import EdmType, EntityProperty

from shared.errors import LedgerCorruptError
from shared.ledger import records
from shared.ledger.entities import job_entity, job_of, row_entity, row_of_entity
from shared.ledger.records import ChunkState, JobState, Risk, Told
from shared.payload import Ranges
from tests.ledger.golden import EMPTY_JOB, EMPTY_ROW, FULL_JOB, FULL_ROW, as_json, moment

GOLDEN = json.loads(Path(__file__).with_name("golden_rows.json").read_text())
CASES = {
    "full job": (FULL_JOB, job_entity, job_of),
    "empty job": (EMPTY_JOB, job_entity, job_of),
    "full row": (FULL_ROW, row_entity, row_of_entity),
    "empty row": (EMPTY_ROW, row_entity, row_of_entity),
}
#: Columns that every version wrote: a row without one of them was changed by another hand.
ALWAYS = {
    "full job": {"state", "content_hash", "workload", "accepted_at", "declared", "totals", "requests"},
    "full row": {"state", "revision", "settled_at", "totals", "milliseconds", "nonce"},
}


def stored(golden):
    """Return the entity as storage gives it back."""
    return {
        name: EntityProperty(value["value"], EdmType.INT64) if isinstance(value, dict) else value
        for name, value in golden.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_written_as_ever(name):
    """Names, types and texts of all columns, and no column for what is None."""
    record, write, _ = CASES[name]
    assert as_json(write(record)) == GOLDEN[name]


@pytest.mark.parametrize("name", CASES)
def test_a_row_of_any_version_is_read(name):
    """What was stored then means the same now."""
    record, _, read = CASES[name]
    assert read(stored(GOLDEN[name]), "") == record


SAMPLES = {
    records.KEY: "k",
    records.OTHERS: {"later": "what a newer version wrote", "last": 7},
    records.TEXT: "ünïcode 🎉",
    records.WHOLE: 2**40,
    records.RARE: 2**40,
    records.SMALL: 7,
    records.MOMENT: moment(9),
    records.JOB_STATE: JobState.PAUSED,
    records.CHUNK_STATE: ChunkState.PARKED,
    records.RISK: Risk.MISSED,
    records.AMOUNTS: FULL_JOB.declared,
    records.TOTALS: FULL_JOB.totals,
    records.COUNTS: FULL_JOB.requests,
    records.PLAN: FULL_JOB.plan,
    records.FLAG: True,
    records.NAMES: ("a", "north~b"),
    records.SOURCES: records.Sources(2, MappingProxyType({"amount": "weight"}), "lines"),
    records.RANGES: Ranges("0x8D", 2**40, 2**27, "d41d8cd9"),
    records.REVISIONS: MappingProxyType({"a": 1, "north~b": 3}),
    records.STORY: (Told(JobState.HELD, moment(7), 3, "why"),),
}


@pytest.mark.parametrize("name", ["full job", "full row"])
def test_every_field_makes_the_round_trip(name):
    """One that is added is written and read too: each field in turn has a value of its codec."""
    record, write, read = CASES[name]
    found = records.columns(type(record))
    assert list(found) == [one.name for one in fields(record)]
    for field, column in found.items():
        given = {field: 3 if field == "chunk" else SAMPLES[column.codec]}
        changed = replace(CASES[name.replace("full", "empty")][0], **given)
        assert read(write(changed), changed.etag) == changed


@pytest.mark.parametrize("name", ALWAYS)
def test_a_row_that_lacks_a_column_is_read_with_the_default_or_refused(name):
    """A row of before a column has its default; what every version wrote must be there."""
    read = CASES[name][2]
    refused = set()
    for column in set(GOLDEN[name]) - {"PartitionKey", "RowKey", "plan_blob", "plan_etag", "plan_container"}:
        row = stored(GOLDEN[name])
        del row[column]
        try:
            default = getattr(CASES[name.replace("full", "empty")][0], column)
            assert getattr(read(row, ""), column) == default
        except LedgerCorruptError:
            refused.add(column)
    assert refused == ALWAYS[name]
