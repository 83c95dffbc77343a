"""`sluice nights`, and `sluice submit --from`, against a real storage without the app."""

import itertools
import json
import time
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger import JobState
from shared.ledger.records import Job, PlanBlob
from shared.payload import Limits, open_envelope, read_submission
from tools.cli.main import app

_numbers = itertools.count(1)


@pytest.fixture
def night(stack_settings):
    """Write the jobs of a night into the ledger: one that runs, one that has ended, one that waits for the first."""
    name = f"night-{time.monotonic_ns()}-{next(_numbers)}"
    with Connections.parse(stack_settings) as connections:
        stores = Stores(connections)
        for job, state, more in (
            ("rate-1", JobState.RUNNING, {}),
            ("rate-2", JobState.COMPLETE, {"finished_at": datetime.now(UTC)}),
            ("invoice", JobState.HELD, {"waits": (f"{name}-rate-2", f"{name}-rate-1"), "plan": None}),
        ):
            known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": datetime.now(UTC)}
            plan = {"plan": PlanBlob(f"{name}-{job}/plan", "e"), "items": 10, "chunks": 2}
            stores.ledger.insert(Job(job=f"{name}-{job}", state=state, night=name, **known | plan | more))
        yield name, stores.ledger


def call(stack_settings, *words):
    """Call the command."""
    return CliRunner().invoke(app, list(words), env=stack_settings)


def test_a_night_is_shown_with_the_reason_of_each_job(stack_settings, night):
    """The head has the gravest state, the sum and the price."""
    name, _ = night
    shown = call(stack_settings, "nights", "show", name)
    assert shown.output.startswith(f"night {name}: running, 30 transactions, 33 %")
    assert f"waits for {name}-rate-1, which is running" in shown.output
    listed = json.loads(call(stack_settings, "nights", "list", "--limit", "100", "--json").output)["nights"]
    assert [(one["state"], one["jobs"]) for one in listed if one["night"] == name] == [("running", 3)]


def test_a_night_is_paused_resumed_and_stopped(stack_settings, night):
    """Each act says what it did to each job, and may be repeated."""
    name, ledger = night
    paused = call(stack_settings, "nights", "pause", name, "--why", "wrong tariff")
    assert paused.exit_code == 0, paused.output
    assert "2 jobs paused, 1 were so already or have ended" in paused.output
    assert ledger.read(f"{name}-invoice").state is JobState.PAUSED
    again = call(stack_settings, "nights", "pause", name, "--why", "wrong tariff")
    assert "0 jobs paused" in again.output
    assert call(stack_settings, "nights", "resume", name).exit_code == 0
    assert ledger.read(f"{name}-invoice").state is JobState.HELD
    stopped = call(stack_settings, "nights", "stop", name, "--why", "wrong file", "--yes")
    assert "2 jobs stopped" in stopped.output
    assert ledger.read(f"{name}-rate-2").state is JobState.COMPLETE


def test_a_night_that_is_not_there_says_where_to_find_one(stack_settings):
    """Status 1."""
    shown = call(stack_settings, "nights", "show", "no-such-night")
    assert shown.exit_code == 1
    assert "sluice nights list" in shown.output


def test_a_job_is_sent_that_is_made_from_others(stack_settings):
    """Its sums are those of the sources, its file is none."""
    job = f"invoice-{time.monotonic_ns()}"
    words = ["--from", "rate-1,rate-2", "--job", job, "--sum", "quantity=amount", "--after", "rates", "--night", "n-1"]
    sent = call(stack_settings, "submit", *words, "--workload", "billing", "--no-hint", "--json")
    assert sent.exit_code == 0, sent.output
    assert json.loads(sent.output.strip().splitlines()[-1])["form"] == "jobs"
    with Connections.parse(stack_settings) as connections:
        queue = connections.queues.get_queue_client("submissions")
        bodies = [one.content for one in queue.peek_messages(32) if job in one.content]
    (found,) = (read_submission(open_envelope(body, Limits()), "m", Limits()) for body in bodies)
    assert (found.waits, dict(found.content.sums), found.night) == (
        ("rate-1", "rate-2", "rates"),
        {"quantity": "amount"},
        "n-1",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "rate-1"], "--from takes --job, and no file"),
        ([], "give a FILE, or --from JOBS"),
        (["--from", "a,a", "--job", "b"], "names a job twice"),
        (["--from", "b", "--job", "b"], "it waits for itself: b, b"),
    ],
)
def test_a_call_that_makes_no_sense_sends_nothing(stack_settings, words, said):
    """It says what does."""
    ran = call(stack_settings, "submit", *words)
    assert ran.exit_code != 0
    assert said in f"{ran.output} {ran.exception}"
