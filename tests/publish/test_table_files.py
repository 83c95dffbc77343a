"""Files of CSV and Parquet, submitted by a person and by a program."""

import csv
import io
import json
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from azure.storage.blob import ContainerClient

from shared.publish import read_csv, read_parquet
from tests import command
from tests.publish.million import usages
from tests.publish.test_submit_command import environment
from tests.waiting import LIMIT
from tools.cli.transactions_file import CountedFile
from tools.local.paths import ROOT

MIB = 1024 * 1024
#: More than a message takes.
ROWS = [{name: str(value) for name, value in msgspec.to_builtins(one).items()} for one in usages(4_000)]
LINES = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in ROWS)
#: Reads a file in a process of its own, and says how much memory that took.
READ = """
import sys
from shared.payload import Framing, write_frames
from shared.publish import {reader}
from tests.memory import peak
with open(sys.argv[1], "rb") as file, open(sys.argv[2], "wb") as spool:
    framed = write_frames({reader}(file), spool, Framing(sums=("amount",), checked=sys.maxsize))
print(framed.index.items, framed.sums["amount"], peak())
"""


@pytest.fixture
def payloads(storage):
    """Its container of payloads, empty."""
    with ContainerClient.from_connection_string(storage, "payloads") as client:
        for name in [*client.list_blob_names()]:
            client.delete_blob(name)
        yield client


@pytest.fixture
def submit(storage, tmp_path):
    """Run the command in a folder of its own."""

    def run(*arguments):
        with tempfile.TemporaryDirectory() as scratch:
            return command.run(["submit", *arguments], environment(storage), tmp_path, Path(scratch))

    return run


def written(rows, *, header=True, **form):
    """Return rows as CSV."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, **form)
    writer.writerows([rows[0], *(row.values() for row in rows)] if header else [row.values() for row in rows])
    return file.getvalue()


def payload_of(queue):
    """Return what the one message says of the payload and of its sums, and remove the message."""
    message = queue.receive_message()
    queue.delete_message(message)
    said = json.loads(message.content)["sluice"]
    return said["payload"], said["declared"]


def test_csv_is_sent_as_if_a_person_had_converted_it(submit, queue, payloads, tmp_path):
    """The same blob, the same index, the same sums: to the installation it is the same submission."""
    (tmp_path / "usage.ndjson").write_text(LINES)
    (tmp_path / "usage.csv").write_text(written(ROWS), newline="")
    (tmp_path / "bare.txt").write_text(written(ROWS, header=False, delimiter=";"), newline="")
    found = []
    for words in (("usage.ndjson",), ("usage.csv",), ("bare.txt", "--csv", ";", "--columns", ",".join(ROWS[0]))):
        done = submit(*words, "--job", "usage", "--sum", "quantity")
        assert (done.returncode, done.stderr) == (0, ""), words
        found.append(payload_of(queue))
    assert found[0] == found[1] == found[2]
    assert len([*payloads.list_blob_names()]) == 1
    total = sum(int(row["quantity"]) for row in ROWS)
    assert found[0][1] == {"items": len(ROWS), "sums": {"quantity": str(total)}}


def test_a_column_of_numbers_is_sent_as_numbers(submit, queue, payloads, tmp_path):
    """So that a field of whole numbers takes it."""
    (tmp_path / "usage.csv").write_text(written(ROWS), newline="")
    lines = "".join(f"{json.dumps(row | {'quantity': int(row['quantity'])}, separators=(',', ':'))}\n" for row in ROWS)
    (tmp_path / "usage.ndjson").write_text(lines)
    found = []
    for words in (("usage.csv", "--number", "quantity"), ("usage.ndjson",)):
        assert submit(*words, "--job", "usage", "--sum", "quantity").returncode == 0
        found.append(payload_of(queue))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "fault",
    [
        ("x\n", f"row_length: usage.csv line {len(ROWS) + 2}: found 1 value, expected 8: id, account,"),
        ('x,"\n', f"bad_quotes: usage.csv line {len(ROWS) + 2}: found a quotation mark that none closes"),
        ("a,b,c,d,1.2.3,f,g,h\n", f"bad_amount: line {len(ROWS) + 2}: "),
    ],
)
def test_of_a_faulty_file_nothing_is_sent(submit, queue, payloads, tmp_path, fault):
    """Its last row is wrong, and all before it would fill a blob: there is no blob and no message."""
    end, said = fault
    (tmp_path / "usage.csv").write_text(written(ROWS) + end, newline="")
    done = submit("usage.csv", "--sum", "quantity")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith(f"sluice: {said}")
    assert ([*payloads.list_blob_names()], queue.peek_messages()) == ([], [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("usage.csv", "--csv", "::"), "the delimiter of CSV is one ASCII character"),
        (
            ("usage.ndjson", "--columns", "a,b"),
            "--columns and --number are for CSV: name the delimiter of usage.ndjson by --csv",
        ),
        (
            ("usage.parquet", "--number", "a"),
            "--columns and --number are for CSV: name the delimiter of usage.parquet by --csv",
        ),
    ],
)
def test_a_wrong_option_ends_the_command(submit, queue, tmp_path, words, said):
    """As a call that makes no sense."""
    for name in ("usage.csv", "usage.ndjson", "usage.parquet"):
        (tmp_path / name).write_text('{"a": 1}\n')
    done = submit(*words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert queue.peek_messages() == []


@pytest.fixture
def parquet():
    """The library that writes Parquet."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make setup ARGS=--parquet`")
    from pyarrow import Table, parquet  # noqa: PLC0415 - only where it is installed

    def write(rows, path, **options):
        parquet.write_table(Table.from_pylist(rows), path, **options)

    return write


