"""Transactions that fail, that wait, and that have lines, while an instance of the release before works beside ours."""

from functools import partial

import pytest

from shared.ledger import JobState
from shared.operating.replay import ReplayPace, Selection
from shared.workloads import Line
from tests.faults.invariants import breaches
from tests.faults.scenarios import Scenario
from tests.versions.driver import Driver
from tests.versions.loading import find_today
from tests.versions.mixture import Mixture

#: Revisions that a job may have at its end: each wave of a replay makes one.
REVISIONS = (1, 12)


pytestmark = pytest.mark.usefixtures("quick")


class Left(Mixture):
    """Jobs of which some transactions fail, in whichever version, until the workload is mended."""

    def __init__(self, versions, seed, error=None):
        super().__init__(versions, seed, sizes=(4, 6))
        self.error, self.paused = error, []

    def run(self, jobs=2):
        """Work the jobs off beside the release before, and replay what is parked. Then it is gone, and what it paused goes on."""
        self.work_off(self.publish(jobs, "xyzwo"))
        self.error = None
        self._replay()
        self.names = ["today"]
        self._resume()
        # What was parked meanwhile, and what has landed and was not said to have.
        for _ in range(2):
            self._replay(again=True)
        self._end()
        revisions = dict.fromkeys(self.published, REVISIONS)
        return list(breaches(self, Scenario("mixture", None, None, revisions=revisions)))

    def _replay(self, *, again=False):
        with self.app() as app:
            operator = app.stores.build_parked_operator(self._work)
            list(operator.replay(Selection(), ReplayPace(patience=5, again=again), by="ann"))
        self.work_off()

    def _resume(self):
        with self.app() as app:
            self.paused = [one for one in self.published if app.stores.ledger.read(one).state is JobState.PAUSED]
            for job in self.paused:
                app.stores.job_operator.resume(job, by="ann", why="the release before is gone")
        self.work_off()

    def _work(self, seconds):
        """Take turns while the operator waits."""
        self._pass_time(seconds)
        self._turn()

    def _process(self, name, plan):
        process = super()._process(name, plan)
        workload = process._app.stages.processor._tools.workloads.find("sales")
        if "map" not in vars(workload):
            workload.map = partial(self._map, workload.map)
        return process

    def _map(self, mapped, sale, number):
        if sale.shop == "o" and self.error is not None:
            raise self.error
        return mapped(sale, number)


class Lined(Left):
    """Jobs of a workload that ours makes lines of. That of before has the version of the workload without them."""

    def _process(self, name, plan):
        process = super()._process(name, plan)
        if name == "today":
            process._app.stages.processor._tools.workloads.find("sales").lines = self._lines
        return process

    def _lines(self, sale, number, _sold):
        yield Line({"number": number, "shop": sale.shop})


def check(world):
    """Run it, and return the jobs that were paused on the way."""
    try:
        assert world.run() == [], world.raised()
        return world.paused
    finally:
        world.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("error", [KeyError("a bug"), TimeoutError("no answer")], ids=["fault", "later"])
def test_what_either_parks_is_replayed_by_either(release, error, seed):
    """Ours sets transactions aside and keeps what a chunk came to; the one before parks chunks. Each is counted once in the end."""
    check(Left({"release": release, "today": (find_today, Driver)}, seed, error))


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_made_by_ours_alone(release, seed):
    """A job that the release before accepted makes none. One that ours accepted has a line of each transaction."""
    check(Lined({"release": release, "today": (find_today, Driver)}, seed))
