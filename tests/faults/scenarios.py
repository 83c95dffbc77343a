"""What is run with a fault at each of its requests: a preparation without faults, an act with them, and the way back."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from shared.errors import SluiceError
from shared.parked.operator import Selection
from shared.parked.replay import Pace
from shared.wiring import table_ledger
from tests.faults.host import StuckError, bury_dead_letter
from tests.faults.plan import KilledError, Plan
from tests.faults.sales import PERMANENT, UNKNOWN
from tests.faults.world import GATE, INLINE, MOST_TICKS, sales

A, B, C = "job-a", "job-b", "job-c"
GOOD = sales("x", "y", "x", "", "y", "x")
OTHER = sales("z", "z")
BROKEN = sales("x", "bad", "y", "", "odd", "x")
NOT_WORK = ("submissions", "work-00", "results", "signals")


def only(*stages):
    """Return what a host holds back that runs nothing but these."""
    return [name for name in NOT_WORK if name not in stages]


@dataclass(frozen=True)
class Scenario:
    """One part of the pipeline, or all of it."""

    name: str
    prepare: Callable
    act: Callable
    #: What people do afterwards: repeat what they were not told the end of.
    then: Callable = lambda world, app: None
    #: Whether all messages but the publishers' are lost after the fault.
    forgets: bool = False
    #: Whether the publishers' are lost as well.
    loses_submissions: bool = False
    #: Whether nothing may be dispatched before the gate is opened.
    is_gated: bool = False
    #: Entries that stay parked at the end: (stage, reason).
    parked: tuple = ()
    #: The revision that each job ends with, where it is not 1.
    revisions: dict = field(default_factory=dict)

    def __str__(self):
        return self.name


def nothing(world, app):
    """Begin with nothing."""


def submitted(world, app, gate=None, job=A, found=GOOD):
    """Publish a job."""
    app.submit(job, found, gate=gate)


def accepted(world, app):
    """Publish a job and put its chunks on the work queue."""
    submitted(world, app)
    app.host(hold_back=only("submissions")).run()


def processed(world, app):
    """Have the results of a job on the bus."""
    accepted(world, app)
    app.host(hold_back=only("work-00")).run()


def submit(world, app):
    """Publish, once with a blob and once inline."""
    app.submit(A, GOOD)
    app.submit(B, OTHER, limits=INLINE)


def submit_again(world, app):
    """Publish what may not have arrived; what has arrived counts once all the same."""
    submit(world, app)


def accept(world, app):
    """Accept and dispatch."""
    app.host(hold_back=only("submissions")).run()


def process(world, app):
    """Run the chunks."""
    app.host(hold_back=only("work-00")).run()


def everything(world, app):
    """Let the host do whatever there is to do."""
    app.host().run()


def hold_and_release(world, app):
    """Accept behind a closed gate, open it, and let the signal start the dispatch."""
    accept(world, app)
    app.open_gate()
    app.host(hold_back=only("submissions", "signals")).run()


def open_again(world, app):
    """Let what is not held yet be held, then open the gate, whoever opened it before."""
    app.host().run()
    app.open_gate()


def whole(world, app):
    """Go all the way from a publisher to the outputs, through a gate."""
    app.submit(A, GOOD, gate=GATE)
    app.host().run()
    app.open_gate()
    app.host().run()


def whole_again(world, app):
    """Publish and open again."""
    app.submit(A, GOOD, gate=GATE)
    open_again(world, app)


def broken(world, app, **shops):
    """Have a job on the work queue whose workload is broken, for two shops or for those that are named."""
    submitted(world, app, found=BROKEN)
    app.host(hold_back=only("submissions")).run()
    world.sales.breaks_at = shops or {"bad": PERMANENT, "odd": UNKNOWN}


def mended_with_parked(world, app, **shops):
    """Have chunks parked and the cause removed."""
    broken(world, app, **shops)
    app.host().run()
    world.sales.breaks_at = {}


def mended_long_ago(world, app):
    """Have one chunk parked, and a job that the tick does not look after any more."""
    mended_with_parked(world, app, bad=PERMANENT)
    come_to_rest(world, app)


def replay(world, app):
    """Replay everything that is parked."""
    list(app.operator().replay(Selection(), Pace(patience=5), by="ann"))


def replay_elsewhere(world, app):
    """Replay from another process, which outlives the one that works and sees what the ledger has."""

    def let_work(seconds):
        with suppress(KilledError):
            app.let_work(seconds)

    with world.app(Plan()) as person:
        list(person.operator(let_work).replay(Selection(), Pace(patience=5), by="ann"))


def replay_again(world, app):
    """Let the work end, then mend the cause and replay until nothing is open any more."""
    # A settler that ended right after its pointer leaves it waiting for a revision that only the next replay makes.
    with suppress(StuckError):
        come_to_rest(world, app)
    world.sales.breaks_at = {}
    for _ in range(3):
        operator = app.operator()
        list(operator.replay(Selection(), Pace(patience=5, again=True), by="ann"))
        come_to_rest(world, app)
        if not operator.selected(Selection()):
            return


def gave_up(world, app):
    """Have a host that gives up early, before the app itself would park, and a tick that drains what it left."""
    app.host(most_deliveries=3).run()
    quarter(world)
    app.tick()
    app.host(most_deliveries=3).run()


def given_up(world, app):
    """Have a submission that the host gave up."""
    submitted(world, app)
    queues = world.observer().queues
    (message,) = queues.get_queue_client("submissions").receive_messages(max_messages=1)
    queues.get_queue_client("submissions-poison").send_message(message.content)
    queues.get_queue_client("submissions").delete_message(message)


def drain(world, app):
    """Run the timer at a quarter of an hour."""
    quarter(world)
    app.tick()


def after_poison(world, app):
    """Let the same host go on, and drain again."""
    for _ in range(3):
        app.host(most_deliveries=3).run()
        quarter(world)
        with suppress(SluiceError):
            app.tick()
    replay_again(world, app)


def quarter(world):
    """Move to the next quarter of an hour, when poison is looked after."""
    world.clock.advance(minutes=15 - world.clock.now().minute % 15)


def submit_unplanned(world, app):
    """Publish once more what the ledger has no plan of: nobody but its publisher knows it any more."""
    job = table_ledger(world.observer()).read(A)
    if job is None or job.plan is None:
        submitted(world, app)


def forgotten(world, app):
    """Have three jobs, each elsewhere on its way, and lose every message and signal."""
    submitted(world, app, job=A)
    app.host(hold_back=only("submissions")).run()
    app.host(hold_back=only("work-00")).run()
    submitted(world, app, job=B, found=OTHER, gate=GATE)
    submitted(world, app, job=C, found=OTHER)
    app.host(hold_back=only("submissions", "results")).run()
    app.open_gate()
    world.lose_messages()
    world.clock.advance(minutes=20)


def untold(world, app):
    """Have a finished job of which nobody was told."""
    accepted(world, app)
    with world.app(Silent(note=world.journal.note)) as silent:
        silent.host().run()
    world.clock.advance(minutes=20)


class Silent(Plan):
    """A bus that takes no announcements."""

    def around(self, site, act):
        """Refuse announcements."""
        if site.endswith("completed"):
            raise OSError("down")
        super().around(site, act)


def tick(world, app):
    """Run the timer, and what it put on its way."""
    quarter(world)
    app.tick()
    app.host().run()


def strange(world, app):
    """Have a job accepted, and on the queue one of the same name with other content, and something else entirely."""
    accepted(world, app)
    app.host().run()
    app.submit(A, OTHER, limits=INLINE)
    world.published[A] = GOOD
    queue = world.observer().queues.get_queue_client("submissions")
    queue.send_message("what is this", time_to_live=-1)


def dead_letter(world, app):
    """Have the bus give up one result."""
    processed(world, app)
    letter = world.bus.waiting("results")[0]
    world.bus.complete([letter])
    world.letter = letter.body.encode()


def bury(world, app):
    """Park the dead letter, and settle the others."""
    app.plan.stage = "park"
    bury_dead_letter(app, world.letter)
    app.host().run()


def bury_again(world, app):
    """Be given the dead letter again."""
    bury_dead_letter(app, world.letter)


def come_to_rest(world, app):
    """Deliver and tick until nobody is waiting for anything."""
    for _ in range(MOST_TICKS):
        app.host().run()
        waiting = world.unfinished()
        if not waiting:
            return
        world.clock.advance(minutes=15)
        with suppress(SluiceError):
            app.tick()
    raise StuckError(f"after {MOST_TICKS} ticks there still is {', '.join(waiting)}")


SCENARIOS = (
    Scenario("submit", nothing, submit, submit_again),
    Scenario("accept, gate open", submitted, accept),
    Scenario(
        "accept, gate closed, release", lambda w, a: submitted(w, a, GATE), hold_and_release, open_again, is_gated=True
    ),
    Scenario("process", accepted, process),
    Scenario("settle and finish", processed, everything),
    Scenario("park", broken, everything, replay_again, revisions={A: (2, 3)}),
    Scenario("replay", mended_with_parked, replay, replay_again, revisions={A: (2, 3)}),
    Scenario("host gives up, drain", broken, gave_up, after_poison, revisions={A: (1, 3)}),
    Scenario("drain a submission", given_up, drain, replay_again),
    Scenario("tick after all was lost", forgotten, tick),
    Scenario("tick after nobody was told", untold, tick),
    Scenario(
        "refuse a submission",
        strange,
        everything,
        parked=(("accept", "conflict"), ("accept", "not_json")),
    ),
    Scenario("bury a dead letter", dead_letter, bury, bury_again, parked=(("settle", "dead_lettered"),)),
    Scenario("the whole way", nothing, whole, whole_again, is_gated=True),
    Scenario("accept, then all is lost", submitted, accept, forgets=True),
    Scenario(
        "release, then all is lost",
        lambda w, a: submitted(w, a, GATE),
        hold_and_release,
        open_again,
        forgets=True,
        is_gated=True,
    ),
    Scenario("settle and finish, then all is lost", processed, everything, forgets=True),
    Scenario(
        "accept, then even the submission is lost",
        submitted,
        accept,
        submit_unplanned,
        forgets=True,
        loses_submissions=True,
    ),
    Scenario("tick after all was lost, and lost again", forgotten, tick, forgets=True),
    Scenario("replay, then all is lost", mended_with_parked, replay, replay_again, forgets=True, revisions={A: (2, 3)}),
    Scenario(
        "work on what is replayed, then all is lost",
        mended_long_ago,
        replay_elsewhere,
        replay_again,
        forgets=True,
        revisions={A: (2, 3)},
    ),
)
