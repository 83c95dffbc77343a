"""The runs find mistakes: each one that is put into the real code is objected to."""

import pytest

from tests.faults.mutant import found
from tests.faults.mutants import MUTANTS


@pytest.mark.usefixtures("shortcuts")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mistake_is_found(mutant):
    """With the mistake a check objects; without it the same run is clean."""
    run, said = found(mutant)
    assert run != "nothing", "no check objects"
    assert said
