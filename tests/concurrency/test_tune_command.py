"""`sluice tune` as `main` runs it, against the run's storage."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.pushback import Governor
from shared.concurrency import FeedRow, parse
from shared.concurrency.fleet import FleetChange, Resting, RulesInForce, Worker
from shared.errors import RulesRefusedError, SettingsError, SluiceError, TraceRefusedError
from shared.operating.audit import acts_of
from shared.watch import Point
from tests.concurrency.conftest import NOON
from tools.cli.main import app
from tools.local.paths import ROOT
from tools.planning.capacity import STEPS

SAMPLE = ROOT / "docs" / "rules.sample.yaml"


@pytest.fixture
def tune(stack_settings):
    """Run the command in this process; what `main` makes one line of is raised."""

    def run(*arguments, settings=None):
        environment = (stack_settings if settings is None else settings) | {"COLUMNS": "250"}
        done = CliRunner().invoke(app, ["tune", *arguments], env=environment)
        if isinstance(done.exception, SluiceError):
            raise done.exception
        return done

    return run


@pytest.fixture
def wrong(tmp_path):
    """A file with two mistakes."""
    file = tmp_path / "wrong.yaml"
    file.write_text("version: 1\nrules:\n- {name: a, task: 1}\n- {name: b, tasks: many}\n")
    return file


def test_what_is_decided_is_shown_with_every_term(tune, fleet):
    """Tasks, terms, the binding one, the governors; for people and for programs."""
    fleet.put(4)
    fleet.table.report_slow({"storage": Governor().slow(NOON)})
    fleet.tuning().run()
    shown = tune("show").stdout
    assert "rule 'little': 10 tasks" in shown
    assert "50% of the full rate" in shown
    assert "4 messages" in shown
    said = json.loads(tune("show", "--json").stdout)
    assert said["decision"]["terms"] == {"rule": 10, "governor": 50, "budget": None}
    assert said["governors"] == {"storage": 0.5}


def test_an_installation_that_decided_nothing_says_so(tune, fleet):
    """Nothing to show is no error."""
    done = tune("show")
    assert done.exit_code == 0
    assert "nothing was decided yet" in done.stdout
    assert json.loads(tune("explain", "--json").stdout) == {"decisions": []}


def test_every_decision_is_explained(tune, fleet):
    """The newest first, each with its reason."""
    tuning = fleet.tuning()
    tuning.run()
    fleet.put(2)
    fleet.clock.advance(minutes=1)
    tuning.run()
    said = json.loads(tune("explain", "--json").stdout)["decisions"]
    assert [one["tasks"] for one in said] == [10, 0]
    assert "the queues are empty" in tune("explain").stdout


def test_rules_are_put_and_read_back_as_they_were_written(tune, fleet):
    """With their comments, and who put them is in the audit."""
    done = tune("rules", "put", str(SAMPLE), "--by", "ann", "--why", "a try")
    assert done.exit_code == 0, done.stderr
    assert tune("rules", "get").stdout == SAMPLE.read_text()
    assert tune("rules", "get", "--version", "1").stdout == SAMPLE.read_text()
    audit = fleet.connections.tables.get_table_client("audit").query_entities("what eq 'rules put'")
    acts = [one.act for one in acts_of(audit)]
    assert {(act.who, act.target, act.result) for act in acts} == {("ann", "version 1", "in force")}


def test_wrong_rules_are_refused_with_their_lines(tune, fleet, wrong):
    """Checked without an installation, and never put."""
    checked = tune("rules", "check", str(wrong), settings={})
    assert checked.exit_code == 1
    assert "line 3: a rule has no 'task': did you mean 'tasks'?" in checked.stderr
    assert "line 4" in checked.stderr
    with pytest.raises(RulesRefusedError, match="line 3"):
        tune("rules", "put", str(wrong))
    assert tune("rules", "get").exit_code == 1
    assert tune("rules", "check", str(SAMPLE), settings={}).exit_code == 0


def test_rooms_of_shares_are_those_of_the_settings(tune, fleet, stack_settings, tmp_path):
    """An unknown one is refused by both commands; without rooms in the settings the names are not checked."""
    file, rooms = tmp_path / "shares.yaml", {"SLUICE_ROOMS": "alpha,beta"}
    file.write_text("version: 1\nrules:\n- {name: a, tasks: 1}\nshares:\n  rooms:\n    alhpa: {weight: 3}\n")
    wrong = "line 6: `rooms` has no 'alhpa': did you mean 'alpha'?"
    checked = tune("rules", "check", str(file), settings=rooms)
    assert (checked.exit_code, wrong in checked.stderr) == (1, True)
    with pytest.raises(RulesRefusedError, match="did you mean 'alpha'"):
        tune("rules", "put", str(file), settings=stack_settings | rooms)
    checked = tune("rules", "check", str(file), settings={})
    assert (checked.exit_code, "were not checked" in checked.stdout) == (0, True)
    assert "1 rules and the shares of 1 room, nothing is wrong" in checked.stdout
    many = {"SLUICE_ROOMS": ",".join(f"r{number}" for number in range(201))}
    found = tune("rules", "check", str(file), settings=many).exception
    assert isinstance(found, SettingsError)
    assert str(found) == "SLUICE_ROOMS names 201 rooms, expected at most 200"


SHARES = """version: 1
rules:
- {name: a, tasks: 1}
shares:
  rooms:
    alpha: {weight: 3}
    beta: {most: 40}
    gamma: {}
