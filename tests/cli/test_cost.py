"""`sluice cost`, as a person runs it."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.azure.meter import Cause, RequestKind, RequestTally
from shared.ledger.records import Job, JobState, PlanBlob, Portion, Totals
from shared.pipeline.plan import PayloadSource, Plan, PlannedChunk, PlanStore
from shared.usage.bill import BUILT_IN
from shared.usage.diary import Diary
from shared.usage.month import polling_seconds
from tests.faults.world import ManualClock
from tools.cli.cost import median_stored
from tools.cli.cost_view import money
from tools.cli.main import app
from tools.local.paths import ROOT


@pytest.fixture
def cost(stack_settings):
    """Run `sluice cost` in this process: a process for each call would take most of the time of these tests."""

    def run(*arguments, settings=None):
        done = CliRunner(env=stack_settings if settings is None else settings).invoke(app, ("cost", *arguments))
        assert done.exit_code == 0, done.output
        return done

    return run


@pytest.fixture
def billed(stack_settings):
    """A finished job in the ledger, with what it requested."""
    name, now = "cli-cost-job", datetime.now(UTC)
    requests = {"queue useful": 3, "table sweep": 5, "blob-write useful": 2, "useful": 7}
    with Connections.parse(stack_settings) as connections:
        Stores(connections).ledger.insert(
            Job(
                job=name,
                content_hash="0" * 64,
                workload="billing",
                accepted_at=now - timedelta(hours=1),
                items=2_000,
                chunks=2,
                done=2,
                state=JobState.COMPLETE,
                plan=PlanBlob(f"{name}/plan", "e"),
                requests=requests,
                started_at=now - timedelta(minutes=30),
                finished_at=now,
                totals=Totals(accepted=Portion(2_000)),
            )
        )
    return name


def test_a_job_has_its_bill_next_to_its_result(cost, billed):
    """Counted, calculated, not priced: each is told apart, beside what a message a transaction would cost."""
    said = json.loads(cost("job", billed, "--json").stdout)
    assert (said["state"], said["items"], said["unpriced"]) == ("complete", 2_000, 7)
    assert {(one["meter"], one["cause"]) for one in said["metered"]} == {
        ("queue", "useful"),
        ("table", "sweep"),
        ("blob-write", "useful"),
    }
    assert Decimal(said["amount"]) < Decimal(said["amount_of_one_message_a_transaction"])
    shown = cost("job", billed).stdout
    assert "2,000 of 2,000 transactions accepted" in " ".join(shown.split())
    assert "6,000 requests" in " ".join(shown.split())


def test_a_month_says_where_it_is_from_and_what_nobody_can_see(cost, billed):
    """The fixed charge and the platform's own requests are in the list, the latter as an assumption."""
    said = json.loads(cost("month", "--json", "--days", "1").stdout)
    assert said["chunks"] >= 2
    assert any("namespace" in one["what"] for one in said["items"])
    assert [one for one in said["items"] if not one["proven"]]
    assert Decimal(said["amount"]) < Decimal(said["amount_with_assumed"])
    assert "A month like" in cost("month").stdout


def test_a_trace_takes_the_place_of_the_ledger(cost, tmp_path):
    """Nothing is asked of any installation then."""
    trace = tmp_path / "trace.ndjson"
    lines = [{"trace": 1, "what": "synthetic", "seed": 1}]
    lines += [{"at": f"2026-11-20T{hour:02}:00:00Z", "seconds": 600, "arrived": 100} for hour in range(24)]
    trace.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = cost("month", "--trace", str(trace), "--json", settings={})
    assert json.loads(done.stdout)["chunks"] == 2_400
    compared = json.loads(cost("compare", "--trace", str(trace), "--json", settings={}).stdout)
    assert compared["measured_awakenings_a_day"] == 24
    assert compared["cheaper"] == "push"


def test_choices_are_compared_for_what_was_measured(cost, billed):
    """Every policy of waking, and the payload on one side of its crossing."""
    said = json.loads(cost("compare", "--days", "1", "--json").stdout)
    assert [one["policy"] for one in said["wakings"]] == ["each", "first", "depth", "burst"]
    amounts = {one["policy"]: Decimal(one["amount"]) for one in said["wakings"]}
    assert amounts["burst"] > 0
    above = str(said["blob_is_cheaper_above_bytes"] + 1)
    shown = " ".join(cost("compare", "--days", "1", "--stored", above).stdout.split())
    assert "Yours of" in shown
    assert ": a blob," in shown
    assert "Waking for the measured dispatches" in shown


