"""From "a job is late" to the mended replay, by a person who knows nothing but the pages, and by the same in commands."""

import json
import re
from datetime import timedelta
from html import unescape
from threading import Event, Thread

import pytest
from typer.testing import CliRunner

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from capabilities.console.snapshot import Snapshot
from capabilities.console.visit import View
from shared.ledger import JobState
from shared.messages import Delivery
from shared.parked.poison_policy import DEFAULT_POLICY
from shared.publish import Publisher
from shared.usage import load
from tests.console.conftest import HOST, PORT, Visitor
from tests.console.test_acts import ORIGIN
from tests.faults.sales import Sales
from tests.faults.world import NOON, SMALL, sales
from tests.pipeline.whole_app import WholeApp
from tools.cli.main import app as command

STEPS = 5


class House(WholeApp):
    """The whole app, whose workload has a fault until somebody deploys a mended one."""

    def __init__(self, connection_string):
        self.workload = Sales()
        super().__init__(connection_string, workload=self.workload)
        self.workload.breaks_at = {"b": ZeroDivisionError}
        #: The first chunk waits while this is on: other work is before it.
        self.is_busy = True

    def submit_late(self, job):
        """Drop a job whose deadline is over before it ends, with one bad transaction in its last chunk."""
        payloads = self.others.blobs.get_container_client("payloads")
        publisher = Publisher(self._queue("submissions"), payloads, limits=SMALL)
        publisher.submit(
            job=job,
            transactions=sales(*"aaaab"),
            workload="sales",
            sums=["amount"],
            deadline=NOON + timedelta(minutes=1),
        )
        self.work_off()
        self.clock.advance(minutes=5)
        self.app.tick()

    def deliver(self, *names):
        """As the host does, with a message that fails at its last delivery."""
        came = [
            (name, one)
            for name in names or self.handlers
            for one in self._queue(name).receive_messages(max_messages=32, messages_per_page=32)
        ]
        waiting = [name == "work-00" and self.is_busy and '"chunk":0,' in one.content for name, one in came]
        for (name, one), waits in zip(came, waiting, strict=True):
            if waits:
                self._queue(name).update_message(one, visibility_timeout=0)
        found = [each for each, waits in zip(came, waiting, strict=True) if not waits]
        for name, one in found:
            count = DEFAULT_POLICY.deliveries if name == "work-00" and self.workload.breaks_at else 1
            self.handlers[name](Delivery(queue=name, message_id=one.id, body=one.content.encode(), count=count))
            self._queue(name).delete_message(one)
        return found


@pytest.fixture
def house(own_azurite):
    """A late job with a parked chunk, and nobody who looks after it."""
    made = House(own_azurite.connection_string)
    with made.metered, made.others:
        yield made


class Person:
    """Follows links and fills in forms of the page before her, and counts both."""

    def __init__(self, house):
        snapshot = Snapshot(house.stores, work_queues=1, rooms=())
        self.started = []
        view = View(
            stores=house.stores,
            snapshot=snapshot,
            clock=house.clock,
            prices=load(),
            step_replay=self.started.append,
        )
        login = LocalLogin(PORT, "dana", may_act=True, monotonic=lambda: house.clock.now().timestamp())
        self.visitor, self.steps = Visitor(login, Application(view, login)), 0
        self.page = self.visitor.get("/").text

    def follow(self, words):
        """Follow the link whose text or row says so."""
        links = re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', self.page, re.DOTALL)
        [address, *_] = [unescape(to) for to, text in links if re.search(words, re.sub(r"<[^>]+>", "", text))]
        self._open(self.visitor.client.get(address, headers={"Host": HOST}))

    def send(self, button, why):
        """Fill in a form and send it, as a browser does."""
        [form] = [one for one in re.findall(r"<form class=\"act\".*?</form>", self.page, re.DOTALL) if button in one]
        fields = {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
        sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
        reply = self.visitor.client.post(
            re.search(r'action="([^"]*)"', form)[1], data=fields | {"why": why}, headers=sent
        )
        assert reply.status_code == 303, reply.text
        self._open(self.visitor.client.get(reply.headers["Location"], headers={"Host": HOST}))

    def _open(self, reply):
        assert reply.status_code == 200, reply.text
        self.steps, self.page = self.steps + 1, reply.text


def is_right(job):
    """Check that every transaction counts once: five sales, 15.50 in all."""
    totals = job.totals
    return (job.state, totals.accepted.items, str(totals.accepted.sums["amount"])) == (JobState.COMPLETE, 5, "15.50")


def test_by_the_pages_alone(house):
    """Now says that a job is late; four links and one form later it is complete."""
    house.submit_late("late-pages")
    person = Person(house)
    person.follow("job late")
    assert "late-pages" in person.page
    assert "missed" in person.page
    person.follow("1 of them parked|parked")
    person.follow("^[0-9a-f]{12}$")
    # The page of the cause says where it failed, and what to do: the mended workload is deployed.
    assert "ZeroDivisionError" in person.page
    assert "sales.py" in person.page
    house.workload.breaks_at, house.is_busy = {}, False
    person.send("Replay them", "the rate is there now")
    operator = house.stores.build_parked_operator(lambda _seconds: (house.work_off(), house.clock.advance(seconds=1)))
    [replay] = person.started
    list(operator.follow(house.stores.replays.get(replay)))
    house.work_off()
    person.follow("Parked")
    assert "late-pages" not in person.page
    assert person.steps <= STEPS
    assert is_right(house.read("late-pages"))


def test_by_commands(house, own_azurite, monkeypatch):
    """The same in five commands, while the app works beside them."""
    house.submit_late("late-commands")
    monkeypatch.setenv("COLUMNS", "200")
    settings = {"SluiceStorage": own_azurite.connection_string, "SluiceBus": ""}

    def run(*words):
        return CliRunner().invoke(command, [*words], env=settings)

    assert re.search(r"late-commands\t.*missed", run("jobs", "list").stdout)
    shown = run("jobs", "show", "late-commands").stdout
    assert "sluice parked list --job late-commands" in shown
    groups = json.loads(run("parked", "list", "--job", "late-commands", "--json").stdout)["groups"]
    [cause] = [group["fingerprint"] for group in groups]
    house.workload.breaks_at, house.is_busy = {}, False
    over = Event()

    def work():
        while not over.wait(0.05):
            house.work_off()

    worker = Thread(target=work)
    worker.start()
    try:
        replayed = run("parked", "replay", cause, "--job", "late-commands", "--why", "mended", "--yes")
        assert replayed.exit_code == 0, replayed.stdout + replayed.stderr
        watched = run("jobs", "watch", "late-commands", "--timeout", "30")
    finally:
        over.set()
        worker.join()
    assert watched.exit_code == 0, watched.stdout
    assert is_right(house.read("late-commands"))
