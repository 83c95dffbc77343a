"""Migrations with events, readers and an impatient operator beside them, and crashes at every request."""

import itertools
from datetime import timedelta
from functools import partial

import pytest

from shared.azure import Connections
from shared.readmodels import Migration, migration, migration as steps
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.readmodels.conftest import House
from tests.readmodels.story import Story


def test_a_migration_loses_nothing_and_shows_nothing_half(house):
    """From the first version to the second, back, and forth again, while events go on."""
    story = Story(house).run()
    story.check()
    assert story.reads > 40


class MemoryHouse(House):
    """One on a storage in memory."""

    def connect(self, plan):
        """Return connections of a process. With a plan, its requests may break."""
        transport = partial(self.settings.transport, plan or Plan())
        return Connections(self.settings.connection_string, transport=transport, retries=0 if plan else 2)


#: Each request of the migration; of the other modes, some requests.
FAULTS = [("kill_after", 1), ("reset_after", 6), ("503_before", 6), ("hang_then_timeout", 6)]


@pytest.mark.ci("a campaign of faults")
@pytest.mark.parametrize(("mode", "step"), FAULTS)
def test_a_crash_at_any_request_of_any_phase_is_gone_on_from(mode, step):
    """The command is typed again, and the rows at the end are those of the log."""
    for at in itertools.count(step, step):
        house, plan = MemoryHouse(MemoryStorage()), Plan.of(at, mode)
        try:
            Story(house, plan, is_busy=False).run().check()
        finally:
            house.close()
        if not plan.fired:
            break
    assert at > 30


def find_no_wait(monkeypatch):
    """Mistake 17: the scan begins at once."""
    monkeypatch.setattr(migration, "SETTLING", timedelta(0))


def find_early_switch(monkeypatch):
    """Mistake 16: a version may become the current one as soon as it is doubled."""
    monkeypatch.setattr(
        steps, "switch", lambda pointer, _target: pointer if pointer.doubled is None else steps._swap(pointer)
    )


def find_emptied_slot(monkeypatch):
    """Mistake 18: finish empties the slot of the current version."""
    empty = Migration._empty

    def empty_wrong(self, pointer, demand):
        empty(self, steps.replace(pointer, slot=pointer.slot.other), demand)

    monkeypatch.setattr(Migration, "_empty", empty_wrong)


@pytest.mark.parametrize("mistake", [find_no_wait, find_early_switch, find_emptied_slot])
def test_a_seeded_mistake_is_found(house, monkeypatch, mistake):
    """The story would not be a proof if it passed with these."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=r"is missing|is behind|has seen version|is mixed"):
        Story(house).run().check()
