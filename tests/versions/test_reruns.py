"""A job that runs again beside an instance of the release before: it ends right, and says where its totals are."""

import pytest

from shared.app import Stores
from shared.ledger import JobState
from tests.faults.invariants import breaches
from tests.faults.scenarios import Scenario
from tests.faults.world import sales
from tests.versions.driver import Driver
from tests.versions.loading import find_today
from tests.versions.mixture import MOST_TURNS, Mixture

TODAY = (find_today, Driver)
JOB = "job-a"
#: Of those that show what the mixtures would find, one runs always.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.ci("further mixtures of versions")) for seed in range(1, 8))]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def before(release):
    """The release before, if it knows no rerun."""
    find, _ = release
    if "run_from" in find("ledger.records").Job.__annotations__:
        pytest.skip("this release knows reruns")
    return release


class RunAgain(Mixture):
    """A mixture of which a job runs again."""

    def begin(self):
        """Publish a job."""
        self.published[JOB] = sales(*self.random.choices("xyzw", k=9))
        is_inline = bool(self.random.randrange(2))
        self._act("submit", JOB, self.published[JOB], None, is_inline)

    def work_off(self):
        """Let the versions take turns until nothing waits."""
        for _ in range(MOST_TURNS):
            if not self._turn() and not self._wait():
                return

    def act(self, name, **words):
        """Have a person of today do this with the job."""
        stores = Stores(self._observer, clock=self.clock)
        return getattr(stores.job_operator, name)(JOB, by="ann", why="tariff corrected", **words)

    def judge(self):
        """Return the job, the revisions of its rows, and what is wrong with it."""
        self._end()
        stores = Stores(self._observer, clock=self.clock)
        scenario = Scenario("mixture", None, None, revisions={JOB: (2, 2)})
        found = stores.ledger.read(JOB)
        return found, {row.revision for row in stores.ledger.rows(JOB)}, list(breaches(self, scenario))


@pytest.fixture
def mixed(before):
    """Return a mixture of the release before and today."""
    worlds = []

    def make(seed, **options):
        worlds.append(RunAgain({"release": before, "today": TODAY}, seed, **options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kills", [False, True])
def test_a_job_that_has_ended_runs_again_to_its_end(mixed, seed, kills):
    """An instance of before drops results of the new run until one of today gets them. The totals of before may be replaced."""
    world = mixed(seed, kills=kills)
    world.begin()
    world.work_off()
    assert world.act("rerun").revision == 2
    world.work_off()
    job, rows, wrong = world.judge()
    assert (job.state, job.revision, rows, [one for one in wrong if "named by no row" not in one]) == (
        JobState.COMPLETE,
        2,
        {2},
        [],
    )


def test_a_row_keeps_its_run_when_an_instance_of_before_writes_it(before):
    """A column that it does not know: a job's row is written by whoever credits a chunk."""
    entities = before[0]("ledger.entities")
    row = {"PartitionKey": "rated", "RowKey": "job", "content_hash": "x", "workload": "rated", "state": "running"}
    row |= {"accepted_at": "2026-11-20T12:00:00+00:00", "declared": "{}", "totals": "{}", "requests": "{}"}
    assert entities.job_entity(entities.job_of({**row, "run_from": 2}, ""))["run_from"] == 2
