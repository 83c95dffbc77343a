"""A planned opening on the run's Azurite, and an app in Azure that a local server plays."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from shared.app import Stores
from shared.app.app import Tick
from shared.azure.connections import Connections
from shared.gate import HeldEntry
from shared.ledger import change
from shared.ledger.records import Job, JobState, PlanBlob
from shared.pending import GATE_POINTER, JOB_POINTER, PENDING, WARM_POINTER, Followers, Pointer, Range
from shared.scaling import WARM_RECORD, ResourceManager, WarmChoice, WarmRequest, build_warmer, records_of
from tests.gate.conftest import House, ManualClock, RecordedSignals
from tests.scaling.resource_manager_server import SITE, running
from tests.scaling.test_carry_out import Operator

GATE = "nightly"
OVERDUE = timedelta(minutes=10)
REQUEST = WarmRequest(site=SITE, within=timedelta(minutes=10), most=20)


class Night:
    """One gate with a job behind it, the tick's part that warms, and the app that it changes."""

    def __init__(self, connections, server, clock, site=SITE):
        self.server, self.clock, self.manager_kind = server, clock, ResourceManager
        self.stores = stores = Stores(connections, clock=clock, signals=RecordedSignals(), parallel=1)
        choice = WarmChoice(site=site, identity="", most=20, endpoint=server.endpoint)
        self.warmer = build_warmer(
            stores, choice, OVERDUE, lambda: self.manager_kind(Operator(), server.endpoint, retries=0)
        )
        followers = Followers([(Range(PENDING, OVERDUE), stores.pending)], clock)
        followers.register(WARM_POINTER, lambda pointer, _until: self.warmer.follow(pointer))
        self.tick = Tick(followers=followers, first=[], last=[], clock=clock, judge=lambda _failed: None).run
        self.gate_tick = House(connections, clock=clock, signals=RecordedSignals(), parallel=1).tick.run

    def hold(self, gate=GATE, chunks=6_000):
        """Hold a job behind a gate."""
        job = Job(
            job=f"job-of-{gate}",
            content_hash="0" * 64,
            workload="billing",
            accepted_at=self.clock.now(),
            items=10,
            chunks=chunks,
            state=JobState.HELD,
            gate=gate,
            plan=PlanBlob("p", "e"),
        )
        self.stores.ledger.insert(job)
        self._to(gate, JobState.HELD)
        self.stores.held.insert(self._entry(gate))

    def schedule(self, opens_in, gate=GATE, warm=REQUEST):
        """Plan the gate's opening."""
        prepare = partial(records_of(self.stores).plan, gate, warm)
        return self.stores.gate_operator.schedule(gate, self.clock.now() + opens_in, by="ann", prepare=prepare)

    def release(self, gate=GATE):
        """Open the gate as planned, and have its job run."""
        self.stores.held.delete_all([self.stores.held.insert(self._entry(gate))])
        self.gate_tick([one for one in self.stores.pending.due(self.clock.now()) if one.kind == GATE_POINTER])
        assert self.stores.gates.read(gate).is_open
        self._to(gate, JobState.RUNNING)
        self.stores.pending.add(Pointer(JOB_POINTER, self.clock.now() + OVERDUE, f"job-of-{gate}"))

    def finish(self, gate=GATE):
        """Finish the gate's job."""
        self._to(gate, JobState.COMPLETE)

    def _entry(self, gate):
        name = f"job-of-{gate}"
        return HeldEntry(gate=gate, id=name, epoch=0, queue="no-queue", message="{}", held_at=self.clock.now())

    def _to(self, gate, state):
        change(self.stores.ledger, f"job-of-{gate}", lambda job: replace(job, state=state), tried="test")

    def minutes(self, number):
        """Let time pass, with a tick in each minute."""
        for _ in range(number):
            self.clock.advance(minutes=1)
            self.tick()

    def jump(self, number):
        """Let time pass, with a tick at its end only."""
        self.clock.advance(minutes=number)
        self.tick()

    @property
    def pointers(self):
        """Every pointer to a check."""
        later = self.clock.now() + timedelta(days=400)
        return [pointer for pointer in self.stores.pending.due(later) if pointer.kind == WARM_POINTER]

    @property
    def record(self):
        """The record as it is stored."""
        return records_of(self.stores).read().record


@pytest.fixture
def clock():
    """Noon."""
    return ManualClock()


@pytest.fixture
def server():
    """Resource Manager with one app."""
    with running() as started:
        yield started


@pytest.fixture
def connections(provisioned, monkeypatch):
    """Storage whose tables of work begin empty, with no gate and no record; the tests that follow find it so too."""
    # The pauses before repetitions are of no interest here, only the repetitions.
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.004)
    with Connections(provisioned.connection_string) as made:
        _empty(made)
        yield made
        _empty(made)


def _empty(connections):
    """A record that is none, left behind, would stop every command of another file of the same process."""
    for table in ("held", "pending", "jobs"):
        client = connections.tables.get_table_client(table)
        for row in client.list_entities():
            client.delete_entity(row)
    for container, blobs in (("settings", [WARM_RECORD]), ("gates", None)):
        client = connections.blobs.get_container_client(container)
        for name in blobs or client.list_blob_names():
            if client.get_blob_client(name).exists():
                client.delete_blob(name)


@pytest.fixture
def night(connections, server, clock):
    """A gate that holds a job."""
    made = Night(connections, server, clock)
    made.hold()
    return made
