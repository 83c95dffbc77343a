"""Hints under the host, on the real bus and storage: they start what was dropped, and do no harm."""

import json
import time
from contextlib import contextmanager

import pytest
from azure.servicebus import ServiceBusMessage

from shared.app import Stores
from shared.azure.connections import Connections
from shared.grammar import MOST_ROOMS
from shared.ledger.records import FINISHED, JobState
from shared.publish import Publisher
from shared.signals import HttpHints
from tests.benchmarks.request_log import kinds, read_from
from tests.e2e.test_pipeline import usages, wait_for
from tests.waiting import until
from tools.local.stack import StackOptions, running

#: Without the host's trigger on the intake and without the tick nothing but a hint can start anything.
ONLY_BY_HINTS = {
    "AzureWebJobs.accept_submission.Disabled": "true",
    "AzureWebJobs.tick.Disabled": "true",
    "SLUICE_ROOMS": ",".join(["team-a", *(f"r{number}" for number in range(MOST_ROOMS - 2)), "last"]),
}
#: What a publisher may put into a hint; the second one names what the host tells a function beside a body.
BODIES = (
    b"\xff\xfe no text",
    json.dumps({"MessageId": {"a": 1}, "DeliveryCount": "x", "sluice": {"kind": "work", "slot": 0}}).encode(),
    b"[" * 100_000,
    b"x" * 200_000,
)


@pytest.fixture(scope="module")
def deaf(worker):
    """An app of two hundred rooms whose host does not listen to the intake."""
    with (
        running(StackOptions(worker=worker, instances=1, counts_requests=True, settings=ONLY_BY_HINTS)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        yield stack, connections


@contextmanager
def sending(connections):
    """Yield what sends a message to the queue of hints, as any publisher can."""
    with connections.bus_client() as bus, bus.get_queue_sender("hints") as sender:
        yield sender.send_messages


def test_a_hint_starts_what_was_dropped_in_any_room(deaf):
    """The poll has no part in it: there is none."""
    _, connections = deaf
    for room, job in (("", "hinted"), ("team-a", "team-a~hinted"), ("last", "last~hinted")):
        with Publisher.connect(connections, room) as publisher:
            assert publisher.submit(job="hinted", workload="billing", transactions=usages(500)).is_hinted
        assert wait_for(connections, job, FINISHED).state is JobState.COMPLETE


def test_without_a_hint_nothing_starts_and_a_later_one_finds_it(deaf):
    """A lost hint loses no work, and the next one is as good, also one of before, which names no queue."""
    _, connections = deaf
    jobs = {"": "unhinted", "last": "last~unhinted"}
    for room in jobs:
        with Publisher.connect(connections, room, hints=False) as publisher:
            publisher.submit(job="unhinted", workload="billing", transactions=usages(500))
    time.sleep(2)
    assert [Stores(connections).ledger.read(job) for job in jobs.values()] == [None, None]
    with HttpHints(connections) as hint:
        assert hint()
    for job in jobs.values():
        assert wait_for(connections, job, FINISHED).state is JobState.COMPLETE


def test_nobody_reads_a_hint(deaf):
    """Whatever is in it, it is a hint: the job is done, and none of them is dead or comes again."""
    stack, connections = deaf
    with Publisher.connect(connections, hints=False) as publisher, sending(connections) as send:
        for number, body in enumerate(BODIES):
            publisher.submit(job=f"garbage-{number}", workload="billing", transactions=usages(10))
            send(ServiceBusMessage(body, application_properties={"kind": "work"}, subject="x"))
            assert wait_for(connections, f"garbage-{number}", FINISHED).state is JobState.COMPLETE
    bus = connections.bus_client()
    with bus, bus.get_queue_receiver("hints", sub_queue="deadletter") as receiver:
        assert receiver.peek_messages(1) == []
    assert "accept_hinted failed" not in stack.host.log.read_text()


def test_a_flood_of_hints_costs_few_requests_and_delays_no_job(deaf):
    """A thousand hints: those that come while one is followed join it."""
    stack, connections = deaf
    began = stack.azurite.log.stat().st_size
    with Publisher.connect(connections, hints=False) as publisher, sending(connections) as send:
        publisher.submit(job="flooded", workload="billing", transactions=usages(500))
        for _ in range(10):
            send([ServiceBusMessage(b"") for _ in range(100)])
        assert wait_for(connections, "flooded", FINISHED).state is JobState.COMPLETE
        wait_until_none_is_left(connections)
    logged = kinds(read_from(stack.azurite.log, began))
    receives = sum(
        number
        for kind, number in logged.items()
        if kind.operation == "GetMessages" and kind.entity in ("submissions", "submissions-team-a")
    )
    assert 2 <= receives <= 400


def wait_until_none_is_left(connections):
    """Wait until the queue of hints is empty."""
    bus = connections.bus_client()
    with bus, bus.get_queue_receiver("hints") as receiver:
        until(lambda: not receiver.peek_messages())


def test_hints_and_the_hosts_trigger_together_do_each_job_once(app_stack):
    """Both receive from one queue: whoever is first has the message."""
    names = [f"both-{number}" for number in range(60)]
    with Connections.parse(app_stack.settings) as connections:
        with Publisher.connect(connections) as publisher, HttpHints(connections) as hint:
            for name in names:
                publisher.submit(job=name, workload="billing", transactions=usages(20))
                hint()
        jobs = [wait_for(connections, name, FINISHED) for name in names]
    assert {(job.state, job.totals.accepted.items) for job in jobs} == {(JobState.COMPLETE, 20)}
