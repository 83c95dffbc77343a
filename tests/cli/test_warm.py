"""Instances of a planned opening, as a person plans, prices, sees and carries them out."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

import tools.cli.warm
from shared.app import Stores
from shared.azure.connections import Connections
from shared.gate.receipts import FirstChunk, SeenBy, _row_of_first
from shared.ledger.records import Job, JobState, PlanBlob
from shared.operating.audit import acts_of
from shared.scaling import WARM_RECORD, records_of
from shared.scaling.resource_manager import ResourceManager
from tests.scaling.resource_manager_server import SITE, running
from tests.scaling.test_carry_out import Operator
from tools.cli.main import app

_numbers = itertools.count(1)


@pytest.fixture
def stores(stack_settings):
    """The installation, without a record."""
    with Connections.parse(stack_settings) as connections:
        blob = connections.blobs.get_container_client("settings").get_blob_client(WARM_RECORD)
        for _ in range(2):
            if blob.exists():
                blob.delete_blob()
        yield Stores(connections)
        if blob.exists():
            blob.delete_blob()


@pytest.fixture
def gate(stores):
    """A closed gate of its own that holds a job of 1,200 chunks."""
    name = f"warmed-{next(_numbers)}"
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
    stores.ledger.insert(job)
    stores.held_work.hold(name, job.job, "submissions", "{}")
    return name


@pytest.fixture
def run(stack_settings, monkeypatch):
    """Run a command in this process, as an operator who has logged in, against a server."""
    with running() as server:
        monkeypatch.setattr(tools.cli.warm, "connect_manager", lambda endpoint: ResourceManager(Operator(), endpoint))
        warm = {"SLUICE_WARM_SITE": SITE, "SLUICE_WARM_ENDPOINT": server.endpoint, "SLUICE_WARM_MOST": "20"}

        def invoke(*words, answer="", **settings):
            return CliRunner(env={**stack_settings, **warm, **settings}).invoke(app, words, input=answer)

        yield server, invoke


def in_minutes(number):
    """Return a time of day as a person types it."""
    return f"{datetime.now(UTC) + timedelta(minutes=number):%Y-%m-%dT%H:%MZ}"


def test_a_planned_opening_says_its_price_before_it_asks(run, gate, stores):
    """What is held now, and the most that it can cost; a no plans nothing."""
    _, invoke = run
    done = invoke("gate", "open", gate, "--at", in_minutes(120), answer="n\n")
    assert "For the 1 jobs of 1200 chunks that it holds now: " in done.output
    assert "USD" in done.output
    assert "At most 20 instances until" in done.output
    assert "sluice tune warm --due --yes" in done.output, "the app has no identity for it"
    assert done.exit_code == 1
    assert records_of(stores).read().record.is_empty


def test_where_nothing_is_warmed_it_is_said_how(run, gate, stores):
    """And the opening is planned as ever."""
    _, invoke = run
    done = invoke("gate", "open", gate, "--at", in_minutes(120), "--yes", SLUICE_WARM_SITE="")
    assert "docs/scaling.md says how" in done.output
    assert records_of(stores).read().record.is_empty


def test_a_timetable_says_from_when_on_instances_are_warmed(run, gate, stores):
    """Ten minutes before its next opening, for which the record has them."""
    _, invoke = run
    done = invoke("gate", "open", gate, "--every", "0 2 * * *", "--zone", "UTC", "--yes", "--by", "ann")
    assert "01:50:00 UTC on, and before each opening to come" in done.output
    assert "sluice tune warm --due --yes" in done.output, "the app has no identity for it"
    (opening,) = records_of(stores).read().record.openings
    assert (opening.gate, opening.by, opening.opens_at.hour) == (gate, "timetable of ann", 2)
    cold = invoke("gate", "open", gate, "--every", "0 3 * * *", "--zone", "UTC", "--yes", "--cold")
    assert "instances" not in cold.output
    assert records_of(stores).read().record.is_empty
    assert invoke("gate", "open", gate, "--every", "off").exit_code == 0


def test_an_opening_is_planned_shown_and_dropped(run, gate, stores):
    """`--json` has the forecast, `tune warm` the record; `--cold` drops it again."""
    _, invoke = run
    at = in_minutes(120)
    words = ("gate", "open", gate, "--at", at, "--yes", "--json")
    said = json.loads(invoke(*words, SLUICE_WARM_IDENTITY="x").stdout)["warm"]
    assert (said["most"], said["is_automatic"], said["always_ready"]["release_gate"]) == (20, True, 1)
    assert float(said["amount"]) < float(said["amount_at_most"])
    (opening,) = json.loads(invoke("tune", "warm", "--json").stdout)["openings"]
    assert (opening["gate"], opening["wanted"]) == (gate, None)
    assert gate in invoke("tune", "warm").stdout
    assert json.loads(invoke(*words, "--cold").stdout)["warm"] is None
    assert records_of(stores).read().record.openings == ()
    assert "none are to be given back" in invoke("tune", "warm").stdout


def test_an_operator_carries_the_record_out_and_gives_back(run, gate, stores):
    """With a question, an entry in the audit, and no pointer left behind; nothing due sends nothing."""
    server, invoke = run
    assert "none are to be given back" in invoke("tune", "warm", "--due").stdout
    assert server.requests == []
    assert invoke("gate", "open", gate, "--at", in_minutes(5), "--yes").exit_code == 0
    done = invoke("tune", "warm", "--due", answer="n\n")
    assert "function:drain_work: not set -> " in done.output
    assert [method for method, *_ in server.requests] == ["GET"]
    done = invoke("tune", "warm", "--due", "--yes", "--by", "anna", "--why", "month's end")
    assert "changed: function:drain_work" in done.output
    assert server.counts["function:release_gate"] == 1
    rows = stores.connections.tables.get_table_client("audit").query_entities("what eq 'scale warm'")
    warmed = [one.act for one in acts_of(rows) if "not set" in one.act.result]
    assert (warmed[-1].who, warmed[-1].why) == ("anna", "month's end")
    assert invoke("gate", "close", gate).exit_code == 0
    assert invoke("tune", "warm", "--due", "--yes").exit_code == 0
    assert server.counts == {"http": 1}


def test_carrying_out_needs_the_app(run):
    """A wrong call is a wrong call."""
    _, invoke = run
    assert invoke("tune", "warm", "--due", SLUICE_WARM_SITE="").exit_code == 2


def test_the_time_to_the_first_chunk_is_what_was_measured(run, gate, stores):
    """Apart for openings with instances and without; of this gate, else of all gates, else it is said that none was."""
    _, invoke = run
    opened_at = datetime.now(UTC) - timedelta(hours=2)
    table = stores.connections.tables.get_table_client("receipts")
    for epoch, seconds in enumerate((0.25, 8, 12), start=1):
        at = opened_at + timedelta(minutes=10 * epoch)
        began = at + timedelta(seconds=seconds)
        table.create_entity(
            _row_of_first(FirstChunk(gate=gate, epoch=epoch, how=SeenBy.PUSH, node="n", opened_at=at, began_at=began))
        )
    known = records_of(stores).read()
    past = ((gate, opened_at + timedelta(minutes=10) - timedelta(seconds=1)),)
    record = type(known.record)(past=past)
    assert records_of(stores).try_write(known, record, None)
    said = json.loads(invoke("tune", "plan", gate, "--json").stdout)["first_chunk"]
    assert said == {
        "with_instances": {"openings": 1, "p50": 0.25, "p99": 0.25},
        "without": {"openings": 2, "p50": 8.0, "p99": 12.0},
        "of": "gate",
    }
    shown = invoke("tune", "plan", gate).stdout
    assert "with instances ready: p50 0.250 s, p99 0.250 s, measured at 1 openings of this gate" in " ".join(
        shown.split()
    )
    assert " 0.0 minutes" not in shown
