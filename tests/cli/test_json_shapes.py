"""The JSON of the commands is the one that docs/appendix/json.md names: a program may rely on each key."""

import json
import re
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from capabilities.registration.public_messages import PlaceOrder
from shared.app import Stores
from shared.azure.connections import Connections
from shared.concurrency import FeedRow
from shared.errors import RefusedError
from shared.ledger.records import Job, JobState, PlanBlob, Portion, Totals
from shared.messages import Delivery
from shared.operating.replay import ReplayPace, Selection
from shared.parked.entry import ACCEPT, chunk_key, job_note
from shared.publish import Publisher
from shared.watch import KEPT, Need, NeedKind, Point
from shared.workloads import Line, Rejected
from tests.faults.sales import PERMANENT, LinedSales
from tests.faults.world import SMALL, sales
from tests.pipeline.whole_app import running_app
from tests.registration.conftest import installation
from tests.registration.world import GATE
from tools.cli.main import app
from tools.local.paths import ROOT

#: Their keys are data: names of fields, of meters, of processes.
FREE = {
    "counts",
    "sums",
    "declared",
    "requests",
    "noted_at",
    "details",
    "receipts",
    "first_chunks",
    "stragglers",
    "timetable",
    "environment",
}
FREE |= {"amounts", "total_before", "total_now"}
FREE |= {"requested", "reserved", "wanted", "granted", "types", "body", "row"}
OF_REGISTRATION = {"orders", "conferences", "processes", "seats", "migrate"}
ROW = re.compile(r"^\| `sluice ([^`]+)` \| (.+) \|$", re.MULTILINE)


def keys_of(value, path=""):
    """Yield the path of every key."""
    if path.rpartition(".")[2] in FREE:
        yield path
    elif isinstance(value, list):
        # An empty list shows nothing of its rows.
        yield from {found for one in value for found in keys_of(one, f"{path}[]")} or {f"{path}[]"}
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from keys_of(inner, f"{path}.{name}" if path else name)
    else:
        yield path


@pytest.fixture(scope="module")
def names(provisioned_settings):
    """One of everything that a command may show, and how it is called."""
    stamp = time.monotonic_ns()
    done, open_, refused = f"json-done-{stamp}", f"json-open-{stamp}", f"json-refused-{stamp}"
    now = datetime.now(UTC)
    known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": now, "items": 10, "chunks": 2}
    with Connections.parse(provisioned_settings) as connections, Stores(connections) as stores:
        totals = Totals(accepted=Portion(10, {"quantity": Decimal("1.5")}))
        plan = PlanBlob(f"{done}/plan", "e")
        ended = Job(job=done, state=JobState.COMPLETE, done=2, totals=totals, finished_at=now, plan=plan, **known)
        stores.ledger.insert(ended.add_requests({"table useful": 15}))
        stores.ledger.insert(Job(job=open_, state=JobState.RUNNING, started_at=now, night=f"json-{stamp}", **known))
        stores.attempts.note_failure(job_note(open_, chunk_key(1, 1)), 2, ValueError())
        body = json.dumps({"sluice": {"job": refused, "items": []}}).encode()
        delivery = Delivery(queue="submissions", message_id="m", body=body, count=1)
        # A cause of its own: what other tests parked is not discarded.
        entry = stores.parking.park(ACCEPT, delivery, RefusedError(f"reason-{stamp}", "found", "instead"))
        operator = stores.build_parked_operator(time.sleep)
        asked = operator.ask_replay(Selection(fingerprint=entry.fingerprint), ReplayPace(), by="ann")
        operator.run.step(operator.stop_replay(asked.id, by="ann"))
        # That of a dead feeder, which hinders no other test.
        stores.fleet.note_feed(FeedRow(until=now, since=now, by="json", jobs={"": 1}, waiting={"": 2}))
        need = Need(NeedKind.LATE, open_, "its deadline has passed", now - timedelta(minutes=30), now)
        stores.watch.begin(need)
        # A tick, and twenty minutes without one.
        for minutes, point in ((40, Point(second=0, promise=180, depth=1)), (20, Point(second=0, promise=1020))):
            stores.watch.record(now - timedelta(minutes=minutes), point)
    for words in (["ids", "next", f"json-{stamp}"], ["gate", "open", f"json-{stamp}", "--yes"]):
        assert CliRunner().invoke(app, words, env=provisioned_settings).exit_code == 0
    yield {
        "DONE": done,
        "OPEN": open_,
        "REFUSED": refused,
        "KEY": entry.key,
        "REPLAY": asked.id,
        "FINGERPRINT": entry.fingerprint,
        "SEQUENCE": f"json-{stamp}",
        "GATE": f"json-{stamp}",
        "MOMENT": f"{now - timedelta(minutes=25):%Y-%m-%dT%H:%MZ}",
        "NIGHT": f"json-{stamp}",
    }
    with Connections.parse(provisioned_settings) as connections, Stores(connections) as stores:
        stores.fleet.forget_feed()
        stores.watch.end(need.kind, need.about, now)
        stores.watch.remove_old(now + KEPT + timedelta(hours=2))


