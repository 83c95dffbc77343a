"""What a release asks storage for: per job, and once for a hundred of them."""

import json
from collections import Counter

import pytest

from shared.app import App, Stores
from shared.azure import BUS
from shared.azure.connections import Connections
from shared.azure.meter import tally_requests
from shared.errors import StorageUnavailableError
from shared.messages import Delivery
from shared.pipeline.dispatch import Dispatcher
from shared.settings import Settings
from shared.signals import Hint
from shared.workloads.registry import Workloads
from tests.gate.conftest import RecordedSignals

#: Its row read, its note, its plan, its chunk put, its cursor.
PER_JOB = 4
#: The first batch of a release, and a whole one.
FIRST, BATCH = 8, 100


@pytest.fixture
def app(connections, stack_settings, clock):
    """An app by push, whose signals are recorded. Its clock stands still, so it reads the decision once."""
    settings = Settings.parse(stack_settings)
    workloads = Workloads.load(settings.workloads, stack_settings)
    with Connections.parse(stack_settings) as both:
        stores = Stores(both, clock=clock, signals=RecordedSignals())
        with App(both, settings, workloads, stores=stores) as made:
            yield made


def released(app, gate, jobs):
    """Hold so many jobs of one chunk, open their gate, and return the storage requests of the release by kind."""
    line = {"account": "a", "plan": "basic", "quantity": "1"}
    for number in range(jobs):
        body = json.dumps({"sluice": {"job": f"{gate}-{number:03}", "gate": gate, "items": [line]}}).encode()
        app.accept(Delivery(queue="submissions", message_id=f"m{number}", body=body, count=1))
    app.stores.gate_operator.open(gate, by="ann")
    with tally_requests() as tally:
        assert app.stages.releaser.on_signal(Hint(gate)).put == jobs
    found = Counter[str]()
    for one, number in tally.counts().items():
        if one.kind.service != BUS:
            found[f"{one.kind.operation} {one.kind.entity}"] += number
    return found


def refuse(*_args, **_options):
    """Storage does not answer."""
    raise StorageUnavailableError("not now")


def test_a_dispatch_whose_signal_met_an_outage_goes_on_at_the_next_tick(app, monkeypatch):
    """The signal is used up then, and the job's own pointer is due only after minutes."""
    items = [{"account": "a", "plan": "basic", "quantity": "1"}]
    # With a deadline, no row says ahead that its chunk was put.
    body = json.dumps({"sluice": {"job": "long", "items": items, "deadline": "2099-01-01T00:00:00Z"}}).encode()
    with monkeypatch.context() as late:
        late.setattr(Dispatcher, "dispatch", lambda *_args, **_options: True)
        app.accept(Delivery(queue="submissions", message_id="m", body=body, count=1))
    with monkeypatch.context() as outage:
        outage.setattr(Dispatcher, "dispatch", refuse)
        app.stages.releaser.on_signal(Hint(job="long"))
    assert app.stores.ledger.read("long").dispatch_cursor == 0
    app.tick()
    assert app.stores.ledger.read("long").dispatch_cursor == 1


def test_a_release_makes_four_requests_a_job_and_few_for_a_hundred(app, gate, monkeypatch):
    """Pointers, the decision, the wake-up and the deletion of held rows are shared; alone, a job pays for them itself."""
    # Of a fleet that has room for all of them.
    monkeypatch.setattr("shared.concurrency.following.FIRST_TASKS", 10 * BATCH)
    few = released(app, f"{gate}-few", FIRST)
    for attempt in range(3):
        many = released(app, f"{gate}-many-{attempt}", FIRST + BATCH)
        more = {kind: many[kind] - few[kind] for kind in {*few, *many}}
        # A busy machine may lose the reply to the group's deletion. Then each row is deleted by itself, which is right.
        if not more.get("DeleteEntity held"):
            break
    per_job = sum(more.values()) / BATCH
    # Either release may have paid for what the other found ready, such as the decision or a look at the fleet.
    assert PER_JOB - 0.1 <= per_job <= PER_JOB + 0.1, more
    # A wake-up is for all of them: the decision and the leased slots are read once.
    assert more["ListBlobs permits"] <= 1
    assert more["EntityGroupTransaction held"] == more["EntityGroupTransaction pending"] == 1
