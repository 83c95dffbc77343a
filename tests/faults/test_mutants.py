"""The runs find mistakes: each one that is put into the real code is objected to."""

import pytest

from tests.faults.host import HIDDEN
from tests.faults.mutants import MUTANTS, found


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Take out the waits."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    monkeypatch.setattr("shared.parked.poison_queues._HIDDEN", HIDDEN)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mistake_is_found(mutant):
    """With the mistake a check objects; without it the same run is clean."""
    run, said = found(mutant)
    assert run != "nothing", "no check objects"
    assert said
