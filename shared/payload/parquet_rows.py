"""Rows of a Parquet file to lines of JSON, some at a time. It alone needs pyarrow, which the extra `parquet` brings.

A type has one form in JSON, or the file is refused before its first row is read.
"""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import IO, Any, Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from shared.payload.csv_rows import Table
from shared.payload.payload_store import Limits
from shared.refusals import TableReason

_ENCODE: Final = msgspec.json.Encoder().encode
#: Rows that are read at a time, if they are short, and bytes of a column that are read at a time.
_ROWS, _BUFFER = 1_000, 64 * 1024
#: Read exactly as they are: whole numbers, truth values, texts, days.
_SAME: Final = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_null,
)
_KNOWN: Final = "text, whole numbers, double, decimal, bool, date, time, timestamp, or lists and structs of these"
_Form = Callable[[Any], Any]


def convert(file: IO[bytes], table: Table, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield each row as a line of JSON, with its number in the file. A null is left out."""
    try:
        with parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as opened:
            yield from _lines(opened, table, limits)
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise table.refuse(TableReason.BAD_PARQUET, "", f"what pyarrow refuses ({said})", "Parquet") from error


def _lines(opened: parquet.ParquetFile, table: Table, limits: Limits) -> Iterator[tuple[int, bytes]]:
    schema = opened.schema_arrow
    table.check_columns(schema.names, "schema")
    columns = [_Column(field, table) for field in schema]
    number = 0
    for batch in opened.iter_batches(_rows_at_once(opened, limits), use_threads=False):
        values = [column.read(array, number) for column, array in zip(columns, batch.columns, strict=True)]
        for row in zip(*values, strict=True):
            number += 1
            yield number, _ENCODE(_without_nulls(zip(schema.names, row, strict=True)))


def _rows_at_once(opened: parquet.ParquetFile, limits: Limits) -> int:
    """Return the rows of a batch: of about the bytes of a frame."""
    about = opened.metadata
    size: int = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    rows: int = about.num_rows
    return max(1, min(_ROWS, limits.frame_bytes * rows // max(1, size)))


class _Column:
    """A column: the type that it is read as, and the form of its values in JSON."""

    def __init__(self, field: pa.Field, table: Table) -> None:
        self._name, self._table = field.name, table
        self._type = self._plain(field.type)
        self._form = _form_of(self._type)

    def read(self, array: pa.Array, before: int) -> list[Any]:
        """Return its values of some rows, or refuse the first row whose value has no form."""
        try:
            return self._values(array)
        except (pa.ArrowException, ValueError, OverflowError):
            for place in range(len(array)):
                self._try(array.slice(place, 1), before + place + 1)
            raise

    def _try(self, one: pa.Array, number: int) -> None:
        try:
            self._values(one)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            where = f"row {number}, column {self._name!r}"
            raise self._table.refuse(TableReason.NO_FORM, where, str(error), f"a value of {self._type}") from error

    def _values(self, array: pa.Array) -> list[Any]:
        values = array.cast(self._type).to_pylist()
        form = self._form
        return values if form is None else [None if value is None else form(value) for value in values]

    def _plain(self, kind: pa.DataType) -> pa.DataType:
        """Return the type to read as: microseconds, UTC where there is a zone, and no dictionary."""
        if pa.types.is_dictionary(kind):
            return self._plain(kind.value_type)
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", None if kind.tz is None else "UTC")
        if pa.types.is_time(kind):
            return pa.time64("us")
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(self._plain(kind.value_type))
        if pa.types.is_struct(kind):
            self._table.check_columns([field.name for field in kind], f"column {self._name!r}")
            return pa.struct([(field.name, self._plain(field.type)) for field in kind])
        if pa.types.is_float64(kind) or pa.types.is_decimal(kind) or any(is_same(kind) for is_same in _SAME):
            return kind
        raise self._table.refuse(TableReason.NO_FORM, f"column {self._name!r}", f"type {kind}", _KNOWN)


def _form_of(kind: pa.DataType) -> _Form | None:
    """Return the function from a value to its form in JSON. None: a value has that form already."""
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_float64(kind):
        return _finite
    if pa.types.is_list(kind):
        inner = _form_of(kind.value_type)
        return inner and (lambda values: [None if value is None else inner(value) for value in values])
    if pa.types.is_struct(kind):
        forms = {field.name: _form_of(field.type) or _same for field in kind}
        return lambda fields: _without_nulls(
            (name, value if value is None else forms[name](value)) for name, value in fields.items()
        )
    return None


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(str(value))
    return value


def _same(value: Any) -> Any:
    return value


def _without_nulls(fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}
