"""A planned opening comes at its time by the clock of storage, whichever instance ticks and whatever its clock says."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.app import App, Stores
from shared.clock import SystemClock
from shared.settings import Settings
from shared.workloads.registry import Workloads

MINUTE = timedelta(minutes=1)


class Skewed(SystemClock):
    """A clock that is wrong by so much."""

    def __init__(self, by):
        self._by = by

    def now(self):
        """Return the wrong time of day."""
        return super().now() + self._by


@pytest.fixture
def tick(connections, stack_settings):
    """Run the tick of an app whose clock is wrong."""

    def run(by, overdue):
        settings = Settings.parse({**stack_settings, "SLUICE_CHUNK_OVERDUE_SECONDS": str(overdue)})
        clock = Skewed(by)
        workloads = Workloads.load(settings.workloads, stack_settings)
        App(connections, settings, workloads, stores=Stores(connections, clock=clock)).tick()

    return run


@pytest.fixture
def plan(connections, gate):
    """Plan the opening of a gate, that far from now; whoever plans one that is past was early."""

    def do(away):
        early = Stores(connections, clock=Skewed(-60 * MINUTE)).gate_operator
        early.schedule(gate, datetime.now(UTC) + away, by="ann")

    return do


@pytest.mark.parametrize("by", [10 * MINUTE, -10 * MINUTE, timedelta()])
@pytest.mark.parametrize("overdue", [60, 600])
@pytest.mark.parametrize(("away", "opens"), [(5 * MINUTE, False), (timedelta(seconds=-5), True)])
def test_a_planned_gate_opens_at_its_time_and_not_at_that_of_who_ticks(
    *, connections, gate, tick, plan, by, overdue, away, opens
):
    """Ten minutes ahead it stays closed until then; ten minutes behind it is opened all the same."""
    plan(away)
    tick(by, overdue)
    state = Stores(connections).gates.read(gate)
    assert state.is_open == opens
    if opens:
        assert abs(state.at - datetime.now(UTC)) < MINUTE
