"""CSV becomes lines of JSON, or ends with the line of its fault."""

import csv
import io
import json

import pytest
from hypothesis import given, strategies as st

from shared.errors import RefusedError
from shared.payload import Limits
from shared.publish import read_csv

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
#: What decides where values and rows end.
MARKS = st.text(st.sampled_from('a,"\r\n'), max_size=14)


def read(content, **form):
    """Return the numbered lines of a file."""
    return list(read_csv(io.BytesIO(content), **form))


@pytest.mark.parametrize(
    ("content", "form", "lines"),
    [
        (b"a,b\n1,x\n", {}, [(2, b'{"a":"1","b":"x"}')]),
        (b"\xef\xbb\xbfa,b\r\n1,x", {}, [(2, b'{"a":"1","b":"x"}')]),
        (b"a,b\n,x\n1,\n,\n", {}, [(2, b'{"b":"x"}'), (3, b'{"a":"1"}'), (4, b"{}")]),
        (b"a,b\n\n1,x\n\r\n2,y\n", {}, [(3, b'{"a":"1","b":"x"}'), (5, b'{"a":"2","b":"y"}')]),
        (b'"a","b"\n"1","x, ""y"""\n', {}, [(2, rb'{"a":"1","b":"x, \"y\""}')]),
        (b'a,b\n1,"l1\r\nl2\n"\r\n2,y\n', {}, [(2, rb'{"a":"1","b":"l1\r\nl2\n"}'), (5, b'{"a":"2","b":"y"}')]),
        (b'a,b\n"",""\n', {}, [(2, b"{}")]),
        (b"a\n x \n", {}, [(2, b'{"a":" x "}')]),
        (b"1;2,5\n", {"delimiter": ";", "columns": ["a", "b"]}, [(1, b'{"a":"1","b":"2,5"}')]),
        (b"\n1\t2\n", {"delimiter": "\t", "columns": ["a", "b"]}, [(2, b'{"a":"1","b":"2"}')]),
        (b"a,b\n007,-1.50e+3\n8,\n", {"numbers": ["b"]}, [(2, b'{"a":"007","b":-1.50e+3}'), (3, b'{"a":"8"}')]),
        ("ä\nß\u2028\x00\n".encode(), {}, [(2, '{"ä":"ß\u2028\\u0000"}'.encode())]),
        (b"a,b\n", {}, []),
    ],
)
def test_rows_become_lines(content, form, lines):
    """Every value is text unless it is named a number, an empty one is left out, and a row has its first line's number."""
    assert read(content, **form) == lines


