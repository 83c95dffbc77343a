"""An entity of storage is lost in the middle of a job: docs/day-two.md says what goes on by itself, and what does not."""

import pytest

from shared.ledger.records import JobState
from shared.operating.parked_acts import Selection
from shared.operating.replay import ReplayPace
from tests.pipeline.whole_app import WholeApp, app_in_memory
from tools.cli.provision import make_in_storage

#: More chunks than are put at once, so that some wait for their turn.
SHOPS = 70
#: So many chunks that some still wait for their turn when the job pauses.
MANY = 140
#: Long enough for a silent job, an overdue pointer and a finish.
TICKS = 6
WHOLE = (JobState.COMPLETE, 2 * SHOPS)


@pytest.fixture(scope="module")
def app():
    """An installation on storage of its own."""
    with app_in_memory() as made:
        yield made


def begin(app, job, shops=SHOPS):
    """Submit a job, and end some of its chunks: the others lie on the queue."""
    app.submit(job, shops)
    app.deliver("submissions")
    app.go_on(1)
    found = app.read(job)
    assert 0 < found.done < found.dispatch_cursor < found.chunks


def lose(app, *entities):
    """Delete entities with everything in them, and make them anew as `sluice provision` does."""
    for kind, name in entities:
        if kind == "queue":
            app.others.queues.delete_queue(name)
        elif kind == "table":
            app.others.tables.delete_table(name)
        else:
            app.others.blobs.delete_container(name)
        assert make_in_storage(app.others, kind, name)


def go_on(app):
    """Let time pass, with ticks and deliveries."""
    app.work_off()
    for _ in range(TICKS):
        app.clock.advance(minutes=6)
        app.app.tick()
        app.work_off()


def ended(app, job):
    """Return how a job stands, and how many transactions counted."""
    found = app.read(job)
    return found.state, found.totals.accepted.items


@pytest.mark.parametrize(
    "entity",
    [
        ("queue", "work-00"),
        ("table", "totals"),
        ("table", "receipts"),
        ("table", "parked"),
        ("table", "jobindex"),
        ("container", "outputs"),
        ("container", "permits"),
        ("container", "settings"),
    ],
    ids=" ".join,
)
def test_a_job_goes_on_by_itself(app, entity):
    """The ledger knows it, or a message does: its sums are exact."""
    job = "-".join(("lost", *entity))
    begin(app, job)
    lose(app, entity)
    go_on(app)
    assert ended(app, job) == WHOLE


@pytest.mark.parametrize("more", [(), (("queue", "work-00"),)], ids=["alone", "with its messages"])
def test_a_job_without_its_pointer_goes_on_when_it_is_submitted_again(app, more):
    """Nothing follows it any more; its publisher's second submission does, and counts nothing twice."""
    job = f"unfollowed-{len(more)}"
    begin(app, job)
    lose(app, ("table", "pending"), *more)
    go_on(app)
    assert ended(app, job)[0] is JobState.DISPATCHING
    app.submit(job, SHOPS)
    go_on(app)
    assert ended(app, job) == WHOLE


def test_a_lost_namespace_costs_time_alone(app):
    """Results and permits are gone with it. The tick puts the silent chunks again."""
    app.submit("unsettled", SHOPS)
    app.deliver("submissions")
    app.deliver("work-00")
    assert app.bus.waiting("results")
    for queue in ("results", "permits"):
        app.bus.complete(app.bus.waiting(queue))
    go_on(app)
    assert ended(app, "unsettled") == WHOLE


def test_a_lost_payload_comes_back_from_its_publisher(app):
    """Chunks that need it are parked, and the job pauses. The same content puts it back; then resume and replay."""
    begin(app, "unpaid", MANY)
    lose(app, ("container", "payloads"))
    go_on(app)
    assert ended(app, "unpaid")[0] is JobState.PAUSED
    app.submit("unpaid", MANY)
    app.work_off()
    app.stores.job_operator.resume("unpaid", by="ann", why="mended")
    operator = app.stores.build_parked_operator(lambda _seconds: app.work_off())
    list(operator.replay(Selection(job="unpaid"), ReplayPace(), by="ann"))
    go_on(app)
    assert ended(app, "unpaid") == (JobState.COMPLETE, 2 * MANY)


@pytest.mark.parametrize(("container", "said"), [("results", "restore the blob"), ("plans", "the plan of job")])
def test_what_the_app_made_of_a_job_is_not_made_again(app, container, said):
    """The job pauses and says why, and nothing of it is published half. Another id counts the content anew."""
    begin(app, f"half-{container}")
    lose(app, ("container", container))
    go_on(app)
    found = app.read(f"half-{container}")
    assert (found.state, said in (found.problem or "")) == (JobState.PAUSED, True)
    app.run(f"again-{container}", SHOPS)
    assert ended(app, f"again-{container}") == WHOLE


@pytest.mark.parametrize("lost", [("table", "held"), ("container", "gates")], ids=" ".join)
def test_a_held_job_starts_when_it_is_submitted_again_at_the_latest(app, lost):
    """Behind a gate that was opened once before: it does not start by itself, and never twice."""
    gate, job = f"gate-of-{lost[1]}", f"behind-{lost[1]}"
    app.stores.gate_operator.open(gate, by="ann")
    app.stores.gate_operator.close(gate, by="ann")
    app.submit(job, SHOPS, gate=gate)
    app.work_off()
    assert ended(app, job) == (JobState.HELD, 0)
    lose(app, lost)
    go_on(app)
    assert ended(app, job) == (JobState.HELD, 0)
    app.stores.gate_operator.open(gate, by="ann")
    app.submit(job, SHOPS, gate=gate)
    go_on(app)
    assert ended(app, job) == WHOLE


def test_a_lost_ledger_is_counted_anew(app):
    """Its jobs are gone. The same submission is a new job, and counts from its first transaction."""
    app.run("ended", 4)
    lose(app, ("table", "jobs"))
    assert app.read("ended") is None
    app.run("ended", 4)
    assert ended(app, "ended") == (JobState.COMPLETE, 8)


def test_lost_ids_begin_anew_in_a_new_process():
    """The mark of first use is in the container too: so a new process gives numbers that are in use."""
    with app_in_memory() as app:
        app.run("before", 4)
        lose(app, ("container", "ids"))
        later = WholeApp(app.storage.connection_string, storage=app.storage)
        with later.metered, later.others:
            later.run("after", 4)
            assert later.read("after").id_base == later.read("before").id_base
