"""Parquet becomes lines of JSON by one form of each type, or ends before anything is sent."""

import io
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from shared.errors import RefusedError, SettingsError
from shared.publish import read_parquet

NOON = datetime(2026, 11, 27, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def pa():
    """The library that reads and writes Parquet; `make setup ARGS=--parquet` installs it."""
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make setup ARGS=--parquet`")


def stored(table, **options):
    """Return a file of the table."""
    from pyarrow import parquet  # noqa: PLC0415 - only where it is installed

    file = io.BytesIO()
    parquet.write_table(table, file, **options)
    file.seek(0)
    return file


COLUMNS = {
    "text": (lambda pa: pa.array(["x", "", None]), [b'{"a":"x"}', b'{"a":""}', b"{}"]),
    "whole": (
        lambda pa: pa.array([2**64 - 1, 0, None], pa.uint64()),
        [b'{"a":18446744073709551615}', b'{"a":0}', b"{}"],
    ),
    "double": (lambda pa: pa.array([0.1, -2.0]), [b'{"a":0.1}', b'{"a":-2.0}']),
    "truth": (lambda pa: pa.array([True, False]), [b'{"a":true}', b'{"a":false}']),
    "decimal": (
        lambda pa: pa.array([Decimal("1E-10"), Decimal("-12.30"), None], pa.decimal128(30, 10)),
        [b'{"a":"0.0000000001"}', b'{"a":"-12.3000000000"}', b"{}"],
    ),
    "date": (lambda pa: pa.array([date(2026, 1, 2)]), [b'{"a":"2026-01-02"}']),
    "time": (lambda pa: pa.array([time(1, 2, 3)], pa.time32("s")), [b'{"a":"01:02:03"}']),
    "timestamp": (
        lambda pa: pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo")),
        [b'{"a":"2026-11-27T12:00:00.500000Z"}'],
    ),
    "naive": (
        lambda pa: pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")),
        [b'{"a":"2026-11-27T12:00:00.500000"}'],
    ),
    "dictionary": (lambda pa: pa.array(["x", None, "x"]).dictionary_encode(), [b'{"a":"x"}', b"{}", b'{"a":"x"}']),
    "null": (lambda pa: pa.nulls(2), [b"{}", b"{}"]),
    "list": (
        lambda pa: pa.array([[Decimal("1.5"), None], [], None], pa.large_list(pa.decimal128(5, 1))),
        [b'{"a":["1.5",null]}', b'{"a":[]}', b"{}"],
    ),
    "struct": (
        lambda pa: pa.array([{"at": NOON, "n": None}, {"at": None, "n": [{"x": Decimal(2)}]}]),
        [b'{"a":{"at":"2026-11-27T12:00:00.500000Z"}}', b'{"a":{"n":[{"x":"2"}]}}'],
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_each_type_has_one_form(pa, kind):
    """Exact amounts stay texts, times have their zone, and a null is left out."""
    make, lines = COLUMNS[kind]
    column = make(pa)
    if kind == "struct":
        at = pa.timestamp("us", "UTC")
        inner = pa.list_(pa.struct([("x", pa.decimal128(1, 0))]))
        column = column.cast(pa.struct([("at", at), ("n", inner)]))
    assert list(read_parquet(stored(pa.table({"a": column})))) == list(enumerate(lines, 1))


REFUSED = {
    "float": (lambda pa: {"a": pa.array([1.5], pa.float32())}, "no_form: column 'a': found type float, expected text,"),
    "bytes": (lambda pa: {"a": pa.array([b"x"])}, "no_form: column 'a': found type binary,"),
    "span": (lambda pa: {"a": pa.array([1], pa.duration("s"))}, "no_form: column 'a': found type duration[s],"),
    "map": (
        lambda pa: {"a": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))},
        "no_form: column 'a': found type map<",
    ),
    "bytes inside": (lambda pa: {"a": pa.array([[{"x": b"x"}]])}, "no_form: column 'a': found type binary,"),
    "NaN": (
        lambda pa: {"a": [1.5] * 1500 + [float("nan")]},
        "no_form: row 1501, column 'a': found nan, expected a value of double;",
    ),
    "infinite": (lambda pa: {"a": [[1.5, float("-inf")]]}, "no_form: row 1, column 'a': found -inf,"),
    "nanoseconds": (
        lambda pa: {"a": pa.array([1000, 1001], pa.timestamp("ns", "UTC"))},
        "no_form: row 2, column 'a': found Casting from timestamp[ns, tz=UTC] to timestamp[us, tz=UTC] would lose data",
    ),
    "the year 33658": (lambda pa: {"a": pa.array([10**12], pa.timestamp("s"))}, "no_form: row 1, column 'a': found "),
    "no name": (lambda pa: {"": [1]}, "bad_header: schema: found no name for column 1,"),
    "no name inside": (lambda pa: {"a": [{"": 1}]}, "bad_header: column 'a': found no name for column 1,"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_form_is_refused(pa, what):
    """A type before the first row, a value with its row."""
    make, said = REFUSED[what]
    with pytest.raises(RefusedError) as refused:
        list(read_parquet(stored(pa.table(make(pa)))))
    assert str(refused.value).startswith(said)


def test_two_columns_of_one_name_are_refused(pa):
    """Of the two, JSON would keep the last."""
    table = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(RefusedError, match="bad_header: schema: found column 'a' twice, expected each name once;"):
        list(read_parquet(stored(table)))


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1"])
def test_what_is_no_parquet_is_refused_by_its_name(pa, content, tmp_path):
    """With the words of the library."""
    (tmp_path / "usage.parquet").write_bytes(content)
    with (
        (tmp_path / "usage.parquet").open("rb") as file,
        pytest.raises(RefusedError, match=r"bad_parquet: usage\.parquet: found what pyarrow refuses \("),
    ):
        list(read_parquet(file))


def test_a_damaged_file_is_refused(pa):
    """Its end is whole, and its columns are not."""
    content = bytearray(stored(pa.table({"a": list(range(10_000))}), compression="snappy").getvalue())
    content[8:200] = bytes(192)
    with pytest.raises(RefusedError, match="bad_parquet: found what pyarrow refuses"):
        list(read_parquet(io.BytesIO(bytes(content))))


def test_rows_of_several_groups_are_numbered_on(pa):
    """A batch may end where a group does."""
    file = stored(pa.table({"a": list(range(2_500))}), row_group_size=999)
    assert list(read_parquet(file)) == [(n + 1, b'{"a":%d}' % n) for n in range(2_500)]


def test_without_the_extra_it_says_what_is_missing(monkeypatch):
    """A publisher of other files never needs it."""
    monkeypatch.delitem(sys.modules, "shared.payload.parquet_rows", raising=False)
    monkeypatch.delattr("shared.payload.parquet_rows", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match="read by pyarrow, which is not installed here"):
        read_parquet(io.BytesIO())
