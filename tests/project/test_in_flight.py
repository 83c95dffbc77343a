"""A person's project of 0.2.0 that is killed at work and upgraded: its jobs and orders go on, with the settings of before."""

import json
import os
import signal

import pytest
from azure.servicebus import ServiceBusMessage
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.publish import Publisher
from tests.outside.customer import Customer
from tests.project.kit import persons_project
from tests.waiting import until
from tools.cli.main import app
from tools.local.stack import StackOptions, running, start_host

JOBS, LINES = 20, 3000
UNITS = sum(number % 7 for number in range(LINES))
#: As an installation of 0.2.0 has them, and what its person sets beside before the upgrade.
SETTINGS = {
    "SLUICE_WORKLOADS": "shared.workloads.billing:Billing,sales:Sales",
    "SLUICE_ROOMS": "team-a",
    "SLUICE_REGISTRATION": "on",
    "SLUICE_CAPABILITIES": "registration",
    "SLUICE_CHUNK_ITEMS": "200",
}
CODE = "a-code-of-the-customer-5c0ffee"


def submit(connections, job, room="", gate=None):
    """Publish a job of sales."""
    with Publisher.connect(connections, room) as publisher:
        sales = [{"units": number % 7} for number in range(LINES)]
        publisher.submit(job=job, workload="sales", transactions=sales, sums=("units",), gate=gate)


def drop(connections, queue, **fields):
    """Send a message of registration to its queue of the bus."""
    with connections.bus_client() as bus, bus.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(json.dumps({"sluice": fields})))


def state_of(host, order):
    """Return the state of an order, as its customer reads it."""
    found = Customer(host.base_url, "none is needed here").show(order, CODE)
    return found.body["state"] if found.status == 200 else None


@pytest.mark.ci("two whole stacks, a quarter of a minute on a quiet machine")
def test_jobs_and_orders_in_flight_go_on_after_an_upgrade(tmp_path):
    """Killed with chunks in hand, a held job, one in a room, an order that is reserved. Nothing is paused, parked or lost."""
    project = persons_project(tmp_path / "project")
    options = StackOptions(app=project, instances=2, settings=SETTINGS)
    with running(options) as stack, Connections.parse(stack.settings) as connections:
        stores = Stores(connections)
        before = stack.host
        seats = {"whole": {"price": "5.00", "quota": 9}}
        drop(connections, "conferences", kind="conference", id="c-1", conference="pycon", seats=seats)
        asking = Customer(before.base_url, "none is needed here")
        until(lambda: asking.ask("GET", "/api/conferences/pycon").status == 200)
        placed = asking.place("mine", {"whole": 2}, access_code=CODE)
        assert placed.status == 202, placed.body
        until(lambda: state_of(before, "mine") == "reserved")
        jobs = [f"flight-{number:02}" for number in range(JOBS)]
        jobs += ["held", "team-a~roomy"]

        def ended():
            found = map(stores.ledger.read, jobs)
            return [job for job in found if job and job.state in FINISHED]

        submit(connections, "held", gate="launch")
        for job in jobs[:2]:
            submit(connections, job)
        until(lambda: len(ended()) >= 2)
        submit(connections, "roomy", room="team-a")
        for job in jobs[2:JOBS]:
            submit(connections, job)
        # At once: the last job takes longer than this to be accepted, worked on and finished.
        os.killpg(before.process.pid, signal.SIGKILL)
        before.process.wait()
        assert len(ended()) < len(jobs) - 1, "the kill came too late to leave anything in flight"
        done = CliRunner().invoke(app, ["upgrade", str(project), "--write"])
        assert done.exit_code == 0, done.output
        with start_host(options, stack.settings) as after:
            assert state_of(after, "mine") == "reserved"
            drop(connections, "payments", kind="payment", id="p-1", order="mine", outcome="completed", amount="10.00")
            stores.gate_operator.open("launch", by="ann")
            until(lambda: len(ended()) == len(jobs))
            until(lambda: state_of(after, "mine") == "confirmed")
        assert {(job.state, job.totals.accepted.items, job.totals.accepted.sums["units"]) for job in ended()} == {
            (JobState.COMPLETE, LINES, UNITS)
        }
        assert list(stores.parked_table.entries()) == []
