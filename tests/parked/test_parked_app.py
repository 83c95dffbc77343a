"""Parked and rejected under a whole app: a payload that is damaged and repaired, a file of the wrong kind."""

import json
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import JobState
from shared.ledger.settlement import LEAST_CHECKED
from tests.waiting import until
from tools.cli.main import app as command

#: More than fits into a message, so that the payload is a blob.
ITEMS = 12_000


@pytest.fixture
def sluice(stack_settings):
    """Run a command and return what it prints as JSON."""

    def run(*arguments):
        done = CliRunner().invoke(command, [*arguments, "--json"], env=stack_settings | {"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout.strip().splitlines()[-1])

    run.settings = stack_settings
    return run


@pytest.mark.usefixtures("one_instance")
def test_a_damaged_chunk_is_parked_and_counted_after_its_repair(sluice, provisioned, tmp_path):
    """The job ends with parked items, then the replay brings them in, once, and the job is complete and balanced."""
    file = tmp_path / "usage.ndjson"
    lines = [
        {"account": f"a-{n % 977}", "plan": "basic", "quantity": str(n), "id": f"{n:x}" * 9}
        for n in range(1, ITEMS + 1)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    job = sluice("submit", str(file), "--gate", "repair", "--sum", "quantity")["job"]
    with Connections(provisioned.connection_string) as connections:
        stores = Stores(connections)
        ledger, parked = stores.ledger, stores.parked_table
        until(lambda: (found := ledger.read(job)) and found.state is JobState.HELD)
        # Beside it lies the job's plan, which is small.
        blobs = connections.blobs.get_container_client("payloads").list_blobs(name_starts_with=f"{job}/")
        blob = max(blobs, key=lambda one: one.size)
        payload = connections.blobs.get_blob_client("payloads", blob.name)
        content = payload.download_blob().readall()
        payload.upload_blob(bytes([content[0] ^ 1]) + content[1:], overwrite=True)
        sluice("gate", "open", "repair", "--yes")
        until(lambda: ledger.read(job).state is JobState.COMPLETED_WITH_PARKED)
        (entry,) = parked.entries(job)
        assert entry.reason == "hash_mismatch"
        assert ledger.read(job).totals.parked.items > 0
        payload.upload_blob(content, overwrite=True)
        assert sluice("parked", "replay", "--job", job, "--yes")["result"] == "1 done"
        until(lambda: ledger.read(job).state is JobState.COMPLETE)
        totals = ledger.read(job).totals
        assert list(parked.entries(job)) == []
    assert (totals.accepted.items, totals.parked.items) == (ITEMS, 0)
    assert totals.accepted.sums == {"quantity": Decimal(ITEMS * (ITEMS + 1) // 2)}


@pytest.mark.usefixtures("one_instance")
def test_a_wrong_file_pauses_its_job_and_shows_why(sluice, provisioned, tmp_path):
    """Long before its end, with its rejected lines to read. A person who knows better lets it go on."""
    file = tmp_path / "usage.ndjson"
    lines = 8 * LEAST_CHECKED
    file.write_text("".join(f'{{"account":"a","plan":"basic","id":"{n:x}"}}\n' for n in range(lines)))
    job = sluice("submit", str(file), "--most-rejected", "99%", "--no-fit")["job"]
    with Connections(provisioned.connection_string) as connections:
        ledger = Stores(connections).ledger
        until(lambda: (found := ledger.read(job)) and found.state is JobState.PAUSED)
        assert f"most_rejected is 99%. Read why: `sluice jobs output {job} --rejected`" in ledger.read(job).problem
        shown = CliRunner().invoke(command, ["jobs", "output", job, "--rejected"], env=sluice.settings)
        assert json.loads(shown.stdout.splitlines()[0])["reason"] == "does_not_fit"
        assert f"job {job} is paused: the rejected lines of" in shown.stderr
        resumed = CliRunner().invoke(command, ["jobs", "resume", job, "--yes"], env=sluice.settings)
        assert resumed.exit_code == 0, resumed.output
        until(lambda: ledger.read(job).state is JobState.COMPLETE)
        assert ledger.read(job).totals.rejected.items == lines
