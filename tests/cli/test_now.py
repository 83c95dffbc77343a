"""`sluice now`: what needs a person, in the words of the console's first page."""

import json
from datetime import UTC, datetime

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger import Job
from shared.watch import Need, NeedKind

AT = datetime(2031, 3, 1, 12, tzinfo=UTC)
NOTICE = Need(NeedKind.LATE, "now-waits", "little time is left before its deadline", AT, is_grave=False)
PAUSED = Need(NeedKind.PAUSED, "now-paused", "30 of 40 chunks \x1b[31mare parked", AT, AT)


@pytest.fixture
def watch(provisioned):
    """The needs that stand, without those of other tests."""
    with Connections(provisioned.connection_string) as connections, Stores(connections) as stores:
        for need in stores.watch.read().needs:
            stores.watch.end(need.kind, need.about, AT)
        yield stores.watch
        for need in (NOTICE, PAUSED):
            stores.watch.end(need.kind, need.about, AT)


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
        ["job", "kind"],
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
