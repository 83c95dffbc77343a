"""`sluice workload check`: its output is the one of docs/workloads.md, and each bad call says what is wrong."""

import gzip
import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.cli.main import app
from tools.local import readme
from tools.local.paths import ROOT

# The file stands in a folder of its own here, and not in own/, which this repository has too.
PAGE = (
    (ROOT / "docs" / "workloads.md")
    .read_text()
    .partition("### Try them")[2]
    .partition("\n## ")[0]
    .replace("own.sales:", "sales:")
)
COMMAND = re.search(r"```sh\nsluice (.*?)\n```", PAGE)[1].split()
PRINTED = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
MISTAKES = re.search(r"`partial = (\w+)` and `(return .*)`, it prints", PAGE).groups()


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Run the command of the page, or another one, beside the page's files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sales.py").write_text(readme.workload())
    (tmp_path / "sales.ndjson").write_text("".join(f'{{"units": {units}}}\n' for units in (2, 3, 4)))
    yield lambda *words: CliRunner().invoke(app, ["workload", "check", *words] if words else COMMAND, env={})
    sys.modules.pop("sales", None)


def masked(text):
    """Return the text without the time, which no two runs share."""
    return re.sub(r"[\d.,]+ µs", "N µs", text)


def test_the_readme_s_workload_keeps_its_promises(check):
    """For the file that the page writes further up: it has no split, and nothing else is left out."""
    done = check()
    assert (done.exit_code, done.stderr) == (0, "")
    assert "✗" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("- ") and "has no split" not in line] == []


def test_the_page_shows_what_the_command_prints(check):
    """With the mistakes that the page describes."""
    kind, returned = MISTAKES
    mistaken = readme.workload().replace('"sales", Sale, int', f'"sales", Sale, {kind}')
    Path("sales.py").write_text(mistaken.replace("return sale.units", returned))
    done = check()
    assert (done.exit_code, done.stderr) == (1, "")
    assert masked(done.stdout) == masked(PRINTED)


def test_a_program_reads_the_same_as_json(check):
    """A packed file too, with a line that is rejected."""
    lines = b'{"units": 2}\n\n{"units": "x"}\n'
    with gzip.open("sales.ndjson.gz", "wb") as packed:
        packed.write(lines)
    document = json.loads(check("sales:Sales", "sales.ndjson.gz", "--json").stdout)
    assert (document["lines"], document["rejected"], document["counts"]) == (2, 1, {"bad_amount": 1})
    assert {one["promise"]: one["state"] for one in document["promises"]}["associative"] == "kept"


@pytest.mark.parametrize(
    ("name", "content", "status", "found"),
    [
        ("sales:Sales", b"", 2, "usual.ndjson has no line"),
        ("sales:Sales", b"\x1f\x8b no gzip", 2, "usual.ndjson cannot be read: corrupt"),
        ("sales:Sales", b"a,b\n1,2\n", 1, "all 2 lines were rejected: not_json"),
        ("nowhere:Sales", b"{}\n", 2, "cannot load workload 'nowhere:Sales'"),
        ("sales:Sale", b"{}\n", 2, "sales:Sale cannot be loaded: TypeError"),
        ("operator:Sales", b"{}\n", 2, "cannot load workload 'operator:Sales'"),
        ("builtins:object", b"{}\n", 2, "workload object cannot be used"),
        ("billing,sales:Sales", b"{}\n", 2, "names 2 workloads, expected one"),
    ],
)
def test_a_call_that_makes_no_sense_says_why(check, name, content, status, found):
    """In one line, by the status of all commands."""
    Path("usual.ndjson").write_bytes(content)
    done = check(name, "usual.ndjson")
    assert done.exit_code == status
    assert found in " ".join(done.output.split())
    assert check(name, "nofile").exit_code == 2


def test_a_table_is_tried_as_it_would_be_submitted(check):
    """A file of CSV, with its columns of numbers."""
    Path("sales.txt").write_text("2;x\n3;\n")
    words = ("sales:Sales", "sales.txt", "--csv", ";", "--columns", "units,note", "--number", "units", "--json")
    document = json.loads(check(*words).stdout)
    assert (document["lines"], document["rejected"]) == (2, 0)
