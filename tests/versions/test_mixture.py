"""Two versions on one storage: what one leaves the other takes up, and what is newer waits for who knows it."""

from pathlib import Path

import pytest

import shared
from tests.versions.driver import Driver
from tests.versions.loading import find_today, load_folder
from tests.versions.mixture import Mixture

SHARED = Path(shared.__file__).parent

#: A version to come, whose finish plans say half of the cuts. First as it must be done: under a higher version.
_HALVED = (
    ("pipeline/finish_blobs.py", "cuts=cuts, v=_OF_RERUN if is_rerun else v)", "cuts=cuts // 2, v={v})"),
    ("pipeline/finish_blobs.py", "return max(self.cuts, self.shards)", "return max(self.cuts * (2 if self.v == {v} else 1), self.shards)"),
    ("pipeline/finish_blobs.py", "choose_shards(size, self.cuts, shard_bytes)", "choose_shards(size, self.cuts_of_each, shard_bytes)"),
    ("versions.py", '"finish plan": 4', '"finish plan": {v}'),
)  # fmt: skip
#: A version to come whose results have a field that must be read.
_LATER_RESULTS = (
    ("messages.py", "    #: The trace context of the chunk's work; left out when tracing is off, or", "    must: str = 'be read'\n    #: Or"),
    ("messages.py", "    trace: str | None = None\n    v: int = VERSION\n\n\nclass Results", "    trace: str | None = None\n    v: int = 3\n\n\nclass Results"),
    ("pipeline/process.py", "v=STREAMS_VERSION if stored.result.streams or stored.result.extends else VERSION,", "v=3,"),
    ("pipeline/settle.py", "if any(result.v not in _VERSIONS for result in found.results):", "if False:"),
    ("pipeline/settle.py", "if result.v not in _VERSIONS:", "if result.v not in {1, 2, 3}:"),
    ("versions.py", '"result": 2', '"result": 3'),
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="session")
def loaded(tmp_path_factory):
    """Return a function that loads a version, once."""
    folder, known = tmp_path_factory.mktemp("versions"), {}

    def load(name, edits=()):
        if name not in known:
            known[name] = load_folder(SHARED, f"sluice_{name}", folder, edits=edits), Driver
        return known[name]

    return load


TODAY = (find_today, Driver)
#: Of those that show what the mixtures would find, one runs always.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.ci("further mixtures of versions")) for seed in (1, 2))]


def judged(versions, seed, **options):
    """Run a mixture and return what is wrong, with what its versions raised."""
    world = Mixture(versions, seed, **options)
    try:
        found = world.run()
        assert min(world.turns.values()) > 0
        return [*found, *(world.raised() if found else ())]
    finally:
        world.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_release_and_today_work_on_one_storage(release, seed):
    """Each job is complete once, whichever of them a message comes to."""
    assert judged({"release": release, "today": TODAY}, seed) == []


@pytest.mark.ci("50 runs of two versions take more than a minute", is_drawn=True)
@pytest.mark.parametrize("seed", range(100, 150))
def test_they_do_so_while_processes_are_killed(release, seed):
    """At any request of either."""
    assert judged({"release": release, "today": TODAY}, seed, kills=True) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_today_twice(loaded, seed):
    """What the mixture finds is of the versions, and not of two of them being there."""
    assert judged({"one": loaded("again"), "other": TODAY}, seed, kills=True) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_release_goes_on_with_small_jobs_whose_plans_are_in_their_rows(release, seed):
    """Whichever of the two accepts one, is killed in it, and gets its message again."""
    assert judged({"release": release, "today": TODAY}, seed, kills=True, sizes=(1, 2, 3)) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("plans", [(file, before, after.replace("{v}", "5")) for file, before, after in _HALVED]),
        ("results", _LATER_RESULTS),
    ],
)
def test_what_a_version_to_come_writes_waits_for_it(loaded, name, edits, seed):
    """Under a higher version: today's instances park nothing, pause nothing and guess at nothing."""
    assert judged({"later": loaded(f"with_{name}", edits), "today": TODAY}, seed) == []


def test_a_change_of_meaning_without_a_version_is_found(loaded):
    """This is how the pause of 2026 came about: the same `v`, another meaning."""
    wrong = loaded("wrong", [(file, before, after.replace("{v}", "2")) for file, before, after in _HALVED])
    assert any("is paused" in str(judged({"later": wrong, "today": TODAY}, seed)) for seed in range(4))
