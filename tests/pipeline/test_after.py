"""Jobs that wait for others: they start by themselves, in every order of events, and say for whom they wait."""

import pytest

from shared.errors import JobStateError, RefusedError
from shared.ledger import JobState
from shared.ledger.precedence import MOST_WAITERS
from shared.pending import WAIT_POINTER
from shared.publish import Publisher
from shared.refusals import Reason
from shared.telemetry import events
from tests.faults import campaign
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.sales import PERMANENT
from tests.faults.world import INLINE, World, sales


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Take the shortcuts of the runs with faults."""
    for name, value in campaign.SHORTCUTS.items():
        monkeypatch.setattr(name, value)


class Night:
    """An installation in memory, and what people do to it."""

    def __init__(self):
        self.world = World(MemoryStorage(), Journal())
        self.app = self.world.app()
        self.stores = self.app.stores

    def submit(self, job, *shops, **options):
        """Publish a job with a sale in each of these shops."""
        with self.publisher() as publisher:
            publisher.submit(job=job, transactions=sales(*shops or "xw"), workload="sales", sums=("amount",), **options)

    def submit_jobs(self, job, *jobs, **options):
        """Publish a job that is made from these."""
        with self.publisher() as publisher:
            publisher.submit_jobs(job=job, jobs=jobs, workload="sales", **options)

    def publisher(self):
        """Return what a publisher has."""
        connections = self.app.connections
        return Publisher(
            connections.queues.get_queue_client("submissions"),
            connections.blobs.get_container_client("payloads"),
            limits=INLINE,
        )

    def run(self, *hold_back):
        """Let the host deliver what there is."""
        self.app.host(hold_back=hold_back).run()

    def tick(self, **later):
        """Let time pass, tick, and let the host deliver."""
        self.world.clock.advance(**(later or {"minutes": 11}))
        self.app.tick()
        self.run()

    def read(self, job):
        """Return the row of a job."""
        return self.stores.ledger.read(job)

    def state(self, job):
        """Return its state."""
        return self.read(job).state

    def parked(self):
        """Return why each submission is parked."""
        return [(one.reason, one.found) for one in self.stores.parked_table.entries()]

    def act(self, act, job, **more):
        """Have ann do something to a job."""
        return getattr(self.stores.job_operator, act)(job, by="ann", why="wrong tariff", **more)


@pytest.fixture
def night():
    """An installation of its own."""
    made = Night()
    yield made
    made.app.close()
    made.world.close()


def test_a_job_starts_when_its_predecessor_is_complete(night, told):
    """It is held until then, and nothing but the end of the other starts it."""
    night.submit("rate", "x", "w", "y")
    night.submit("report", after=["rate"])
    night.run("work-00")
    assert (night.state("report"), night.read("report").plan) == (JobState.HELD, None)
    assert night.read("rate").waiters == ("report",)
    assert told(events.JOB_WAITS) == [{"job": "report", "other": "rate", "left": 1}]
    night.run()
    assert (night.state("rate"), night.state("report")) == (JobState.COMPLETE, JobState.COMPLETE)
    assert night.read("report").totals.accepted.items == 2


def test_a_job_whose_predecessors_were_complete_before_starts_at_once(night):
    """It leaves its name with none of them, and nobody needs to wake it."""
    night.submit("a")
    night.submit("b")
    night.run()
    night.submit("report", after=["a", "b"])
    night.run()
    assert night.state("report") is JobState.COMPLETE
    assert (night.read("a").waiters, night.read("b").waiters) == ((), ())


def test_a_job_waits_for_one_at_a_time_in_their_order(night):
    """So many predecessors cost few writes: one each."""
    night.submit("report", after=["a", "b"])
    night.run()
    assert night.read("report").waits == ("a", "b")
    night.submit("b")
    night.run()
    assert (night.state("b"), night.state("report")) == (JobState.COMPLETE, JobState.HELD)
    night.submit("a")
    night.run()
    assert night.state("report") is JobState.COMPLETE
    assert (night.read("a").waiters, night.read("b").waiters) == (("report",), ())


def test_jobs_that_are_submitted_in_any_order_start_by_hints_alone(night):
    """The last stage comes first, and no tick comes: each row begins with the name of the one that waits for it."""
    night.submit("report", after=["invoice"])
    night.run()
    night.submit_jobs("invoice", "rate")
    night.run()
    assert night.read("invoice").waiters == ("report",)
    assert night.read("rate") is None
    night.submit("rate")
    night.run()
    assert [night.state(job) for job in ("rate", "invoice", "report")] == [JobState.COMPLETE] * 3


def test_the_names_of_a_job_that_never_came_are_none_of_its_own(night):
    """It is in no list, no search finds it, and no person can act on it."""
    night.submit("report", after=["ratte"])
    night.run()
    assert night.stores.ledger.list.find("ra", 10) == []
    assert [one.job for one in night.stores.ledger.newest(10)] == ["report"]
    with pytest.raises(JobStateError):
        night.act("stop", "ratte")


def test_a_lost_hint_costs_the_time_of_its_pointer(night):
    """The tick finds that the other has ended."""
    night.submit("rate")
    night.submit("report", after=["rate"])
    night.run("signals")
    night.world.bus.lose()
    assert (night.state("rate"), night.state("report")) == (JobState.COMPLETE, JobState.HELD)
    night.tick()
    assert night.state("report") is JobState.COMPLETE
    night.tick()
    assert [one for one in night.world._pointers() if one.kind == WAIT_POINTER] == []


def test_a_bus_that_takes_no_hint_costs_the_time_until_the_next_tick(night, monkeypatch):
    """Who ends the job leaves a pointer that is due."""
    night.submit("rate")
    night.submit("report", after=["rate"])
    night.run("work-00")
    night.world.bus.refusals = 0
    night.run("signals")
    night.world.bus.lose()
    assert night.state("report") is JobState.HELD
    night.tick(minutes=11)
    assert night.state("report") is JobState.COMPLETE


@pytest.mark.parametrize("after_parked", [False, True])
def test_parked_transactions_of_a_predecessor_hold_it_up(night, after_parked):
    """Until they are replayed, unless its publisher says otherwise."""
    night.world.sales.breaks_at = {"bad": PERMANENT}
    night.submit("rate", "x", "bad")
    night.submit("report", after=["rate"], **({"after_parked": True} if after_parked else {}))
    night.run()
    assert night.state("rate") is JobState.COMPLETED_WITH_PARKED
    assert night.state("report") is (JobState.COMPLETE if after_parked else JobState.HELD)


def test_a_stopped_predecessor_pauses_it_with_the_reason(night):
    """A resume looks again, and says the same."""
    night.submit("rate")
    night.submit("report", after=["rate"])
    night.run("work-00")
    night.act("stop", "rate")
    night.run()
    assert night.state("report") is JobState.PAUSED
    assert night.read("report").problem == "rate was stopped by ann: wrong tariff"
    night.act("resume", "report")
    night.run()
    assert night.state("report") is JobState.PAUSED


def test_it_can_be_paused_resumed_and_stopped_while_it_waits(night):
    """A paused one does not start when the other ends, and a resume does not miss that."""
    night.submit("rate")
    night.submit("report", after=["rate"])
    night.submit("third", after=["report"])
    night.run("work-00")
    night.act("pause", "report")
    night.run()
    assert (night.state("rate"), night.state("report")) == (JobState.COMPLETE, JobState.PAUSED)
    night.act("resume", "report")
    night.run()
    assert (night.state("report"), night.state("third")) == (JobState.COMPLETE, JobState.COMPLETE)
    night.submit("last", after=["nothing"])
    night.run()
    assert night.act("stop", "last").state is JobState.STOPPED
    with pytest.raises(JobStateError, match="could not pause job 'last': it is stopped"):
        night.act("pause", "last")


def test_a_circle_is_paused_and_named(night):
    """Both rows exist before either walk, so one of the walks finds it."""
    night.submit("a", after=["b"])
    night.submit("b", after=["c"])
    night.submit("c", after=["a"])
    night.run()
    night.tick()
    found = {job: night.read(job) for job in "abc"}
    paused = [one for one in found.values() if one.state is JobState.PAUSED]
    assert paused
    assert all(one.problem.startswith("it waits for itself: ") for one in paused)
    assert [one.problem for one in paused if one.job == "c"] == ["it waits for itself: c, a, b, c"]


def test_a_predecessor_may_be_buried_when_it_has_been_passed(night):
    """Its tombstone says in which state it had ended."""
    night.submit("rate")
    night.run()
    night.tick(days=31)
    night.tick(days=1)
    assert (night.state("rate"), night.read("rate").ended) == (JobState.BURIED, "complete")
    night.submit("report", after=["rate"])
    night.run()
    assert night.state("report") is JobState.COMPLETE


def test_the_same_submission_again_counts_once_and_another_is_refused(night):
    """The jobs that it waits for are a part of its content."""
    for _ in range(2):
        night.submit("report", after=["rate"])
        night.run()
    assert night.parked() == []
    night.submit("report", after=["other"])
    night.run()
    assert [reason for reason, _ in night.parked()] == [Reason.CONFLICT]


def test_more_jobs_wait_for_one_than_its_row_has_names(night, monkeypatch):
    """The further ones find its end by their pointers, each minute."""
    monkeypatch.setattr("shared.ledger.precedence.MOST_WAITERS", 1)
    night.submit("rate")
    night.submit("a", after=["rate"])
    night.submit("b", after=["rate"])
    night.run()
    assert (night.state("a"), night.state("b")) == (JobState.COMPLETE, JobState.HELD)
    night.tick(minutes=2)
    assert night.state("b") is JobState.COMPLETE
    assert MOST_WAITERS == 100


def test_a_gate_is_asked_after_the_predecessors(night):
    """So an opening before that does not start it, and one after it does."""
    night.submit("rate")
    night.submit("report", after=["rate"], gate="nightly")
    night.run()
    assert (night.state("report"), night.read("report").held_epoch) == (JobState.HELD, 0)
    night.app.open_gate()
    night.run()
    assert night.state("report") is JobState.COMPLETE


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([f"job-{number}" for number in range(101)], "names 101 jobs, the limit is 100"),
        ([], "names 0 jobs"),
        (["a", "a"], "names a job twice"),
        (["report"], "it waits for itself: report, report"),
        (["team-b~rate"], "a job can follow jobs of its own room only"),
    ],
)
def test_wrong_predecessors_are_refused_before_anything_is_sent(night, after, words):
    """The library reads them as the app does."""
    with pytest.raises(RefusedError, match=words):
        night.submit_jobs("report", *after)


def test_a_job_from_others_has_their_lines_and_proves_their_sums(night):
    """Lines made = declared = accepted; the sum is what the sources accepted."""
    night.submit("a", "x", "", "w")
    night.submit("b", "y")
    night.submit_jobs("invoice", "a", "b", sums={"amount": "amount"})
    night.run()
    made = night.read("invoice")
    assert (made.state, made.items, made.totals.accepted.items) == (JobState.COMPLETE, 3, 3)
    sources = [night.read(job).totals.accepted.sums["amount"] for job in "ab"]
    assert made.declared["amount"] == sum(sources) == made.totals.accepted.sums["amount"]
    assert dict(made.used) == {"a": 1, "b": 1}
    assert (night.read("a").waiters, night.read("b").waiters) == (("invoice",), ("invoice",))


def test_a_source_that_is_gone_on_from_is_read_again(night):
    """Its second revision has other totals: both come from the same manifest."""
    night.world.sales.breaks_at = {"bad": PERMANENT}
    night.submit("a", "x", "bad")
    night.submit_jobs("invoice", "a", "b", sums={"amount": "amount"}, after_parked=True)
    night.run()
    assert night.state("a") is JobState.COMPLETED_WITH_PARKED
    night.tick(minutes=2)
    night.world.sales.breaks_at = {}
    from shared.operating.replay import ReplayPace, Selection  # noqa: PLC0415

    list(night.app.operator().replay(Selection(), ReplayPace(patience=5), by="ann"))
    night.run()
    assert night.read("a").revision == 2
    night.submit("b", "y")
    night.run()
    night.tick(minutes=2)
    made = night.read("invoice")
    assert (made.state, made.items, dict(made.used)) == (JobState.COMPLETE, 3, {"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"files": "lines"}, "a accepted 2 transactions and wrote no lines files: its workload sales makes none"),
        ({"sums": {"amount": "weight"}}, "amount is the sum of weight, which a (sales) does not add up"),
    ],
)
def test_a_source_that_cannot_be_taken_pauses_the_job(night, options, words):
    """There is no message to park any more, and a person reads why."""
    night.submit("a")
    night.submit_jobs("invoice", "a", **options)
    night.run()
    made = night.read("invoice")
    assert made.state is JobState.PAUSED
    assert words in made.problem


def test_sources_with_more_lines_than_a_job_takes_are_refused_before_they_are_read(night):
    """It names what to do instead."""
    night.submit("a", "x", "w", "y")
    make = night.app.app.stages.succession.make_plan
    object.__setattr__(make, "limits", type(make.limits)(items_most=2))
    night.submit_jobs("invoice", "a")
    night.run()
    assert "its sources have 3 lines, a job takes 2: one job for each source" in night.read("invoice").problem


def test_a_tick_makes_a_plan_itself_after_three_hints_in_vain(night):
    """What takes as long as a tick keeps others waiting only where nobody else does it."""
    night.submit("a")
    night.submit_jobs("invoice", "a")
    night.run("signals")
    night.world.bus.lose()
    for _ in range(4):
        assert night.state("invoice") is JobState.HELD
        night.world.clock.advance(minutes=11)
        night.app.tick()
        night.world.bus.lose()
    night.run()
    assert night.state("invoice") is not JobState.HELD


def test_the_requests_of_waiting_are_on_the_bill_of_the_one_that_waits(night):
    """The other only gets a name into its row."""
    night.submit("alone")
    night.submit("rate")
    night.run()
    alone = night.read("alone").requests
    night.submit("report", after=["rate"], after_parked=True)
    night.submit_jobs("invoice", "rate")
    night.run()
    assert night.read("rate").requests == alone
    assert night.read("invoice").requests
