"""The rows of jobs and chunks, held against rows as they were written on 2026-11-22: storage keeps them for years."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from azure.data.tables import EdmType, EntityProperty

from shared.errors import LedgerCorruptError
from shared.ledger.entities import job_entity, job_of, row_entity, row_of_entity
from shared.ledger.records import ChunkRow, Job
from tests.ledger.golden import EMPTY_JOB, EMPTY_ROW, FULL_JOB, FULL_ROW, as_json

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


@pytest.mark.parametrize(("record", "kind"), [(FULL_JOB, Job), (FULL_ROW, ChunkRow)], ids=["job", "row"])
def test_every_field_is_set_in_the_full_record(record, kind):
    """A field that is added is added to the golden records too, and so is held through the round trip."""
    unset = [
        one.name for one in fields(kind) if one.default is not MISSING and getattr(record, one.name) == one.default
    ]
    unset += [
        one.name
        for one in fields(kind)
        if one.default_factory is not MISSING and getattr(record, one.name) == one.default_factory()
    ]
    assert unset == ["etag"]


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