@pytest.fixture(scope="module")
def registration():
    """The settings of an installation with an order."""
    with installation() as world:
        world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": 100}})
        world.pump()
        world.verbs.orders.place(PlaceOrder(order="order-1", conference="c1", seats={"a": 1}))
        world.verbs.orders.place(PlaceOrder(order="order-2", conference="c1", seats={"a": 1}, gate=GATE))
        world.release(GATE)
        world.pump()
        yield world.environ


class Others(LinedSales):
    """Differs from the one that a job was run with in each way that a dry run finds."""

    def map(self, sale, number):
        """Reject shop d, raise for c, take a euro more of b."""
        if sale.shop == "c":
            raise ValueError("no c")
        found = super().map(sale, number)
        if sale.shop == "d":
            return Rejected("no_d")
        return replace(found, amount=found.amount + 1) if sale.shop == "b" else found

    def lines(self, sale, number, sold):
        """Yield the amount too."""
        yield Line({"number": number, "amount": str(sold.amount)})


@pytest.fixture(scope="module")
def finished(provisioned_settings):
    """The settings of an installation with a job that has ended, and whose workload has changed since."""
    workload = LinedSales()
    workload.breaks_at["p"] = PERMANENT
    with running_app(workload=workload) as app:
        queue = app.others.queues.get_queue_client("submissions")
        payloads = app.others.blobs.get_container_client("payloads")
        Publisher(queue, payloads, limits=SMALL).submit(
            job="finished", transactions=sales(*"abcadapaaa"), workload="sales"
        )
        Publisher(queue, payloads, limits=SMALL).submit(job="again", transactions=sales(*"aapb"), workload="sales")
        app.work_off()
        workload.breaks_at.clear()
        app.stores.job_operator.rerun("again", by="ann", why="mended")
        app.app.stages.starter.go_on("again")
        app.work_off()
        yield {**provisioned_settings, "SluiceStorage": app.storage, "SLUICE_WORKLOADS": f"{__name__}:Others"}


@pytest.fixture(scope="module")
def provisioned_settings(stack_settings):
    """The settings of the run's stack."""
    return stack_settings


@pytest.fixture(scope="module")
def by_login():
    """The settings of an installation in Azure: a publisher has no key."""
    empty = dict.fromkeys(("SluiceStorage", "SluiceBus"), "")
    return {
        **empty,
        "SluiceStorage__accountName": "a",
        "SluiceBus__fullyQualifiedNamespace": "b.servicebus.windows.net",
    }


def documented():
    """Return each command of the page with its keys, in the order of the page."""
    page, found = (ROOT / "docs" / "appendix" / "json.md").read_text(), {}
    for command, keys in ROW.findall(page):
        found.setdefault(command, []).extend(re.findall(r"`([^`]+)`", keys))
    return list(found.items())


@pytest.mark.parametrize(("command", "keys"), documented(), ids=[command for command, _ in documented()])
def test_a_command_prints_the_keys_of_the_page(command, keys, names, request, tmp_path):
    """No key more, none less: one that is renamed or dropped breaks a program."""
    file = tmp_path / "usage.ndjson"
    file.write_text('{"account": "a", "plan": "basic", "quantity": "1"}\n')
    files = {"FILE": str(file), "SEED": str(tmp_path / "random.seed")}
    words = [files.get(word) or names.get(word, word) for word in command.split()]
    whose = {"publisher-env": "by_login", **dict.fromkeys(OF_REGISTRATION, "registration")}.get(words[0])
    whose = "finished" if {"rerun", "diff"} & set(words) else whose
    ran = CliRunner().invoke(app, [*words, "--json"], env=request.getfixturevalue(whose or "provisioned_settings"))
    document = json.loads(ran.stdout)
    # What is null on the page may be an object here: another test has planned an opening.
    found = {next((key for key in keys if one.startswith(f"{key}.")), one) for one in keys_of(document)}
    assert sorted(found) == sorted(keys)
