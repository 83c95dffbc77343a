"""A person, a browser, `sluice web` as a process, and the whole app at work behind it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared.app import Stores
from shared.azure import Connections
from shared.concurrency import parse
from shared.ledger import JobState
from shared.publish import Publisher
from tests.e2e.test_pipeline import usages
from tests.waiting import LIMIT, until
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

#: A whole stack starts for them, and each waits for several things.
SLUICE = Path(sys.executable).parent / "sluice"
#: The failed delivery of a chunk comes back within a second, so that no test waits two minutes for it.
SETTINGS = {
    "SLUICE_WORKLOADS": "shared.workloads.billing:Billing,tests.browser.mendable:Mendable",
    "SLUICE_CHUNK_ITEMS": "1",
    "SLUICE_DEQUEUE": "trigger",
    "PYTHONPATH": str(ROOT),
    "AzureFunctionsJobHost__extensions__queues__visibilityTimeout": "00:00:01",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.5",
}


class Web:
    """`sluice web`, as a person runs it in a terminal."""

    def __init__(self, process):
        self._process = process
        self._read()

    def issue(self):
        """Press Enter, and return the address that is printed: the one before is good no more."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self):
        return next(line.strip() for line in self._process.stdout if line.startswith("http://127.0.0.1:"))


@pytest.fixture(scope="module")
def served(browser, tmp_path_factory):
    """The local stack with its console, a publisher, and a workload that is mended when a file is there."""
    mended = tmp_path_factory.mktemp("deployed") / "mended"
    with (
        running(StackOptions(instances=1, settings=SETTINGS | {"MENDED": str(mended)})) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        environment = {"PATH": os.environ["PATH"], "HOME": str(mended.parent), "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([SLUICE, "web"], env=environment | stack.settings, **pipes) as process:
            queue = connections.queues.get_queue_client("submissions")
            publisher = Publisher(queue, connections.blobs.get_container_client("payloads"))
            yield SimpleNamespace(login=Web(process), stores=Stores(connections), publisher=publisher, mended=mended)
            process.terminate()
            process.communicate()


class Person:
    """Reads a page, follows its links, and fills in its forms."""

    def __init__(self, console):
        self.page, self.root, self.reports = console.page, console.root, console.reports

    def go(self, path):
        """Type an address below the console's own."""
        assert self.page.goto(self.root + path).status == 200

    def wait_for(self, words):
        """Wait until the page shows these words, by looking again as it does of itself."""
        self.page.get_by_text(re.compile(words)).first.wait_for(timeout=LIMIT * 1000)

    def send(self, button, why):
        """Give a reason in the form with this button, and press it."""
        form = self.page.locator("form.act", has_text=button)
        form.evaluate("form => { const box = form.closest('details'); if (box) box.open = true; }")
        form.get_by_label("Why?").fill(why)
        with self.page.expect_navigation():
            form.get_by_role("button").click()


@pytest.fixture
def person(open_console):
    """An operator in front of the first page. No page of a test may report anything to the policy."""
    console = open_console()
    yield Person(console)
    assert console.reports == []


def test_a_job_is_held_and_released_and_ends(served, person):
    """The gate's page shows what waits, opens it, and the job's page is read until it is complete."""
    served.publisher.submit(job="sale-1", transactions=usages(30), gate="on-sale", sums=["quantity"])
    person.go("/gates")
    person.wait_for("on-sale")
    until(lambda: served.stores.held.summary("on-sale").count)
    person.page.get_by_role("link", name="on-sale").click()
    person.wait_for("This starts the 1 entries")
    person.send("Open on-sale", "the doors open at noon")
    person.wait_for("the doors open at noon")
    person.go("/job/sale-1")
    person.wait_for("^complete$")
    job = served.stores.ledger.read("sale-1")
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 30)


def test_a_fault_is_found_mended_and_replayed_in_waves_that_are_stopped_once(served, person):
    """From the first page on: the cause, its place, a replay that is stopped, another that ends the job."""
    parcels = [{"town": "Oz" if number % 4 == 0 else "Ulm"} for number in range(48)]
    served.publisher.submit(job="parcels-1", transactions=parcels, workload="mendable")
    until(lambda: len(list(served.stores.parked_table.entries())) == 12)
    person.go("/")
    person.page.get_by_role("link", name="parked", exact=True).click()
    person.page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).click()
    person.wait_for("KeyError")
    person.wait_for("mendable.py")
    served.mended.touch()
    person.send("Replay them", "the rate is there now")
    person.wait_for(r"of 12 sent, in [1-9]")
    person.send("Stop this replay", "one wave to look at first")
    person.wait_for("stopped by .*: ")
    assert 1 <= 12 - len(list(served.stores.parked_table.entries())) < 12
    person.go("/parked")
    person.page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).click()
    person.send("Replay them", "it was fine")
    until(lambda: not list(served.stores.parked_table.entries()))
    person.go("/job/parcels-1")
    if served.stores.ledger.read("parcels-1").state is JobState.PAUSED:
        person.send("Resume parcels-1", "mended")
    person.wait_for("^complete$")
    job = served.stores.ledger.read("parcels-1")
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 48)


def test_rules_are_put_after_a_dry_run(served, person):
    """Their fault is marked; mended, both plots are drawn; then they are in force."""
    person.go("/rules")
    text = person.page.get_by_label("Rules").last
    good = text.input_value()
    text.fill(good.replace("tasks: 100", "tasks: lots"))
    person.page.get_by_role("button", name="Dry run").click()
    person.wait_for("`tasks` is 'lots', expected a whole number")
    # The browser's own note of the status 400.
    assert person.reports.pop().startswith("Failed to load resource")
    person.page.get_by_label("Rules").last.fill(good.replace("tasks: 100", "tasks: 60"))
    person.page.get_by_role("button", name="Dry run").click()
    person.wait_for("messages of a synthetic day")
    assert person.page.locator(".plot canvas").count() == 2
    person.send("Put version 1 in force", "the partner allows sixty")
    person.wait_for("tasks: 60")
    rules = parse(served.stores.rules.text())
    assert (rules.version, rules.rules[-1].target.tasks) == (1, 60)
    person.go("/audit")
    person.wait_for("the partner allows sixty")
