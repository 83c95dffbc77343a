"""`sluice now`: what needs a person, in the words of the console's first page."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from azure.data.tables import TableClient

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger import Job
from shared.watch import KEPT, Act, Need, NeedKind, Point
from tests.console.fillings import park
from tests.parked.test_cause_index import make_entry

AT = datetime(2031, 3, 1, 12, tzinfo=UTC)
NOTICE = Need(NeedKind.LATE, "now-waits", "little time is left before its deadline", AT, is_grave=False)
PAUSED = Need(NeedKind.PAUSED, "now-paused", "30 of 40 chunks \x1b[31mare parked", AT, AT)


@pytest.fixture
def watch(provisioned):
    """The needs that stand, without those of other tests, whose causes are put aside for as long."""
    rows = TableClient.from_connection_string(provisioned.connection_string, "decisions")
    with rows, Connections(provisioned.connection_string) as connections, Stores(connections) as stores:
        causes = list(rows.query_entities("PartitionKey eq 'causes'"))
        for row in causes:
            rows.delete_entity(row["PartitionKey"], row["RowKey"])
        for need in stores.watch.read().needs:
            stores.watch.end(need.kind, need.about, AT)
        # Of apps that other tests let tick.
        stores.watch.remove_old(datetime.now(UTC) + KEPT + timedelta(hours=1))
        yield stores.watch
        for need in (NOTICE, PAUSED):
            stores.watch.end(need.kind, need.about, AT)
        for row in causes:
            rows.upsert_entity(row)


def test_what_is_parked_is_a_notice(sluice, watch, provisioned):
    """A job may be missing for it; the page of causes says what to do."""
    with Connections(provisioned.connection_string) as connections, Stores(connections) as stores:
        park(stores, make_entry(job="now-parked"))
        shown = sluice("now", "--json")
        (need,) = json.loads(shown.stdout)["needs"]
        assert (shown.returncode, need["kind"], need["found"], need["grave"]) == (0, "parked", "1 in 1 cause", False)
        assert "sluice parked" in sluice("now").stdout


def test_a_person_sees_what_needs_one_and_a_script_gets_a_status(sluice, watch):
    """Nothing and a notice are no reason to wake anybody; a grave need ends with 1."""
    nothing = sluice("now")
    assert (nothing.returncode, nothing.stdout) == (0, "nothing needs a person\n")
    watch.begin(NOTICE)
    assert sluice("now").returncode == 0
    watch.begin(PAUSED)
    shown = sluice("now")
    rows = [line.split("\t") for line in shown.stdout.splitlines() if not line.startswith("#")]
    assert shown.returncode == 1
    assert [row[:2] for row in rows] == [
        ["of", "kind"],
        ["now-paused", "job paused"],
        ["now-waits", "job late (notice)"],
    ]
    assert rows[1][3:] == ["2031-03-01 12:00:00", "find the cause, mend it, then resume the job"]
    assert "\x1b" not in shown.stdout


def test_a_person_who_is_done_with_a_job_takes_it_off(sluice, watch, provisioned):
    """Audited. One that does not exist is a mistake."""
    assert sluice("now", "--done", "now-nothing").returncode == 1
    with Connections(provisioned.connection_string) as connections, Stores(connections) as stores:
        stores.ledger.insert(Job(job="now-paused", content_hash="", workload="billing", accepted_at=AT))
        watch.begin(PAUSED)
        left = sluice("now", "--done", "now-paused", "--why", "rerun by hand", "--by", "ann")
        assert (left.returncode, left.stdout) == (0, "nothing needs a person\n")
        acts = stores.audit.newest(f"{datetime.now(UTC):%Y-%m}", 50, about="now-paused")
    assert [(one.act.who, one.act.what, one.act.why, one.act.result) for one in acts] == [
        ("ann", "need done", "rerun by hand", "taken off the list")
    ]


def test_a_program_reads_the_same(sluice, watch):
    """Grave ones first."""
    watch.begin(NOTICE)
    watch.begin(PAUSED)
    found = sluice("now", "--json")
    document = json.loads(found.stdout)
    assert (found.returncode, document["more"]) == (1, [])
    assert [one["about"] for one in document["needs"]] == ["now-paused", "now-waits"]
    assert document["needs"][0] | {"found": ""} == {
        "kind": "job paused",
        "about": "now-paused",
        "found": "",
        "remedy": "find the cause, mend it, then resume the job",
        "grave": True,
        "since": AT.isoformat(),
        "at": AT.isoformat(),
    }


def test_a_person_sees_what_was_then(sluice, watch):
    """The needs, the acts around, and that no tick ran."""
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    watch.record(at - timedelta(minutes=30), Point(second=0, promise=180, depth=400, tasks=7))
    watch.begin(Need(NeedKind.PAUSED, "now-paused", "x", at - timedelta(minutes=10)))
    watch.note_act(Act(at + timedelta(minutes=1), "ann", "gate open", "now-gate", "opened"))
    found = sluice("now", "--at", f"{at:%Y-%m-%dT%H:%M:%SZ}")
    assert found.returncode == 0
    assert f"at {at:%Y-%m-%d %H:%M:%S} UTC\nno tick is recorded from" in found.stdout
    assert "400 messages waited, 7 tasks were allowed" in found.stdout
    assert "now-paused\tjob paused" in found.stdout
    assert sluice("now", "--at", "yesterday").returncode == 2
    assert "nothing is kept" in sluice("now", "--at", "2020-01-01T00:00Z").stdout
    watch.end(NeedKind.PAUSED, "now-paused", at)


def test_a_tick_that_is_silent_is_a_need(sluice, watch):
    """Grave once no tick can still be running."""
    now = datetime.now(UTC)
    watch.record(now - timedelta(minutes=5), Point(second=0, promise=180))
    assert (sluice("now").returncode, "tick silent (notice)" in sluice("now").stdout) == (0, True)
    watch.remove_old(now + KEPT + timedelta(hours=1))
    watch.record(now - timedelta(minutes=40), Point(second=0, promise=180))
    assert sluice("now").returncode == 1