"""


def test_rules_with_shares_warn_while_a_process_of_before_works(tune, fleet, tmp_path):
    """It refuses them. Rules without shares, or a fleet of today, say nothing."""
    file, now = tmp_path / "shares.yaml", datetime.now(UTC)
    file.write_text(SHARES)
    assert "note" not in tune("rules", "put", str(file), "--by", "ann").stderr
    old = Worker(name="old", at=now, started_at=now, in_flight=1, done=3, busy=1.5)
    for one in (
        old,
        replace(old, name="new", version="0.4.0"),
        replace(old, name="gone", at=now - timedelta(minutes=1)),
    ):
        fleet.table.report(one)
    file.write_text(SHARES.replace("version: 1", "version: 2"))
    assert (
        "processes of before 0.4.0 work now (1), and refuse `shares`"
        in tune("rules", "put", str(file), "--by", "ann").stderr
    )
    file.write_text(SAMPLE.read_text().replace("version: 1", "version: 3"))
    assert "note" not in tune("rules", "put", str(file), "--by", "ann").stderr


def test_shares_are_shown_with_what_waits_and_what_was_served(tune, fleet):
    """By room; a room that is at rest has no part, and the feeder says how much it keeps on the queues."""
    assert "feeder: none" in tune("shares").stdout
    now = datetime.now(UTC)
    assert fleet.table.commit(fleet.table.read(), FleetChange(in_force=RulesInForce(parse(SHARES), SHARES, "e")))
    assert [line.split() for line in tune("shares").stdout.splitlines() if line.startswith("alpha")] == [
        ["alpha", "3", "0", "0"]
    ]
    resting = {"beta": Resting(9, now + timedelta(seconds=30))}
    fleet.table.report(
        Worker(name="w", at=now, started_at=now, in_flight=1, done=2, busy=2.0, resting=resting, version="0.4.0")
    )
    row = FeedRow(
        until=now + timedelta(minutes=1), since=NOON, by="4f2c9999-1", waiting={"alpha": 9_600, "": 31}, window=72,
        jobs={"alpha": 12, "": 1}, served={"alpha": 74.0, "beta": 26.0}, depth=60,
    )  # fmt: skip
    fleet.table.note_feed(row)
    said = json.loads(tune("shares", "--json").stdout)
    assert said["urgent"] == 0.25
    assert {one["room"]: (one["share"], one["served"]) for one in said["rooms"]} == {
        "": (0.25, 0.0),
        "alpha": (0.75, 0.74),
        "beta": (None, 0.26),
        "gamma": (None, 0.0),
    }
    assert said["rooms"][1] | {"weight": 3, "most": None, "jobs": 12, "chunks": 9_600} == said["rooms"][1]
    assert (said["rooms"][2]["most"], said["feeder"]["resting"], said["feeder"]["window"]) == (40, 9, 72)
    shown = tune("shares").stdout
    assert "alpha\t3\t\t12\t9,600\t75%\t74% (74 s of work)" in shown
    assert "(common)" in shown
    assert (
        "feeder: process 4f2c9999, since 12:00:00 UTC; window 72 chunks (0 tasks, 1.0 s a chunk); 60 on the queues, "
        "9 of them wait after a failure"
    ) in shown
    fleet.table.note_feed(replace(row, until=now))
    assert "another one takes over" in tune("shares").stdout


def record(fleet):
    """Leave what a tick saw of a minute."""
    seen = Point(second=0, promise=180, seconds=60, arrived=30, latency=0.5)
    Stores(fleet.connections).watch.record(NOON + timedelta(minutes=1), seen)


def test_a_dry_run_needs_no_installation(tune, fleet, tmp_path):
    """On the synthetic day, and on a recorded one."""
    said = json.loads(tune("dry-run", str(SAMPLE), "--json", settings={}).stdout)
    assert said["trace"] == "synthetic"
    assert [one["rules"] for one in said["outcomes"]] == ["version 1", "built in"]
    record(fleet)
    trace = tmp_path / "trace.ndjson"
    trace.write_text(tune("trace", "2026-11-20").stdout)
    said = json.loads(tune("dry-run", str(SAMPLE), "--trace", str(trace), "--json", settings={}).stdout)
    assert (said["trace"], said["outcomes"][0]["messages"]) == ("recorded", 30)
    assert "recorded trace, 30 messages" in " ".join(
        tune("dry-run", str(SAMPLE), "--trace", str(trace), settings={}).stdout.split()
    )


def test_a_day_without_a_trace_is_a_problem(tune, fleet, tmp_path):
    """Nothing is replayed that was never recorded."""
    done = tune("trace", "2020-01-01")
    assert (done.exit_code, "nothing was recorded" in done.stderr) == (1, True)
    assert tune("trace", "yesterday").exit_code == 2
    empty = tmp_path / "empty.ndjson"
    empty.write_text('{"trace":1}\n')
    with pytest.raises(TraceRefusedError, match="nothing arrives"):
        tune("dry-run", str(SAMPLE), "--trace", str(empty), settings={})


def test_a_capacity_estimate_is_three_tables_or_json(tune):
    """Time by instances, ceilings, and the rest; without an installation."""
    said = json.loads(tune("capacity", "--transactions", "100000000", "--json", settings={}).stdout)
    assert (said["jobs"], said["chunk_items"], said["chunks"]) == (1, 8_000, 12_500)
    assert [one["instances"] for one in said["plans"]] == list(STEPS)
    assert said["plans"][0]["seconds"] == pytest.approx(sum(said["plans"][0]["stages"].values()), abs=0.01)
    assert [one["rate"] for one in said["ceilings"]] == sorted(one["rate"] for one in said["ceilings"])
    shown = tune("capacity", "--accounts", "1", "--instances", "7", "--instances", "1", settings={}).stdout
    for part in (
        "10,000,000 transactions at once",
        "processor of each instance",
        "bus, tier Standard",
        "longest tick",
        "finish",
    ):
        assert part in shown


def test_a_capacity_estimate_takes_the_measured_speed_of_a_workload(tune, fleet):
    """As the finisher of a large job noted it; without a note there is nothing to take."""
    done = tune("capacity", "--workload", "billing")
    assert (done.exit_code, "no measured speed" in done.stderr) == (1, True)
    speeds = Stores(fleet.connections).speeds
    speeds.store("billing").try_write(b'{"milliseconds":600000,"items":100000,"v":1}', None)
    said = json.loads(tune("capacity", "--workload", "billing", "--json").stdout)
    assert said["chunk_items"] == 2_000
    assert said == json.loads(tune("capacity", "--wall-ms", "6", "--json").stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--transactions", "0"), "--transactions"),
        (("--transactions", "-5"), "--transactions"),
        (("--transactions", "1000000000000000"), "--transactions"),
        (("--transactions", "many"), "--transactions"),
        (("--transactions", "300000000", "--jobs", "2"), "give 3 jobs or more"),
        (("--transactions", "5", "--jobs", "6"), "6 jobs cannot share 5 transactions"),
        (("--chunk", "0"), "--chunk"),
        (("--chunk", "100001"), "--chunk"),
        (("--accounts", "0"), "--accounts"),
        (("--cpu-us", "0"), "--cpu-us"),
        (("--wall-ms", "0"), "--wall-ms"),
        (("--tasks", "0"), "--tasks"),
        (("--tasks", "2001"), "--tasks"),
        (("--queues", "101"), "--queues"),
        (("--instances", "0"), "--instances"),
        (("--instances", "1001"), "--instances"),
        (("--limit", "0"), "--limit"),
        (("--round-trip-ms", "-1"), "--round-trip-ms"),
        (("--workload", "billing", "--wall-ms", "3"), "one of --workload and --wall-ms"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused_with_its_bound(tune, words, said):
    """By its name; nothing is estimated."""
    done = tune("capacity", *words, settings={})
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_every_command_of_the_page_runs(tune, fleet, monkeypatch):
    """As it stands there: after a day that was recorded."""
    monkeypatch.chdir(ROOT)
    record(fleet)
    page = (ROOT / "docs" / "concurrency.md").read_text()
    commands = re.findall(r"^sluice tune (.+?)(?:  .*)?$", page, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        done = tune(*command.split())
        assert done.exit_code == 0, (command, done.output)