def test_parquet_is_sent_as_if_a_person_had_converted_it(submit, queue, payloads, tmp_path, parquet):
    """Numbers are numbers, amounts are exact, and of a file that has no form nothing is sent."""
    rows = [row | {"amount": int(row["quantity"]), "quantity": Decimal(row["amount"])} for row in ROWS]
    lines = "".join(f"{json.dumps(row, separators=(',', ':'), default=str)}\n" for row in rows)
    (tmp_path / "usage.ndjson").write_text(lines)
    parquet(rows, tmp_path / "usage.parquet", row_group_size=1_500)
    found = []
    for name in ("usage.ndjson", "usage.parquet"):
        done = submit(name, "--job", "usage", "--sum", "quantity")
        assert (done.returncode, done.stderr) == (0, ""), name
        found.append(payload_of(queue))
    assert found[0] == found[1]
    for name in [*payloads.list_blob_names()]:
        payloads.delete_blob(name)
    parquet([*({"a": float(n)} for n in range(20_000)), {"a": float("nan")}], tmp_path / "bad.parquet")
    done = submit("bad.parquet", "--no-fit")
    assert done.stderr.startswith("sluice: no_form: bad.parquet row 20001, column 'a': found nan, expected")
    assert (done.returncode, [*payloads.list_blob_names()], queue.peek_messages()) == (1, [], [])


def test_progress_ends_where_the_file_does(tmp_path, parquet):
    """A table is read once, also by columns; what stands at its end is read before."""
    (tmp_path / "usage.csv").write_text(written(ROWS), newline="")
    parquet(ROWS, tmp_path / "usage.parquet", row_group_size=500)
    for name, read, beyond in (("usage.csv", read_csv, 0), ("usage.parquet", read_parquet, 64 * 1024)):
        sizes = []
        with (tmp_path / name).open("rb") as file:
            assert len(list(read(CountedFile(file, sizes.append)))) == len(ROWS)
        whole = (tmp_path / name).stat().st_size
        assert whole * 0.9 <= sum(sizes) <= whole + beyond


@pytest.mark.ci("half a minute of CPU")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_file(kind, tmp_path, request):
    """Ten times the rows, in one group of Parquet, take a few MiB more at most."""
    peaks = []
    for count in (30_000, 300_000):
        rows = [msgspec.to_builtins(one) for one in usages(count)]
        path = tmp_path / f"{count}.{kind}"
        if kind == "csv":
            path.write_text(written(rows), newline="")
        else:
            request.getfixturevalue("parquet")(rows, path, row_group_size=count)
        script = [sys.executable, "-c", READ.format(reader=f"read_{kind}"), path, tmp_path / "spool"]
        done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        items, total, peak = done.stdout.split()
        assert (int(items), Decimal(total)) == (count, sum(Decimal(row["amount"]) for row in rows))
        peaks.append(int(peak))
    assert peaks[1] - peaks[0] < 16 * MIB
