"""Rows of CSV to lines of JSON, in the memory of one row.

It reads strictly. What two readers could take differently is refused, with the line as an editor numbers it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from shared.errors import RefusedError
from shared.payload.payload_store import Limits
from shared.refusals import Reason, TableReason, refuse

#: A number as JSON writes it.
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_ENCODE: Final = msgspec.json.Encoder().encode
#: Names of columns that a fault shows.
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """How a file of CSV is written."""

    delimiter: str = ","
    #: The columns of a file without a header. None: its first row is the header.
    columns: tuple[str, ...] | None = None
    #: Columns that are sent as JSON numbers. All others are texts.
    numbers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ValueError(f"the delimiter of CSV is one ASCII character, no quotation mark, not {self.delimiter!r}")


@dataclass(frozen=True, slots=True)
class Table:
    """The file that is read, as its faults call it."""

    name: str

    def refuse(self, reason: TableReason | Reason, where: str, found: str, expected: str) -> RefusedError:
        """Return the error that names the file, the place, what is there and what should be."""
        place = " ".join(filter(None, (self.name, where)))
        return refuse(reason, f"{place}: found {found}, expected {expected}".removeprefix(": "))

    def check_columns(self, columns: Sequence[str], where: str) -> None:
        """Refuse columns of which two would be one field, or one would have no name."""
        for place, column in enumerate(columns, 1):
            if not column:
                raise self.refuse(TableReason.BAD_HEADER, where, f"no name for column {place}", "a name for each")
        if len(set(columns)) != len(columns):
            twice = next(column for place, column in enumerate(columns) if column in columns[:place])
            raise self.refuse(TableReason.BAD_HEADER, where, f"column {twice[:80]!r} twice", "each name once")


def convert_csv(lines: Iterable[bytes], form: CsvForm, table: Table, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield each row as a line of JSON, with the number of its first line in the file. An empty value is left out."""
    rows = _Rows(form, table, limits).read(lines)
    where, columns = (
        ("columns", list(form.columns)) if form.columns is not None else ("line 1", next(rows, (1, [""]))[1])
    )
    table.check_columns(columns, where)
    for name in form.numbers:
        if name not in columns:
            raise table.refuse(TableReason.BAD_HEADER, where, f"no column {name!r}", f"one of {_list_columns(columns)}")
    for number, row in rows:
        if len(row) != len(columns):
            expected = f"{len(columns)}: {_list_columns(columns)}"
            raise table.refuse(TableReason.ROW_LENGTH, f"line {number}", _count_values(len(row)), expected)
        fields: dict[str, Any] = dict(zip(columns, row, strict=True))
        if "" in row:
            fields = {name: value for name, value in fields.items() if value}
        for name in form.numbers:
            if name in fields:
                fields[name] = _number(fields[name], table, f"line {number}, column {name!r}")
        yield number, _ENCODE(fields)


class _Rows:
    """Cuts lines into rows of values. A value in quotation marks may hold the delimiter, a line feed, and `""` for one mark."""

    def __init__(self, form: CsvForm, table: Table, limits: Limits) -> None:
        self._delimiter, self._has_header = form.delimiter, form.columns is None
        self._table, self._limits = table, limits
        self._value = re.compile(rf'"((?:[^"]++|"")*+)"|([^"\r\n{re.escape(form.delimiter)}]*+)')

    def read(self, lines: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
        numbered = enumerate(lines, 1)
        for number, line in numbered:
            if b'"' in line:
                text = self._decode(number, self._whole(number, line, numbered)).removesuffix("\r")
                yield number, self._split(number, text)
            # An empty first line is a header without names. Any other is skipped, as among lines of JSON.
            elif (text := self._decode(number, line).removesuffix("\r")) or (number == 1 and self._has_header):
                if "\r" in text:
                    raise self._refuse(number, "a carriage return inside of the line", "lines ended by LF or CRLF")
                yield number, text.split(self._delimiter)

    def _whole(self, number: int, line: bytes, numbered: Iterator[tuple[int, bytes]]) -> bytes:
        """Return the row that begins in a line: it ends in the line that closes its last quotation mark."""
        parts, size, marks = [line], len(line), line.count(b'"')
        while marks % 2:
            _, more = next(numbered, (0, None))
            if more is None or size + len(more) >= self._limits.line_bytes:
                within = "the file's end" if more is None else f"{self._limits.line_bytes} bytes"
                raise self._refuse(number, f"a quotation mark that none closes before {within}", "its end")
            parts.append(more)
            size, marks = size + 1 + len(more), marks + more.count(b'"')
        return b"\n".join(parts)

    def _decode(self, number: int, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            found = f"{line[error.start]:#04x} as byte {error.start + 1}"
            raise self._table.refuse(Reason.NOT_UTF8, f"line {number}", found, "UTF-8") from error

    def _split(self, number: int, text: str) -> list[str]:
        row = text[1:-1].split(f'"{self._delimiter}"')
        if text.startswith('"') and text.endswith('"') and text.count('"') == 2 * len(row):
            # Each mark begins or ends a value, so none is inside of one: programs that quote everything write such rows.
            return row
        row = []
        at = 0
        while found := self._value.match(text, at):
            row.append(found[2] if found[1] is None else found[1].replace('""', '"'))
            at = found.end() + 1
            if at > len(text):
                break
            if text[at - 1] != self._delimiter:
                expected = f"{self._delimiter!r} or the end of the row behind value {len(row)}"
                raise self._refuse(number, repr(text[at - 1]), expected)
        return row

    def _refuse(self, number: int, found: str, expected: str) -> RefusedError:
        return self._table.refuse(TableReason.BAD_QUOTES, f"line {number}", found, expected)


def _number(value: str, table: Table, where: str) -> msgspec.Raw:
    if _NUMBER.fullmatch(value) is None:
        raise table.refuse(TableReason.NO_NUMBER, where, repr(value[:80]), "a number like -12.5")
    return msgspec.Raw(value.encode())


def _count_values(values: int) -> str:
    return f"{values} value{'s' * (values != 1)}"


def _list_columns(columns: Sequence[str]) -> str:
    return ", ".join([*columns[:_SHOWN], *(["…"] if len(columns) > _SHOWN else [])])
