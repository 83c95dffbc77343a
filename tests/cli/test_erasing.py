"""`sluice jobs erase`, against a real storage without the app."""

import itertools
import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import RetentionPolicy
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import Job, JobState, PlanBlob
from shared.operating.audit import acts_of
from shared.operating.keeping import Keeping, find_immutable, read_keeping
from tools.cli.main import app

_numbers = itertools.count(1)
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture
def stores(stack_settings):
    """The stores of the stack."""
    with Connections.parse(stack_settings) as connections:
        yield Stores(connections)


@pytest.fixture
def job_in(stores):
    """Write a job of its own, with bytes of its results and outputs and a file of its publisher, and return its id."""

    def make(state=JobState.COMPLETE, **fields):
        name = fields.pop("job", f"erased-{next(_numbers)}")
        known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": datetime.now(UTC)}
        known |= {"items": 10, "chunks": 2, "plan": PlanBlob(f"{name}/plan", "e"), "file": f"uploads/{name}.ndjson"}
        stores.ledger.insert(Job(job=name, state=state, **known | fields))
        for container in ("results", "outputs", "plans"):
            stores.container(container).upload_blob(f"{name}/1/0", b"secret")
        stores.container("payloads").upload_blob(f"uploads/{name}.ndjson", b"secret")
        return name

    return make


def blobs_of(stores, name):
    """Return the blobs that have a job's name in theirs."""
    containers = ("results", "outputs", "plans", "payloads")
    return [blob for one in containers for blob in stores.container(one).list_blob_names() if name in blob]


def typed(stack_settings, text, *words):
    """Run the command while a person types."""
    return CliRunner().invoke(app, ["jobs", "erase", *words], input=f"{text}\n", env=dict(stack_settings))


def test_the_id_is_typed_and_everything_goes(sluice, job_in, stores, stack_settings):
    """A wrong one does nothing. The row, its line in the list and the audit stay, and once more it says so already."""
    name = job_in()
    wrong = typed(stack_settings, "another", name, "--why", "request 4711")
    assert (wrong.exit_code, "that is not its id" in wrong.stderr) == (1, True)
    assert len(blobs_of(stores, name)) == 4
    done = typed(stack_settings, name, name, "--why", "request 4711", "--by", "ann")
    assert done.exit_code == 0, done.stderr
    assert f"{name} (10 transactions), and uploads/{name}.ndjson, for good" in done.stdout
    assert "by ann; proof follows when its queues are empty" in done.stdout
    assert blobs_of(stores, name) == []
    assert sluice("jobs", "erase", name, "--why", "again", "--yes").returncode == 0
    found = json.loads(sluice("jobs", "show", name, "--json").stdout)
    assert (found["state"], found["by"], found["problem"], found["proof"]) == ("erased", "ann", "request 4711", None)
    rows = stores.connections.tables.get_table_client("audit").query_entities(f"target eq '{name}'")
    assert [(one.act.what, one.act.result) for one in acts_of(rows)] == [("job erase", "erased")] * 2
    output = sluice("jobs", "output", name)
    assert (output.returncode, "they were erased with it" in output.stderr) == (1, True)
    assert sluice("jobs", "watch", name).returncode == 1


def test_a_proof_is_shown_with_its_counts(sluice, job_in):
    """And the day of the second check."""
    proof = {"tables": 7, "containers": 5, "queues": 4, "found": 0, "looks": 1}
    name = job_in(JobState.ERASED, erased_at=NOON, proven_at=NOON, proof=proof, by="ann", problem="request 4711")
    shown = sluice("jobs", "show", name).stdout
    assert "7 tables, 5 containers, 4 queues looked at, 0 found; second check on 2026-11-29" in shown
    assert json.loads(sluice("jobs", "show", name, "--json").stdout)["proof"] == proof


def test_a_source_is_refused_unless_what_was_made_from_it_is_named(sluice, job_in, stores):
    """A file is named for one job alone."""
    source, made = f"source-{next(_numbers)}", f"made-{next(_numbers)}"
    job_in(job=source, waiters=(made,))
    job_in(job=made, used={source: 1})
    refused = sluice("jobs", "erase", source, "--why", "request 4711", "--yes")
    assert (refused.returncode, f"{made} was made from its output" in refused.stderr) == (1, True)
    assert sluice("jobs", "erase", source, made, "--why", "w", "--yes", "--file", "uploads/x").returncode == 2
    assert sluice("jobs", "erase", source, made, "--why", "request 4711", "--yes").returncode == 0
    assert blobs_of(stores, source) + blobs_of(stores, made) == []


def test_a_file_that_the_row_does_not_name_is_removed_too(sluice, job_in, stores):
    """An earlier version accepted the job."""
    name = job_in(file=None)
    done = sluice("jobs", "erase", name, "--why", "w", "--yes", "--file", f"uploads/{name}.ndjson")
    assert (done.returncode, blobs_of(stores, name)) == (0, [])


def test_what_the_account_keeps_is_named(stores):
    """Azurite knows soft delete alone."""
    blobs = stores.connections.blobs
    blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
    assert read_keeping(blobs, ["results", "gone"]).soft_delete_days == 7
    blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
    kept = read_keeping(blobs, ["results"])
    assert (kept.soft_delete_days, bool(kept.has_versions), kept.immutable) == (0, False, [])


@pytest.mark.parametrize(
    ("keeping", "words"),
    [
        (Keeping(0, has_versions=False), []),
        (
            Keeping(7, has_versions=True, immutable=["container results has a legal hold"]),
            ["until 2026-12-05", "a version of each removed blob", "immutable: container results has a legal hold"],
        ),
        (Keeping(None, has_versions=None), ["not known, for storage does not say: soft delete and versions"]),
    ],
)
def test_what_stands_against_erasing_is_said(keeping, words):
    """With the day until which it does."""
    said = list(keeping.words(NOON))
    assert [word in one for one, word in zip(said, words, strict=True)] == [True] * len(words)


def test_a_policy_and_a_hold_make_a_container_immutable():
    """Its properties say so."""
    both = SimpleNamespace(name="results", has_immutability_policy=True, has_legal_hold=True)
    assert len(list(find_immutable(both))) == 2
    none = SimpleNamespace(name="results", has_immutability_policy=False, has_legal_hold=False)
    assert list(find_immutable(none)) == []


def test_a_login_that_may_not_ask_is_no_fault():
    """It is said that nothing is known."""

    def refuse(*_args, **_options):
        raise HttpResponseError("AuthorizationPermissionMismatch")

    container = SimpleNamespace(get_container_properties=refuse, list_blobs=refuse)
    blobs = SimpleNamespace(get_service_properties=refuse, get_container_client=lambda _: container)
    assert read_keeping(blobs, ["results"]) == Keeping(None, None, ["results is not known"])
