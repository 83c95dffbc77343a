"""`sluice tune` as a person runs it: a process of its own, against the run's storage."""

import json
from pathlib import Path

import pytest

from shared.concurrency.governor import Governor
from shared.concurrency.trace import Stretch
from tests.concurrency.conftest import NOON

SAMPLE = Path(__file__).resolve().parents[2] / "docs" / "rules.sample.yaml"


@pytest.fixture
def wrong(tmp_path):
    """A file with two mistakes."""
    file = tmp_path / "wrong.yaml"
    file.write_text("version: 1\nrules:\n- {name: a, task: 1}\n- {name: b, tasks: many}\n")
    return file


def test_what_is_decided_is_shown_with_every_term(sluice, fleet):
    """Tasks, terms, the binding one, the governors; for people and for programs."""
    fleet.put(4)
    fleet.table.slow({"storage": Governor().slowed(NOON)})
    fleet.tuning().run()
    shown = sluice("tune", "show").stdout
    assert "one task for 1 of 4 messages" in shown
    assert "50% of the full rate" in shown
    said = json.loads(sluice("tune", "show", "--json").stdout)
    assert said["decision"]["terms"] == {"rule": 4, "governor": 50, "budget": None}
    assert said["governors"] == {"storage": 0.5}


def test_an_installation_that_decided_nothing_says_so(sluice, fleet):
    """Nothing to show is no error."""
    done = sluice("tune", "show")
    assert done.returncode == 0
    assert "nothing was decided yet" in done.stdout
    assert json.loads(sluice("tune", "explain", "--json").stdout) == {"decisions": []}


def test_every_decision_is_explained(sluice, fleet):
    """The newest first, each with its reason."""
    tuning = fleet.tuning()
    tuning.run()
    fleet.put(2)
    fleet.clock.advance(minutes=1)
    tuning.run()
    said = json.loads(sluice("tune", "explain", "--json").stdout)["decisions"]
    assert [one["tasks"] for one in said] == [2, 0]
    assert "the queues are empty" in sluice("tune", "explain").stdout


def test_rules_are_put_and_read_back_as_they_were_written(sluice, fleet):
    """With their comments, and who put them is in the audit."""
    done = sluice("tune", "rules", "put", str(SAMPLE), "--by", "ann", "--why", "a try")
    assert done.returncode == 0, done.stderr
    assert sluice("tune", "rules", "get").stdout == SAMPLE.read_text()
    assert sluice("tune", "rules", "get", "--version", "1").stdout == SAMPLE.read_text()
    audit = fleet.connections.tables.get_table_client("audit").query_entities("what eq 'rules put'")
    assert {(row["who"], row["target"], row["result"]) for row in audit} == {("ann", "version 1", "in force")}


def test_wrong_rules_are_refused_with_their_lines(sluice, fleet, wrong):
    """Checked without an installation, and never put."""
    checked = sluice("tune", "rules", "check", str(wrong), settings={})
    assert checked.returncode == 1
    assert "line 3: a rule has no 'task': did you mean 'tasks'?" in checked.stderr
    assert "line 4" in checked.stderr
    put = sluice("tune", "rules", "put", str(wrong))
    assert (put.returncode, put.stderr.startswith("sluice: line 3")) == (1, True)
    assert sluice("tune", "rules", "get").returncode == 1
    assert sluice("tune", "rules", "check", str(SAMPLE), settings={}).returncode == 0


def test_a_dry_run_needs_no_installation(sluice, recording, tmp_path):
    """On the synthetic day, and on a recorded one."""
    said = json.loads(sluice("tune", "dry-run", str(SAMPLE), "--json", settings={}).stdout)
    assert said["trace"] == "synthetic"
    assert [one["rules"] for one in said["outcomes"]] == ["version 1", "built in"]
    recording.record(Stretch(at=NOON, seconds=60, arrived=30, latency=0.5))
    trace = tmp_path / "trace.ndjson"
    trace.write_text(sluice("tune", "trace", "2026-11-20").stdout)
    said = json.loads(sluice("tune", "dry-run", str(SAMPLE), "--trace", str(trace), "--json", settings={}).stdout)
    assert (said["trace"], said["outcomes"][0]["messages"]) == ("recorded", 30)
    assert "recorded trace, 30 messages" in " ".join(
        sluice("tune", "dry-run", str(SAMPLE), "--trace", str(trace), settings={}).stdout.split()
    )


def test_a_day_without_a_trace_is_a_problem(sluice, fleet, tmp_path):
    """Nothing is replayed that was never recorded."""
    done = sluice("tune", "trace", "2020-01-01")
    assert (done.returncode, "nothing was recorded" in done.stderr) == (1, True)
    assert sluice("tune", "trace", "yesterday").returncode == 2
    empty = tmp_path / "empty.ndjson"
    empty.write_text('{"trace":1}\n')
    assert "nothing arrives" in sluice("tune", "dry-run", str(SAMPLE), "--trace", str(empty), settings={}).stderr


def test_a_capacity_plan_is_a_table(sluice):
    """Tasks, instances, rates, price for a volume."""
    rows = json.loads(sluice("tune", "capacity", "--transactions", "10000000", "--json", settings={}).stdout)["plans"]
    assert [one["tasks"] for one in rows] == [4, 8, 16, 32, 64, 128, 256]
    assert "10,000,000 transactions in an hour" in sluice("tune", "capacity", settings={}).stdout.replace("\n", " ")