def test_how_large_payloads_are_is_measured(provisioned):
    """The median of the jobs whose plans are there; a plan that was swept is no error."""
    known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": datetime.now(UTC)}
    with Connections(provisioned.connection_string) as connections:
        plans = PlanStore(connections.blobs.get_container_client)
        jobs = [Job(job="gone", plan=PlanBlob("gone/plan", "e"), **known), Job(job="held", **known)]
        assert median_stored(plans, None, jobs) is None
        for number, size in enumerate((300, 1_000, 90_000)):
            chunks = [PlannedChunk(0, [(0, 100, 5, "0" * 64)]), PlannedChunk(5, [(100, size - 100, 5, "0" * 64)])]
            plan = Plan(
                job=f"sized-{number}", workload="billing", source=PayloadSource(codec="zstd", blob="b"), chunks=chunks
            )
            jobs.append(Job(job=plan.job, plan=plans.put(plan), **known))
        assert median_stored(plans, None, jobs) == 1_000


def test_the_published_example_is_reproduced_and_its_slip_explained(cost):
    """To the cent, with the reason for the difference; the command's former name still works."""
    said = json.loads(cost("example", "--json", settings={}).stdout)
    assert json.loads(cost("seed", "--json", settings={}).stdout) == said
    assert (said["requests_a_day"], said["month_each"], said["month"]) == (79_200, "2.376", "475.20")
    shown = " ".join(cost("example", settings={}).stdout.split())
    for part in ("475.20", "457.20", "two digits changed places"):
        assert part in shown


def test_prices_are_printed_changed_and_used(cost, billed, tmp_path):
    """What is printed can be given back."""
    printed = cost("prices", settings={}).stdout
    assert printed == BUILT_IN.read_text()
    mine = tmp_path / "mine.json"
    mine.write_text(printed.replace('"blob-write": "0.065"', '"blob-write": "65"'))
    cheap, dear = (json.loads(cost("job", billed, "--json", *more).stdout) for more in ((), ("--prices", str(mine))))
    assert Decimal(dear["amount"]) > 100 * Decimal(cheap["amount"])


def test_what_makes_no_sense_is_one_line(sluice, tmp_path):
    """The job that nobody knows, the prices that are none; as a person runs it."""
    mine = tmp_path / "mine.json"
    mine.write_text("{}")
    assert sluice("cost", "month", "--trace", "not-there.ndjson").returncode == 2
    unknown, wrong = sluice("cost", "job", "no-such-job"), sluice("cost", "example", "--prices", str(mine))
    assert (unknown.returncode, "there is no job 'no-such-job'" in unknown.stderr) == (1, True)
    assert (wrong.returncode, "mine.json" in wrong.stderr, wrong.stderr.count("\n")) == (1, True, 1)


def test_idleness_is_listed_by_who_asks(cost, tmp_path, monkeypatch):
    """Ours, the host's and the platform's, in both modes; the interval is that of host.json."""
    monkeypatch.chdir(tmp_path)
    said = json.loads(cost("idle", "--json", settings={}).stdout)
    assert {one["who"] for one in said["askers"]} == {"the app", "the host", "the platform"}
    assert said["sums"]["known in all"]["trigger"] <= 18_000
    deployed = polling_seconds(json.loads((ROOT / "host.json").read_text()), {})
    assert said["polling_seconds"] == {"trigger": deployed, "push": deployed}
    assert said["in_force"] == "push, 1 work queues, 0 rooms"
    assert said["sums"]["polls of idle queues"]["push"] == 86_400 / deployed
    shown = " ".join(cost("idle", settings={}).stdout.split())
    assert f"86,400 / {deployed:g} = {86_400 / deployed:,.0f} requests a day" in shown


def test_another_interval_than_the_deployed_one_is_priced(cost, tmp_path, monkeypatch):
    """Of the settings file, as the host reads it, or as it is typed: what a person chooses by."""
    monkeypatch.chdir(tmp_path)
    name = "AzureFunctionsJobHost__extensions__queues__maxPollingInterval"
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": {name: "00:00:02"}}))
    set_to = json.loads(cost("idle", "--json", settings={}).stdout)
    typed = json.loads(cost("idle", "--polling", "1", "--queues", "3", "--json", settings={}).stdout)
    assert set_to["polling_seconds"] == {"trigger": 2, "push": 2}
    assert typed["sums"]["polls of idle queues"] == {"trigger": 2 * 86_400, "push": 86_400}
    (one,) = [one for one in typed["askers"] if one["what"] == "poll submissions"]
    assert Decimal(one["amount"]["push"]) == Decimal("1.0368")


