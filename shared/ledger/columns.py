"""The columns of the ledger's records: the codec of each field, and who copies or keeps its value."""

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, get_type_hints


class ColumnCodec(Enum):
    """How a value is written in its column. `entities` has a writer and a reader for each."""

    #: No column: the row's key, or its ETag.
    KEY = auto()
    TEXT = auto()
    WHOLE = auto()
    #: A whole number of 32 bits, because the first version wrote it so.
    SMALL = auto()
    MOMENT = auto()
    JOB_STATE = auto()
    CHUNK_STATE = auto()
    RISK = auto()
    AMOUNTS = auto()
    TOTALS = auto()
    COUNTS = auto()
    STORY = auto()
    #: Three columns.
    PLAN = auto()
    #: All columns that no field has: they are of a newer version.
    OTHERS = auto()


KEY: Final = ColumnCodec.KEY
TEXT: Final = ColumnCodec.TEXT
WHOLE: Final = ColumnCodec.WHOLE
SMALL: Final = ColumnCodec.SMALL
MOMENT: Final = ColumnCodec.MOMENT
JOB_STATE: Final = ColumnCodec.JOB_STATE
CHUNK_STATE: Final = ColumnCodec.CHUNK_STATE
RISK: Final = ColumnCodec.RISK
AMOUNTS: Final = ColumnCodec.AMOUNTS
TOTALS: Final = ColumnCodec.TOTALS
COUNTS: Final = ColumnCodec.COUNTS
STORY: Final = ColumnCodec.STORY
PLAN: Final = ColumnCodec.PLAN
OTHERS: Final = ColumnCodec.OTHERS


class Column(NamedTuple):
    """The column of a field. None is not stored, and a row without the column has the field's default."""

    codec: ColumnCodec
    #: Copied from the submission's field of this name when the job is accepted.
    given: bool = False
    #: Kept when the job is buried.
    kept: bool = False
    #: Written by every version of Sluice: another program changed a row that lacks it.
    always: bool = False


def columns(record: Any) -> Mapping[str, Column]:
    """Return the column of each field, in the order of the fields."""
    hints = get_type_hints(record, include_extras=True)
    return {one.name: hints[one.name].__metadata__[0] for one in fields(record)}


@cache
def select_fields(record: Any, mark: str) -> tuple[str, ...]:
    """Return the names of the fields whose column has the mark, `given` or `kept`."""
    return tuple(name for name, column in columns(record).items() if getattr(column, mark))
