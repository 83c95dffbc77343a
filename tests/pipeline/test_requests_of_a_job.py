"""A job's own count of its storage requests, against what the meter saw of the whole app."""

import pytest

from local.azurite.launcher import Azurite
from local.provision import provision
from shared.ledger.counting import commit, counting
from shared.ledger.memory_ledger import MemoryLedger
from shared.ledger.records import Job, JobState
from shared.pipeline.deliveries import Delivery
from shared.pipeline.received import Received
from shared.publish import Publisher
from shared.topology import topology
from shared.usage.meter import Cause, because
from shared.usage.requests import BUS, TABLE, Kind
from shared.wiring import gatehouse, line, table_ledger, works
from shared.workloads.registry import Workloads
from tests.faults.bus import Bus, BusConnections
from tests.faults.journal import Journal
from tests.faults.plan import Plan
from tests.faults.sales import Sales
from tests.faults.world import NOON, SETTINGS, SMALL, ManualClock, sales


class App:
    """The app on storage of its own; the host's and the publisher's requests are other clients'."""

    def __init__(self, connection_string):
        clock, self.bus = ManualClock(), Bus(Journal())
        self.metered, self.others = (
            BusConnections(connection_string, self.bus, Plan(), transport=None) for _ in range(2)
        )
        gates = gatehouse(self.metered, clock=clock)
        work = works(self.metered, Workloads([Sales()]), clock=clock)
        self.line = line(self.metered, SETTINGS, gates, work, clock=clock)
        self.handlers = {"submissions": self.line.arrivals.handle, "work-00": work.processor.handle}

    def run(self, job, items):
        """Run a job to its end, and return it with how many requests the app made meanwhile."""
        queue, payloads = self._queue("submissions"), self.others.blobs.get_container_client("payloads")
        before = self._made()
        Publisher(queue, payloads, limits=SMALL).submit(job=job, transactions=sales(*"ab" * items), workload="sales")
        while self._deliver() or self._settle():
            pass
        return table_ledger(self.others).read(job), self._made() - before

    def _made(self):
        return sum(number for (kind, _), number in self.metered.meter.tally.counts().items() if kind.service != BUS)

    def _deliver(self):
        found = [(name, one) for name in self.handlers for one in self._queue(name).receive_messages(max_messages=32)]
        for name, one in found:
            self.handlers[name](Delivery(queue=name, message_id=one.id, body=one.content.encode(), count=1))
            self._queue(name).delete_message(one)
        return found

    def _settle(self):
        letters = self.bus.waiting("results")
        if letters:
            self.line.settler.settle([Received(one.body.encode(), one.id) for one in letters])
            self.bus.complete(letters)
        return letters

    def _queue(self, name):
        return self.others.queues.get_queue_client(name)


@pytest.fixture
def app():
    """An app on an Azurite of its own: the queues have their real names."""
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        made = App(own.connection_string)
        with made.metered, made.others:
            yield made


def test_a_job_counts_what_all_its_stages_requested(app):
    """Only what a stage does after its last write of the row is missing: the same few, however large the job is."""
    (small, made_for_small), (large, made_for_large) = app.run("small", 3), app.run("large", 40)
    assert (small.state, large.state, small.chunks, large.chunks) == (JobState.COMPLETE, JobState.COMPLETE, 3, 40)
    missing = made_for_small - sum(small.requests.values())
    assert 0 < missing < 10
    assert made_for_large - sum(large.requests.values()) == missing
    assert {Cause.USEFUL} <= small.requests.keys()


A_READ, A_WRITE = Kind("account", TABLE, "jobs", "QueryEntity"), Kind("account", TABLE, "jobs", "EntityGroup")


class Refusing(MemoryLedger):
    """Somebody else is first, once."""

    is_refusing = True

    def commit(self, job, rows=(), event=None):
        """Refuse the first one."""
        refuses, self.is_refusing = self.is_refusing, False
        return None if refuses else super().commit(job, rows, event)


def test_a_commit_that_was_refused_is_noted_by_the_next_one_and_nothing_twice():
    """What was requested in vain was requested; what is noted is not noted again."""
    ledger = Refusing()
    job, _ = ledger.insert(Job(job="nightly", content_hash="0", workload="sales", accepted_at=NOON))
    with counting() as tally:
        tally.add(A_READ, Cause.USEFUL)
        tally.add(Kind("namespace", BUS, "results", "send"), Cause.USEFUL)
        assert commit(ledger, job) is None
        tally.add(A_WRITE, Cause.CONFLICT)
        job = commit(ledger, job)
        assert job.requests == {"useful": 2, "conflict": 1}
        tally.add(A_WRITE, Cause.USEFUL)
        with because(Cause.SWEEP):
            assert commit(ledger, job).requests == {"useful": 2, "conflict": 1, "sweep": 1}
