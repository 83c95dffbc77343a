"""Acts of people on jobs that two instances of today work on, each loaded for itself, while processes are killed."""

from pathlib import Path

import pytest

import shared
from tests.versions.acts import ActedOn
from tests.versions.driver import Driver
from tests.versions.loading import find_today, load_folder

#: Of fifty, some run always.
SEEDS = [
    0,
    1,
    *(pytest.param(seed, marks=pytest.mark.ci("further mixtures of acts", is_drawn=True)) for seed in range(2, 50)),
]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """The same code twice: an instance of 0.4.0 knows neither halts nor the states of these acts."""
    other = load_folder(Path(shared.__file__).parent, "sluice_acted", tmp_path_factory.mktemp("acted"))
    return {"other": (other, Driver), "today": (find_today, Driver)}


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_a_person_does_each_job_ends_right(versions, seed):
    """Paused, resumed, stopped and run again at any moment: nothing is parked, wrong, or stalled for more than two ticks."""
    world = ActedOn(versions, seed)
    try:
        assert world.run() == []
        assert world.acts
    finally:
        world.close()
