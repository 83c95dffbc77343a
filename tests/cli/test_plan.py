"""`sluice tune plan`, as a person runs it; carrying it out, with an operator who has logged in."""

import itertools
import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

import tools.cli.plan
from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import Job, JobState, PlanBlob
from shared.operating.audit import acts_of
from shared.scaling.resource_manager import ResourceManager
from tests.scaling.resource_manager_server import CONFIGURATION, running
from tests.scaling.test_carry_out import Operator
from tools.cli.main import app

_numbers = itertools.count(1)
APP = ("--subscription", "s-1", "--resource-group", "rg", "--app", "sluice-app")


@pytest.fixture
def gate(stack_settings):
    """A closed gate of its own that holds a job of 1,200 chunks and a message that is no job."""
    name = f"planned-{next(_numbers)}"
    with Connections.parse(stack_settings) as connections:
        job = Job(
            job=f"job-of-{name}",
            content_hash="0" * 64,
            workload="billing",
            accepted_at=datetime.now(UTC),
            items=10,
            chunks=1_200,
            state=JobState.HELD,
            gate=name,
            plan=PlanBlob("p", "e"),
        )
        Stores(connections).ledger.insert(job)
        for entry in (job.job, "no-job"):
            Stores(connections).held_work.hold(name, entry, "submissions", "{}")
    return name


def test_a_plan_names_functions_price_and_commands(sluice, gate):
    """Everything that a person needs to decide, and nothing is asked of Azure."""
    said = json.loads(sluice("tune", "plan", gate, "--seconds", "10", "--json").stdout)
    assert (said["jobs"], said["chunks"], said["others"]) == (1, 1_200, 1)
    assert said["always_ready"]["drain_work"] == 20
    shown = sluice("tune", "plan", gate, "--seconds", "10", *APP).stdout
    assert "az functionapp scale config always-ready set --resource-group rg --name sluice-app" in shown
    assert "  drain_work: 20\n" in shown


def test_a_gate_that_holds_nothing_needs_nothing(sluice):
    """It is said in one line."""
    done = sluice("tune", "plan", "nothing-there")
    assert (done.returncode, done.stdout) == (0, "Gate nothing-there holds 0 jobs of 0 chunks.\n")


def test_carrying_out_needs_the_app(sluice, gate):
    """A wrong call is a wrong call, before anybody is asked."""
    assert sluice("tune", "plan", gate, "--apply").returncode == 2


@pytest.fixture
def run(stack_settings, monkeypatch):
    """Run the command in this process, as an operator who has logged in, against a server."""
    with running() as server:
        monkeypatch.setattr(tools.cli.plan, "connect_manager", lambda endpoint: ResourceManager(Operator(), endpoint))

        def invoke(*arguments, answer=""):
            words = ("tune", "plan", *arguments, "--endpoint", server.endpoint, *APP)
            return CliRunner(env=stack_settings).invoke(app, words, input=answer)

        yield server, invoke


def test_without_a_yes_nothing_changes(run, gate):
    """The difference is shown first, and the answer is no."""
    server, invoke = run
    done = invoke(gate, "--apply", "--seconds", "10", answer="n\n")
    assert "alwaysReady function:drain_work: not set -> 20" in done.output
    assert (done.exit_code, server.configuration) == (1, CONFIGURATION)
    assert [method for method, *_ in server.requests] == ["GET"]


def test_a_yes_is_carried_out_and_kept_in_the_audit(run, gate, stack_settings):
    """Who, which app, why, and what changed."""
    server, invoke = run
    done = invoke(gate, "--apply", "--seconds", "10", "--yes", "--by", "anna", "--why", "month's end")
    assert done.exit_code == 0, done.output
    ready = {one["name"]: one["instanceCount"] for one in server.configuration["scaleAndConcurrency"]["alwaysReady"]}
    assert ready["function:drain_work"] == 20
    with Connections.parse(stack_settings) as connections:
        rows = connections.tables.get_table_client("audit").query_entities("what eq 'scale apply'")
        (act,) = (one.act for one in acts_of(rows) if one.act.details["gate"] == gate)
    assert (act.who, act.why) == ("anna", "month's end")
    assert "drain_work: not set -> 20" in act.result


def test_what_is_so_already_is_not_sent_again(run, gate):
    """And is no entry of the audit."""
    server, invoke = run
    for _ in range(2):
        done = invoke(gate, "--apply", "--seconds", "10", "--yes")
    assert "nothing is sent" in done.output
    assert [method for method, *_ in server.requests].count("PATCH") == 1
