"""A process that ends at any of its requests, or loses any request or reply, leaves what the next delivery completes.

Each scenario is recorded once, then run once for each request and each mode of fault; after the fault the host delivers
the message again to healthy processes until one returns.
"""

from contextlib import suppress
from decimal import Decimal
from functools import partial
from unittest.mock import Mock

import pytest

from shared.parked.entry import EntryState, chunk_key, job_note
from shared.parked.poison_policy import DEFAULT_POLICY, KillerError
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import MODES, KilledError, Plan
from tests.left_out import every_tenth
from tests.process.world import MemoryWorld

#: More deliveries than any scenario needs after its one fault.
ENOUGH = 30


def succeeds(_sale):
    """Do nothing."""


def always_fails(_sale):
    """Fail as a bug does."""
    raise ZeroDivisionError


def dies_alone(_sale):
    """Do nothing here, where it would take this process along. In a process of its own it dies."""


class Flaky:
    """Fails for the eighth sale so often, then for none."""

    def __init__(self, times):
        self.times = times

    def __call__(self, sale):
        """Fail, or let it pass."""
        if sale.amount == Decimal("7.10") and self.times:
            self.times -= 1
            raise ZeroDivisionError


SCENARIOS = {
    "first delivery": (1, succeeds),
    "first delivery, large": (1, succeeds),
    "second delivery": (2, succeeds),
    "late delivery": (4, succeeds),
    "dying": (3, dies_alone),
    "failing": (1, always_fails),
    "parking": (DEFAULT_POLICY.deliveries, always_fails),
    "one fails": (1, partial(Flaky, 1)),
    "one was left": (2, partial(Flaky, 1)),
    "one was left, of two": (2, partial(Flaky, 2)),
}
PARKING = [
    "GET jobs",
    "GET results",
    "GET parked",
    "GET parked",
    "PATCH parked",
    "GET results",
    "GET payloads",
    "PATCH parked",
    "GET jobs",
    "GET results",
    "PUT parked",
    "POST parked",
    "POST $batch",
    "SEND results",
    "DELETE parked",
]
SECOND = [
    "GET jobs",
    "GET results",
    "GET parked",
    "PATCH parked",
    "GET results",
    "GET payloads",
    "SEND results",
    "DELETE parked",
]
#: Requests of each scenario: a change here is a change of the bill.
RECORDED = {
    "first delivery": ["GET payloads", "SEND results"],
    "first delivery, large": ["GET payloads", "PUT results", "SEND results"],
    "second delivery": SECOND,
    "failing": ["GET payloads", "GET parked", "PATCH parked"],
    "one fails": ["GET payloads", "PUT results", "GET parked", "PATCH parked"],
    "late delivery": [
        "GET jobs",
        "GET results",
        "GET parked",
        "GET parked",
        "PATCH parked",
        "GET results",
        "GET payloads",
        "SEND results",
        "DELETE parked",
    ],
    "parking": PARKING,
    "one was left": SECOND,
    "one was left, of two": [*SECOND[:-2], "GET parked", "PATCH parked"],
    # A suspect runs as a whole.
    "dying": PARKING,
}
RUNS = [(name, at, mode) for name, sites in RECORDED.items() for at in range(1, len(sites) + 1) for mode in MODES]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_recorded_requests_are_the_requests(name, monkeypatch):
    """What is enumerated below is everything that the scenario sends."""
    count, fault = scenario(name, monkeypatch)
    world, plan = prepared(name, fault), Plan()
    # One that fails is delivered again.
    with suppress(ZeroDivisionError):
        world.deliver(count, plan)
    assert plan.kinds == RECORDED[name]


@pytest.mark.parametrize(("name", "at", "mode"), every_tenth(RUNS))
def test_one_fault_anywhere_loses_nothing_and_parks_nothing_healthy(name, at, mode, monkeypatch):
    """Afterwards the chunk is done or parked, never both, its bytes are kept, and the ledger was told the truth."""
    count, fault = scenario(name, monkeypatch)
    world, plan = prepared(name, fault), Plan.of(at, mode)
    is_settled = handled(world, count, plan)
    assert plan.fired
    while not is_settled:
        count += 1
        assert count < ENOUGH, "the chunk is stuck"
        is_settled = handled(world, count, Plan())
    check(world, is_healthy=fault not in {always_fails, dies_alone})


def scenario(name, monkeypatch):
    """Return how often it was delivered, and the fault; a large result does not travel in its message."""
    if name.endswith("large"):
        monkeypatch.setattr("shared.pipeline.results.CONTENT_MOST", 0)
    return SCENARIOS[name]


def prepared(name, fault):
    """Return a world, in memory, whose workload has this fault."""
    world = MemoryWorld(MemoryStorage())
    world.workload.fault = fault() if isinstance(fault, partial) else fault
    if isinstance(fault, partial) and "was left" in name:
        with suppress(ZeroDivisionError):
            world.deliver()
    if fault is dies_alone:
        world.run_alone = Mock(side_effect=KillerError("SIGSEGV"))
        with world.process() as process:
            process.attempts.note_begun(job_note(world.job, chunk_key(0, 1)), 2)
    return world


def handled(world, count, plan):
    """Deliver once; whether the host would delete the message."""
    # The host delivers again after any exception, as after the end of the process.
    with suppress(KilledError, Exception):
        world.deliver(count, plan)
        return True
    return False


def check(world, *, is_healthy):
    """Hold the invariants."""
    stored, entry = world.stored, world.entry
    assert (entry is None) == is_healthy
    assert world.sent
    if is_healthy:
        ((found, items, reason),) = {(one.hash, one.accepted.items, one.reason) for one in world.sent}
        assert (items, reason) == (10, None)
        # A message names a blob that is there, or brings the result.
        assert stored is None or stored.hash == found
        assert all(one.content or (stored and one.blob == stored.name) for one in world.sent)
    else:
        assert entry.state is EntryState.OPEN
        assert {(one.hash, one.parked.items, one.reason) for one in world.sent} == {(None, 10, entry.reason)}
        with world.process() as process:
            assert process.parked.body(entry) == world.body
