"""The checker is believed because it is apart, and because it turns red at each mistake that an output could have."""

import ast
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from tests.outside import checker

JOB = "to-be-mutated"
LINES = [
    json.dumps({"account": f"a-{number % 5}", "plan": plan, "quantity": f"{number}.25"}).encode()
    for number, plan in enumerate(["basic", "nippon", "gulf", "standard", "nobody's", "premium"] * 40)
]


class Copy:
    """The outputs of a job in memory, as a container that a test can change."""

    def __init__(self, blobs):
        self.blobs = dict(blobs)

    def list_blob_names(self, name_starts_with):
        """Return the names."""
        return [name for name in self.blobs if name.startswith(name_starts_with)]

    def download_blob(self, name, **_):
        """Return a blob that can be read."""
        return SimpleNamespace(readall=lambda: self.blobs[name])

    def change(self, part, change):
        """Change the lines of a part, and the manifest with them, as a mistake of the app would."""
        folder = f"{JOB}/1/"
        lines = [json.loads(line) for line in checker.lines_of(self.blobs[f"{folder}{part}"])]
        lines = change(lines) or lines
        stored = zstandard.ZstdCompressor().compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        self.blobs[f"{folder}{part}"] = stored
        manifest = json.loads(self.blobs[f"{folder}manifest.json"])
        (row,) = [row for row in manifest["parts"] if row["name"] == part]
        row |= {"items": len(lines), "bytes": len(stored), "sha256": hashlib.sha256(stored).hexdigest()}
        self.blobs[f"{folder}manifest.json"] = json.dumps(manifest).encode()

    def manifest(self, change):
        """Change the manifest."""
        manifest = json.loads(self.blobs[f"{JOB}/1/manifest.json"])
        change(manifest)
        self.blobs[f"{JOB}/1/manifest.json"] = json.dumps(manifest).encode()


@pytest.fixture(scope="module")
def job(outside):
    """A job that ran, with rejects and three currencies: its outputs, its totals, its first number."""
    outside.publisher.put(f"mutated/{JOB}", b"".join(line + b"\n" for line in LINES))
    outside.publisher.send({"sluice": {"job": JOB, "payload": {"blob": f"mutated/{JOB}"}}})
    found = outside.operator.ends(JOB)
    assert checker.check(outside.operator.storage, JOB, LINES, first_id=found["first_id"]) == []
    with BlobServiceClient.from_connection_string(outside.operator.storage) as blobs:
        outputs = blobs.get_container_client("outputs")
        stored = {
            name: outputs.download_blob(name, decompress=False).readall()
            for name in outputs.list_blob_names(name_starts_with=JOB)
        }
    with TableServiceClient.from_connection_string(outside.operator.storage) as tables:
        rows = tables.get_table_client("totals").query_entities(f"PartitionKey eq '{JOB}'")
        totals = [{key: getattr(value, "value", value) for key, value in row.items()} for row in rows]
    return stored, [row for row in totals if "account" in row], found["first_id"]


EMPTY = zstandard.ZstdCompressor().compress(b"")
OUTPUT, REJECTED = "output-000000.ndjson.zst", "rejected-000000-000000.ndjson.zst"


def more(name, by=1):
    """Return a change of one field of the first line."""

    def change(lines):
        lines[0][name] = type(lines[0][name])(by) if isinstance(lines[0][name], str) else lines[0][name] + by

    return change


MUTATIONS = {
    "an amount": lambda copy, _: copy.change(OUTPUT, more("amount", 7)),
    "a quantity": lambda copy, _: copy.change(OUTPUT, more("quantity", 7)),
    "a count": lambda copy, _: copy.change(OUTPUT, more("items")),
    "an invoice twice": lambda copy, _: copy.change(OUTPUT, lambda lines: [*lines, lines[0]]),
    "an invoice missing": lambda copy, _: copy.change(OUTPUT, lambda lines: lines[1:]),
    "a reject twice": lambda copy, _: copy.change(REJECTED, lambda lines: [*lines, lines[0]]),
    "a reject missing": lambda copy, _: copy.change(REJECTED, lambda lines: lines[1:]),
    "another's number": lambda copy, _: copy.change(REJECTED, more("number")),
    "another's line": lambda copy, _: copy.change(REJECTED, more("line", 7)),
    "a part missing": lambda copy, _: copy.manifest(lambda said: said["parts"].pop()),
    "a part changed": lambda copy, _: copy.blobs.update({f"{JOB}/1/{OUTPUT}": copy.blobs[f"{JOB}/1/{OUTPUT}"] + EMPTY}),
    "a total": lambda _, totals: totals[0].update(amount_EUR="0.01"),
    "a total missing": lambda _, totals: totals.pop(),
    "a total of before": lambda _, totals: totals[0].update(revision=2),
    "accepted": lambda copy, _: copy.manifest(lambda said: said["accepted"].update(items=201)),
    "a sum": lambda copy, _: copy.manifest(lambda said: said["accepted"]["sums"].update(quantity="1")),
    "the sum of rejects": lambda copy, _: copy.manifest(lambda said: said["rejected"]["sums"].update(quantity="1")),
    "parked": lambda copy, _: copy.manifest(lambda said: said["parked"].update(items=1)),
    "the state": lambda copy, _: copy.manifest(lambda said: said.update(state="completed_with_parked")),
    "no outputs": lambda copy, _: copy.blobs.clear(),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_changed_output_is_told(job, name):
    """Each of these is what a defect would leave."""
    stored, totals, first_id = job
    copy, rows = Copy(stored), [dict(row) for row in totals]
    assert list(checker.breaches(JOB, checker.expect(LINES), copy, rows, first_id)) == []
    MUTATIONS[name](copy, rows)
    assert list(checker.breaches(JOB, checker.expect(LINES), copy, rows, first_id)) != []


def test_what_was_parked_is_neither_accepted_nor_rejected(job):
    """An output that counts a parked transaction is told."""
    stored, totals, first_id = job
    assert list(checker.breaches(JOB, checker.expect(LINES, parked=[7]), Copy(stored), totals, first_id)) != []


def test_numbers_that_two_jobs_share_are_told():
    """Ranges may touch."""
    assert list(checker.overlaps([(1, 5, "a"), (6, 5, "b"), (20, 1, "c")])) == []
    assert list(checker.overlaps([(6, 5, "b"), (1, 6, "a")])) != []


def test_the_checker_shares_nothing_with_what_it_checks():
    """It is small enough to be read, and imports no module of the project."""
    text = Path(checker.__file__).read_text()
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {alias.name.split(".")[0] for node in found for alias in node.names} | {
        node.module.split(".")[0] for node in found if isinstance(node, ast.ImportFrom)
    }
    assert not roots & {"shared", "sluice", "capabilities", "tools", "functions", "tests"}
    assert len(text.splitlines()) <= 200