def test_an_idle_day_is_that_of_the_settings_in_force(cost, sluice, tmp_path, monkeypatch):
    """Of the file, as the app reads it. A flag asks what another one would be, and what is wrong is named."""
    monkeypatch.chdir(tmp_path)
    values = {
        "SLUICE_DEQUEUE": "trigger",
        "SLUICE_WORK_QUEUES": "3",
        "SLUICE_ROOMS": "a, b",
        "SLUICE_CAPABILITIES": "registration",
    }
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": values}))
    said = json.loads(cost("idle", "--json", settings={}).stdout)
    assert said["in_force"] == "trigger, 3 work queues, 2 rooms, registration"
    asked = json.loads(
        cost("idle", "--rooms", "0", "--queues", "1", "--capabilities", "", "--json", settings={}).stdout
    )
    assert asked["in_force"] == "trigger, 1 work queues, 0 rooms"
    (tmp_path / "local.settings.json").write_text(
        json.dumps({"Values": {"SLUICE_ROOMS": ",".join(f"r{n}" for n in range(201)), "SLUICE_WORK_QUEUES": "0"}})
    )
    bad = sluice("cost", "idle")
    assert bad.returncode == 2
    assert "SLUICE_ROOMS names 201 rooms, expected at most 200" in bad.stderr
    assert "SLUICE_WORK_QUEUES is '0', expected 1 to 100" in bad.stderr


def test_a_day_is_what_the_processes_noted(cost, provisioned):
    """By entity and cause, priced; a day without notes is empty."""
    clock, tally = ManualClock(), RequestTally()
    clock.at = datetime(2029, 5, 1, tzinfo=UTC)
    with Connections(provisioned.connection_string) as connections:
        diary = Diary(connections.tables.get_table_client("usage"), tally, clock)
        tally.add(RequestKind("account", "queue", "work-00", "PutMessage"), Cause.RETRY, 10_000)
        diary.note()
    said = json.loads(cost("day", "2029-05-01", "--json").stdout)
    assert (said["requests"], said["amount"]) == (10_000, "0.0040000")
    assert said["counts"][0] | {"account": ""} == {
        "account": "",
        "service": "queue",
        "entity": "work-00",
        "operation": "PutMessage",
        "cause": "retry",
        "requests": 10_000,
    }
    assert list(said["noted_at"].values()) == ["2029-05-01T00:00:00+00:00"]
    shown = cost("day", "2029-05-01").stdout
    assert "10,000" in shown
    assert "Counted by 1 processes, until 00:00:00" in shown
    empty = json.loads(cost("day", "2029-05-02", "--json").stdout)
    assert (empty["requests"], empty["noted_at"]) == (0, {})
    assert "No process has noted anything on this day so far" in cost("day", "2029-05-02").stdout


def test_every_command_of_the_pages_runs(stack_settings, billed, tmp_path, monkeypatch):
    """As it stands there, but for the job's name: what is printed to a file is what the next option reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(BUILT_IN.read_text())
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("cost.md", "scaling.md"))
    commands = re.findall(r"(?:^|: )sluice ((?:cost|tune) [^#>\n]*)", pages, re.MULTILINE)
    assert len(commands) >= 9
    for command in commands:
        words = [billed if word == "first" else word for word in command.split()]
        done = CliRunner(env=stack_settings).invoke(app, words)
        assert done.exit_code == 0, (command, done.output)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.0000004", "0.0000004"),
        ("4E-7", "0.0000004"),
        ("0.00012345", "0.000123"),
        ("0", "0"),
        ("0.9996", "1.00"),
        ("12", "12.00"),
    ],
)
def test_an_amount_has_no_exponent(amount, shown):
    """However small it is: a person compares it with others."""
    assert money(Decimal(amount)) == shown


def test_the_bill_of_a_small_job_has_no_exponent(cost, billed):
    """Neither for people nor for programs."""
    for printed in (cost("job", billed).stdout, cost("job", billed, "--json").stdout):
        assert not re.search(r"\de[-+]\d", printed, re.IGNORECASE), printed
