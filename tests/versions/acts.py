"""People pause, resume, stop and rerun jobs while several versions work on them, and processes are killed."""

from contextlib import suppress
from dataclasses import replace

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobLeaseClient

from shared.app import Stores
from shared.dequeue import CONTAINER
from shared.dequeue.permits import FEEDER
from shared.ledger import JobState
from tests.faults.invariants import breaches
from tests.faults.plan import KilledError, Plan
from tests.faults.scenarios import Scenario
from tests.faults.world import sales
from tests.versions.mixture import KILLED, MOST_TURNS, Mixture

WHY = {"by": "ann", "why": "wrong tariff"}
#: One turn in so many is an act of a person; and acts of one run, after which all that is paused or stopped goes on.
ACT, ACTS = 6, 8
#: Seconds between two ticks, longer than anything hides or rests. So a job that is open goes on after each.
LONG = 900
#: Ticks in a row after which an open job has gone on.
STALLED = 2
#: What a person does next with a job in this state.
_NEXT = {
    JobState.DISPATCHING: ("pause", "stop"),
    JobState.RUNNING: ("pause", "stop"),
    JobState.PAUSED: ("resume", "rerun", "stop"),
    JobState.STOPPED: ("rerun",),
    JobState.COMPLETE: ("rerun",),
}
#: What ends the acts: each job is to be complete.
_LAST = {JobState.PAUSED: "resume", JobState.STOPPED: "rerun"}


class ActedOn(Mixture):
    """A mixture of versions that know these acts, with a person beside it."""

    def __init__(self, versions, seed, *, kills=True, acts=ACTS):
        super().__init__(versions, seed, kills=kills, sizes=(6, 9, 14))
        self.left, self.acts, self.stalls, self.waits = acts, [], 0, 0
        self._ledger = Stores(self._observer, clock=self.clock).ledger

    def run(self, jobs=3):
        """Publish jobs, let the versions and the person take turns, and return what is wrong."""
        for number in range(jobs):
            name = f"job-{'abc'[number]}"
            self.published[name] = sales(*self.random.choices("xyzw", k=self.random.choice(self.sizes)))
            self._act("submit", name, self.published[name], None, bool(self.random.randrange(2)))
        for _ in range(MOST_TURNS):
            if self.left and not self.random.randrange(ACT):
                self._person()
            if self._look_and_turn():
                self.waits = 0
            elif self.waits > 3 * STALLED or not self._wait_or_act():
                break
        self._end()
        scenario = Scenario("mixture", None, None, revisions=dict.fromkeys(self.published, (1, 1 + ACTS)))
        found = [one for one in breaches(self, scenario) if "named by no row" not in one]
        return [*found, *([f"no turn for {self.stalls} ticks"] if self.stalls > STALLED else [])]

    def _wait_or_act(self):
        """Let time pass and a version tick. If a person holds up all jobs, the person acts. False: nothing is left to do."""
        if self._goes_on():
            self.waits += 1
            self.stalls = max(self.stalls, self.waits)
        elif self.left:
            self._person()
        elif not self._end_acts() and not self.unfinished() and not any(self.depths().values()):
            return False
        self._pass_time(LONG)
        self._act("tick")
        return True

    def _look_and_turn(self):
        for process in self._processes.values():
            process._app.following.look()
        return self._turn() or self._feed()

    def _feed(self):
        """Have a version put the chunks that wait for their turn. Others work while it rests. False: it is not wanted."""
        letters = self.bus.waiting("permits", self.clock.now().timestamp())
        self.bus.complete(letters)
        if not letters:
            return False
        # No feeder lives now. In memory the lease of a dead one ends only so, and would hold up all others for ever.
        with suppress(HttpResponseError):
            BlobLeaseClient(self._observer.blobs.get_blob_client(CONTAINER, FEEDER)).break_lease(0)
        process = self._process(self.random.choice(self.names), None)
        replace(process._app.stages.feeder, pause=self._rest).follow()
        return True

    def _rest(self, seconds):
        self._pass_time(seconds)
        self._turn()

    def _goes_on(self):
        """Check whether a job is open, and no person holds it up."""
        ends = {JobState.PAUSED, JobState.STOPPED, JobState.COMPLETE}
        return any((job := self._read(name)) is None or job.state not in ends for name in self.published)

    def _read(self, name):
        return self._ledger.read(name)

    def _end_acts(self):
        """Let what is paused or stopped go on. False: nothing was."""
        found = [(name, job.state) for name in self.published if (job := self._read(name)) and job.state in _LAST]
        for name, state in found:
            self._do(_LAST[state], name)
        return bool(found)

    def _person(self):
        name = self.random.choice(sorted(self.published))
        job = self._read(name)
        if job is not None and job.state in _NEXT:
            self.left -= 1
            self._do(self.random.choice(_NEXT[job.state]), name)

    def _do(self, act, job):
        """Do this in a process of a version. It may be killed; then the person repeats the act."""
        version, plan = self.random.choice(self.names), None
        if self.kills and not self.random.randrange(KILLED // 3):
            self._end(version)
            plan = Plan.of(self.random.randint(1, 12), self.random.choice(["kill_before", "kill_after"]))
            plan.note = self.journal.note
        process = self._process(version, plan)
        self.acts.append((act, job))
        try:
            # The state was read a moment ago, and a repeated act may be done.
            with suppress(process._find("errors").SluiceError):
                getattr(process._stores.job_operator, act)(job, **WHY)
        except KilledError:
            self.killed += 1
            self._processes.pop(version, None)
            self._do(act, job)
        finally:
            if plan is not None:
                self._processes.pop(version, None)