@pytest.mark.parametrize(
    ("content", "form", "said"),
    [
        (b"a,b\n1,2\n3\n", {}, "row_length: line 3: found 1 value, expected 2: a, b;"),
        (b"a,b\n1,2,3\n", {}, "row_length: line 2: found 3 values, expected 2: a, b;"),
        (b'a,b\n1,"x\ny"\n1\n', {}, "row_length: line 4: found 1 value,"),
        (b"1,2\n", {"columns": ["a"]}, "row_length: line 1: found 2 values, expected 1: a;"),
        (b"a,b,a\n1,2,3\n", {}, "bad_header: line 1: found column 'a' twice, expected each name once;"),
        (b"a,\n1,2\n", {}, "bad_header: line 1: found no name for column 2,"),
        (b"\na,b\n1,2\n", {}, "bad_header: line 1: found no name for column 1,"),
        (b"", {}, "bad_header: line 1: found no name for column 1,"),
        (b"1,2\n", {"columns": ["a", "a"]}, "bad_header: columns: found column 'a' twice,"),
        (b"1,2\n", {"columns": []}, "row_length: line 1: found 2 values, expected 0"),
        (b"a,b\n1,2\n", {"numbers": ["c"]}, "bad_header: line 1: found no column 'c', expected one of a, b;"),
        (b"a,b\n1,2\n1,x\xe4\n", {}, "not_utf8: line 3: found 0xe4 as byte 4, expected UTF-8;"),
        (b"\xff\xfea\0", {}, "not_utf8: the file begins with the byte order mark of UTF-16;"),
        (b'a,b\n1,"2\n3,4\n', {}, "bad_quotes: line 2: found a quotation mark that none closes before the file's end,"),
        (b'a,b\n1,"2"x\n', {}, "bad_quotes: line 2: found 'x', expected ',' or the end of the row behind value 2;"),
        (b'a,b\n1,2"x"\n', {}, "bad_quotes: line 2: found '\"', expected ',' or the end of the row behind value 2;"),
        (b'a,b\n1, "2"\n', {}, "bad_quotes: line 2: found '\"',"),
        (b"a,b\r1,2\r", {}, "bad_quotes: line 1: found a carriage return inside of the line,"),
        (b'a,b\n"1",2\r3\n', {}, "bad_quotes: line 2: found '\\r',"),
        (
            b"a,b\n1,+2\n",
            {"numbers": ["b"]},
            "no_number: line 2, column 'b': found '+2', expected a number like -12.5;",
        ),
        (b"a,b\n1,01\n", {"numbers": ["b"]}, "no_number: line 2, column 'b': found '01',"),
        (b"a,b\n1,NaN\n", {"numbers": ["b"]}, "no_number: line 2, column 'b': found 'NaN',"),
    ],
)
def test_a_fault_is_named_with_its_line(content, form, said):
    """What is there, and what should be."""
    with pytest.raises(RefusedError) as refused:
        read(content, **form)
    assert str(refused.value).startswith(said)


def test_a_fault_names_its_file(tmp_path):
    """By the end of its path."""
    (tmp_path / "usage.csv").write_bytes(b"a,b\n1\n")
    with (
        (tmp_path / "usage.csv").open("rb") as file,
        pytest.raises(RefusedError, match=r"row_length: usage\.csv line 2: "),
    ):
        list(read_csv(file))


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "\r", "ä"])
def test_a_delimiter_is_one_character(delimiter):
    """Said before anything is read."""
    with pytest.raises(ValueError, match="the delimiter of CSV is one ASCII character"):
        read_csv(io.BytesIO(), delimiter=delimiter)


def test_a_mark_that_is_never_closed_ends_within_the_bound_of_a_line():
    """It would take the rest of a large file into memory."""
    with pytest.raises(
        RefusedError, match="bad_quotes: line 2: found a quotation mark that none closes before 50 bytes"
    ):
        read(b'a\n"\n' + b"b\n" * 100, limits=Limits(line_bytes=50))


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True), st.data())
def test_what_another_program_writes_is_read_as_it_was(columns, data):
    """Texts of any characters, quoted where they must be or everywhere, by both ends of lines."""
    rows = data.draw(st.lists(st.lists(TEXTS, min_size=len(columns), max_size=len(columns)), max_size=5))
    file, delimiter = io.StringIO(newline=""), data.draw(st.sampled_from(",;\t|"))
    # Where lines end by "\n", Python before 3.13 writes a carriage return without marks.
    written = [(csv.QUOTE_MINIMAL, "\r\n"), (csv.QUOTE_ALL, "\r\n"), (csv.QUOTE_ALL, "\n")]
    quoting, end = data.draw(st.sampled_from(written))
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows([columns, *rows])
    # The byte order mark alone is no part of a text at the beginning of a file.
    if file.getvalue().startswith("\ufeff"):
        return
    wanted = [{name: value for name, value in zip(columns, row, strict=True) if value} for row in rows]
    read_back = [line for _, line in read(file.getvalue().encode(), delimiter=delimiter)]
    assert read_back == [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in wanted]


@given(MARKS)
def test_what_is_read_is_what_another_reader_reads(text):
    """Nothing is accepted that Python's own strict reader takes otherwise, or refuses."""
    columns = ["a", "b"]
    try:
        lines = read(text.encode(), columns=columns)
    except RefusedError:
        return
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    wanted = [{name: value for name, value in zip(columns, row, strict=True) if value} for row in rows]
    assert [json.loads(line) for _, line in lines] == wanted
