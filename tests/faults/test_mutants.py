"""The runs find mistakes: each one that is put into the real code is objected to."""

import pytest

from tests.faults.mutant import found
from tests.faults.mutants import MUTANTS
from tests.left_out import every_tenth


@pytest.mark.usefixtures("shortcuts")
@pytest.mark.parametrize("name", every_tenth((name,) for name in MUTANTS))
def test_a_mistake_is_found(name):
    """With the mistake a check objects; without it the same run is clean."""
    run, said = found(MUTANTS[name])
    assert run != "nothing", "no check objects"
    assert said
