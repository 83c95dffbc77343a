"""What is run with a fault at each of its requests: a preparation without faults, an act with them, and the way back."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

import zstandard
from msgspec import structs

from shared.app import Stores
from shared.concurrency import Decision, parse
from shared.concurrency.fleet import FleetChange, RulesInForce
from shared.errors import JobStateError, SluiceError
from shared.gate.held import SLICES, slice_of
from shared.ledger import JobState
from shared.messages import (
    ChunkMessage,
    Completed,
    Delivery,
    DispatchMessage,
    Finish,
    Result,
    Results,
    Segment,
    Shard,
    decode,
    encode,
)
from shared.operating.replay import ReplayPace, Selection
from shared.parked.entry import chunk_key, job_note
from shared.pipeline.settle import Received
from shared.signals import Hint
from tests.faults.host import BATCH, HIDDEN, StuckError, bury_dead_letter
from tests.faults.invariants import MARK, breaches, breaches_of_erased, breaches_of_rerun, breaches_of_stopped
from tests.faults.limited import LimitedWorld, breaches_of_limit, process_beside
from tests.faults.plan import KilledError, Plan
from tests.faults.sales import PERMANENT, UNKNOWN, DyingError
from tests.faults.world import (
    GATE,
    INLINE,
    MOST_TICKS,
    STRETCHED,
    FedWorld,
    JoinedWorld,
    LinedWorld,
    LongLinedWorld,
    RangedWorld,
    SegmentedWorld,
    ShardedWorld,
    SpannedWorld,
    UnfedRangedWorld,
    UnfedWorld,
    WaitingWorld,
    WholeWorld,
    World,
    sales,
)

A, B, C = "job-a", "job-b", "job-c"
GOOD = sales("x", "w", "x", "", "w", "x")
OTHER = sales("z", "z")
BROKEN = sales("x", "bad", "w", "", "odd", "x")
#: Two chunks of which few fail, and one of which none does.
ASIDE = sales("x", "bad", "w", "", "odd", "x", "bad", "w")
#: A slice that holds neither.
_EMPTY = next(number for number in range(SLICES) if number not in {slice_of(A), slice_of(B)})
NOT_WORK = ("submissions", "work-00", "results", "signals", "permits")


def only(*stages):
    """Return what a host holds back that runs nothing but these."""
    return [name for name in NOT_WORK if name not in stages]


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
    #: The installation, what brings it to rest after the fault, and what must hold then.
    world: type = World
    rest: Callable = come_to_rest
    check: Callable = breaches
    #: Minutes that pass before anybody repeats anything.
    pause: float = 60
    #: How often chunks are computed at most, beside once for each fault. None: not counted.
    runs: int | None = None

    def __str__(self):
        return self.name


def nothing(world, app):
    """Begin with nothing."""


def submitted(world, app, gate=None, job=A, found=GOOD):
    """Publish a job."""
    app.submit(job, found, gate=gate)


def small_submitted(world, app, gate=None):
    """Publish a job of one chunk, with its transactions in the message."""
    app.submit(A, sales("x", "w"), gate=gate, limits=INLINE)


def accepted(world, app):
    """Publish a job and put its chunks on the work queue."""
    submitted(world, app)
    app.host(hold_back=only("submissions")).run()


def two_accepted(world, app):
    """Accept two jobs."""
    submitted(world, app)
    submitted(world, app, job=B, found=OTHER)
    app.host(hold_back=only("submissions")).run()


def processed(world, app):
    """Have the results of a job on the bus."""
    accepted(world, app)
    app.host(hold_back=only("work-00")).run()


def grow(world, app, gate=None):
    """Publish in stretches, and let the app take each of them as it comes."""

    def let_take(_number, _is_found):
        app.host().run()
        app.plan.stage = "submit"

    app.submit(A, GOOD, gate=gate, limits=STRETCHED, report=let_take)
    app.host().run()


def grow_again(world, app):
    """Publish the same once more: it goes on behind what is there."""
    app.submit(A, GOOD, limits=STRETCHED)


def grow_and_release(world, app):
    """Publish in stretches behind a closed gate, and open it when half of them are there."""

    def open_in_between(number, _is_found):
        accept(world, app)
        if number == 2:
            app.open_gate()
            app.host(hold_back=only("submissions", "signals")).run()
        app.plan.stage = "submit"

    app.submit(A, GOOD, gate=GATE, limits=STRETCHED, report=open_in_between)
    accept(world, app)


def grow_again_and_open(world, app):
    """Publish the same once more, and open the gate."""
    app.submit(A, GOOD, gate=GATE, limits=STRETCHED)
    open_again(world, app)


def grow_beside_another(world, app):
    """Publish in stretches while another process publishes the same."""

    def overtake(number, _is_found):
        if number == 1:
            with world.app(Plan()) as other:
                other.submit(A, GOOD, limits=STRETCHED)
                other.host(hold_back=only("submissions")).run()

    app.submit(A, GOOD, limits=STRETCHED, report=overtake)
    app.host().run()


def grown(world, app):
    """Have all stretches and the end there, of which the app has seen nothing."""
    app.submit(A, GOOD, limits=STRETCHED)


def dropped_file(world, app, gate=None, pack=bytes):
    """Have a large file there as any tool writes it, and the message about it."""
    first, second, *others = [json.dumps(sale).encode() for sale in GOOD]
    text = b"\xef\xbb\xbf" + first + b"\r\n\n" + second + b"\n" * 250 + b"\n".join(others)
    world.observer().blobs.get_container_client("payloads").get_blob_client("uploads/sales").upload_blob(pack(text))
    body = {"job": A, "workload": "sales", "payload": {"blob": "uploads/sales"}, **({"gate": gate} if gate else {})}
    world.published[A] = GOOD
    queue = world.observer().queues.get_queue_client("submissions")
    queue.send_message(json.dumps({"sluice": body}), time_to_live=-1)


def dropped_packed(world, app):
    """Have the same file there as gzip, which cannot be read from within."""
    dropped_file(world, app, pack=lambda text: gzip.compress(text, mtime=0))


def cut_one_by_one(world, app):
    """Let each range call for the next one."""
    with patch("shared.payload.ranges.AHEAD", 1):
        app.host().run()


def cut_some_and_release(world, app):
    """Accept behind a closed gate, cut what is called for, and open the gate while more is cut."""
    accept(world, app)
    process(world, app)
    app.open_gate()
    app.host().run()


def grow_and_never_end(world, app):
    """Publish two stretches, and have the publisher never come back: a person stops the job."""

    def die(number, _is_found):
        app.host().run()
        app.plan.stage = "submit"
        if number == 2:
            raise KilledError

    with suppress(KilledError):
        app.submit(A, GOOD, limits=STRETCHED, report=die)


def stop_open(world, app):
    """Stop the job, if it was ever accepted."""
    app.host().run()
    if app.stores.ledger.read(A) is None:
        app.submit(A, GOOD, limits=STRETCHED)
    stop_again(world, app)


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


def limited(world, app):
    """Accept two jobs of a room that has two chunks on the queues at most, by rules that a tick has read."""
    fleet = Stores(world.observer()).fleet
    text = 'version: 1\nrules: [{name: a, tasks: 4}]\nshares: {rooms: {"": {most: 2}}}'
    decision = Decision(4, world.clock.now(), {"rule": 4}, "rule", "a")
    fleet.commit(fleet.read(), FleetChange(decision=decision, in_force=RulesInForce(parse(text), text, '"limited"')))
    two_accepted(world, app)


def feed(world, app):
    """Put the chunks that wait for their turn, while others are worked on."""
    app.host(hold_back=only("permits", "work-00", "results")).run()


def process(world, app):
    """Run the chunks."""
    app.host(hold_back=only("work-00")).run()


def process_refused(world, app):
    """Run the chunks while the bus refuses some of their results."""
    world.bus.refusals = 4
    process(world, app)


def process_and_lose(world, app):
    """Run the chunks, and have the bus lose the results."""
    process(world, app)
    world.bus.lose()


def bundled(world, app, *more, jobs=((A, GOOD),)):
    """Have the results of jobs on the bus, all in one message, with others."""
    for job, found in jobs:
        submitted(world, app, job=job, found=found)
    app.host(hold_back=only("submissions")).run()
    app.host(hold_back=only("work-00")).run()
    letters = world.bus.waiting("results")
    results = [decode(letter.body.encode()) for letter in letters]
    world.bus.complete(letters)
    whole = Results(results=[*results, *(change(results[0]) for change in more)])
    world.bus.send("results", "results", encode(whole).decode())
    return results


def bundled_with_a_bad_one(world, app):
    """Have a result among the others that is not what its message says."""
    bundled(world, app, lambda result: structs.replace(result, hash="0" * 64))


def bundled_with_another_run(world, app):
    """Have a second result of the first chunk, which differs, as of a worker that was taken for dead."""

    def differ(result):
        content = zstandard.decompress(base64.b64decode(result.content)) + b" "
        packed = base64.b64encode(zstandard.compress(content)).decode()
        return structs.replace(result, content=packed, hash=hashlib.sha256(content).hexdigest())

    bundled(world, app, differ)


def overlapping(world, app):
    """Have a message with all results, and one with two of them."""
    results = bundled(world, app)
    world.bus.send("results", "results", encode(Results(results=results[1:])).decode())


class Overtaken:
    """Blobs of results; after one was written, another settler is quicker with a part of the same results."""

    def __init__(self, groups, overtake):
        self._groups, self._overtake = groups, overtake

    def put(self, blob):
        """Write a blob, then let the other one settle, once."""
        self._groups.put(blob)
        overtake, self._overtake = self._overtake, lambda: None
        overtake()


def settle_overlapping(world, app):
    """Settle one message while another process settles the other."""

    def overtake():
        letter = world.bus.waiting("results")[-1]
        with world.app(Plan()) as other:
            other.app.settle([Received(letter.body.encode(), letter.id)])

    app.app.stages.settler._groups = Overtaken(app.stores.groups, overtake)
    app.host().run()


def everything(world, app):
    """Let the host do whatever there is to do."""
    app.host().run()


def hold_and_release(world, app):
    """Accept behind a closed gate, open it, and let the signal start the dispatch."""
    accept(world, app)
    app.open_gate()
    app.host(hold_back=only("submissions", "signals")).run()


def hold_and_release_by_slices(world, app):
    """Accept two jobs behind a closed gate, open it, and let a signal for each of their slices start what is in it."""
    accept(world, app)
    app.open_gate()
    for number in (slice_of(A), slice_of(B), _EMPTY):
        app.plan.stage = "release"
        app.app.release(Hint(GATE, slice=number))


def hold_and_release_by_timetable(world, app):
    """Accept behind a closed gate that has a timetable, and let two ticks open it, and end the timetable between them."""
    accept(world, app)
    app.set_timetable()
    quarter(world)
    app.tick()
    app.end_timetable()
    tick(world, app)


def set_and_end_again(world, app):
    """Set the timetable again, let it open, and end it. Where it was set already, the first tick may have to plan."""
    app.host().run()
    app.set_timetable()
    tick_twice(world, app)
    app.end_timetable()


def two_held(world, app):
    """Publish two jobs behind a gate."""
    submitted(world, app, GATE)
    submitted(world, app, GATE, B, OTHER)


def forge(world, app):
    """Send what the app's stages send each other, as a publisher does to its queue; and a hint, as only insiders can."""
    for message in (
        DispatchMessage(job=A),
        ChunkMessage(job=A, chunk=0, revision=1, workload="sales", codec="plain", frames=[], first_id=0),
        Result(job=A, chunk=0, revision=1),
        Finish(job=A, revision=1),
        Segment(job=A, revision=1, segment=0),
        Shard(job=A, revision=1, shard=0),
        Completed(job=A, revision=1, workload="sales", state="complete"),
    ):
        Stores(app.connections).put("submissions", encode(message).decode())
    app.stores.signals.send_job(A)


def hold_and_release_among_forged(world, app):
    """Do the same, with forged messages before, between and after."""
    for act in (accept, nothing, lambda world, app: app.open_gate()):
        forge(world, app)
        act(world, app)
        app.host(hold_back=only("submissions", "signals")).run()


def forge_and_open_again(world, app):
    """Forge once more, since some of it may never have been sent, and open the gate."""
    forge(world, app)
    open_again(world, app)


def open_again(world, app):
    """Let what is not held yet be held, then open the gate, whoever opened it before."""
    app.host().run()
    app.open_gate()


def waiting(world, app):
    """Publish a job, and one that waits for it."""
    app.submit(A, GOOD)
    app.submit(B, OTHER, after=[A])


def made_from(world, app, gate=None):
    """Publish a job that is made from another, which comes after it."""
    app.submit(B, [sale for sale in GOOD if sale["shop"]], sources=[A], gate=gate)
    app.submit(A, GOOD)


def made_and_released(world, app):
    """Let both run, and open the gate of the second."""
    app.host().run()
    app.tick()
    app.open_gate()
    app.host().run()


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


def pause(world, app):
    """Have a person pause the job, and its messages be dropped."""
    app.plan.stage = "act"
    app.stores.job_operator.pause(A, by="ann", why="wrong tariff")
    world.clock.advance(seconds=11)
    app.host(hold_back=only("work-00")).run()


def pause_and_resume(world, app):
    """Do that, and have it go on."""
    pause(world, app)
    app.plan.stage = "act"
    app.stores.job_operator.resume(A, by="ann", why="mended")
    app.host().run()


def resume_again(world, app):
    """Resume what is paused, whoever paused it, after the tick has seen it."""
    app.tick()
    app.host().run()
    if app.stores.ledger.read(A).state is JobState.PAUSED:
        app.stores.job_operator.resume(A, by="ann", why="mended")


def stop(world, app):
    """Have a person stop the job, and its messages and results be dropped."""
    app.plan.stage = "act"
    app.stores.job_operator.stop(A, by="ann", why="wrong file")
    world.clock.advance(seconds=11)
    app.host().run()


def stop_again(world, app):
    """Stop it once more, unless it has ended before the first one came."""
    with suppress(JobStateError):
        app.stores.job_operator.stop(A, by="ann", why="wrong file")


def stop_held(world, app):
    """Stop a job behind its gate, and open that."""
    accept(world, app)
    app.plan.stage = "act"
    app.stores.job_operator.stop(A, by="ann", why="wrong file")
    app.open_gate()
    app.host().run()


def stop_held_again(world, app):
    """Do that again."""
    app.host().run()
    stop_again(world, app)
    app.open_gate()


def rerun(world, app):
    """Have a person run the job again, while results of the run before are on their way."""
    app.plan.stage = "act"
    app.stores.job_operator.rerun(A, by="ann", why="tariff corrected", revision=1)
    world.clock.advance(seconds=11)
    app.host().run()


def moved_source(world, app):
    """Have a job that was made from another, which has run again since."""
    made_from(world, app)
    come_to_rest(world, app)
    app.stores.job_operator.rerun(A, by="ann", why="tariff corrected", revision=1)
    come_to_rest(world, app)


def rerun_newest(world, app):
    """Have a person run the second one again, which takes what the first one made since."""
    app.plan.stage = "act"
    app.stores.job_operator.rerun(B, by="ann", why="tariff corrected", revision=1)
    app.host().run()


def rerun_newest_again(world, app):
    """Do that again under the same revision: it begins no second run."""
    app.host().run()
    app.stores.job_operator.rerun(B, by="ann", why="tariff corrected", revision=1)


#: Each shop has the mark of a job that is erased. One chunk is rejected in part, of another one few fail, and one fails.
_SHOP = MARK.decode()
MARKED_SALES = sales(_SHOP, "", f"{_SHOP}-bad", f"{_SHOP}-bad", _SHOP, f"{_SHOP}-odd")


def marked(world, app):
    """Have a job on the work queue whose transactions have the mark, and of which some fail with it in their words."""
    submitted(world, app, found=MARKED_SALES)
    app.host(hold_back=only("submissions")).run()
    world.sales.breaks_at = {f"{_SHOP}-{name}": _say_mark for name in ("bad", "odd")}


def _say_mark():
    return ValueError(f"{_SHOP} is no shop")


def marked_and_parked(world, app):
    """Have it end with what is parked."""
    marked(world, app)
    come_to_rest(world, app)


def erase(world, app):
    """Have a person erase the job, and whatever comes of it be dropped."""
    app.plan.stage = "act"
    app.stores.job_eraser.erase(A, by="ann", why="request 4711")
    world.clock.advance(seconds=11)
    app.host().run()


def rerun_again(world, app):
    """Do that again under the same revision: it begins no second run."""
    app.host().run()
    app.stores.job_operator.rerun(A, by="ann", why="tariff corrected", revision=1)


def ended(world, app):
    """Have a job that ended, and that the tick does not look after any more."""
    accepted(world, app)
    app.host().run()
    come_to_rest(world, app)


def paused_half(world, app):
    """Have a job paused, of which one chunk is credited and the results of the others are on their way."""
    accepted(world, app)
    app.host(hold_back=only("work-00")).run()
    letter = world.bus.waiting("results")[0]
    app.app.settle([Received(letter.body.encode(), letter.id)])
    world.bus.complete([letter])
    app.stores.job_operator.pause(A, by="ann", why="wrong tariff")


def parked_long_ago(world, app):
    """Have a job with parked chunks, and the cause removed."""
    mended_with_parked(world, app)
    come_to_rest(world, app)


def erase_again(world, app):
    """Erase it once more only if the first one did not begin: the tick ends it alone."""
    world.sales.breaks_at = {}
    app.tick()
    app.host().run()
    if app.stores.ledger.read(A).state is not JobState.ERASED:
        app.stores.job_eraser.erase(A, by="ann", why="request 4711")


def come_to_the_second_look(world, app):
    """Let quarters of an hour pass until nothing is found, and then the day until the second check."""
    for minutes in (*[15] * MOST_TICKS, 24 * 60, 15, 15):
        app.host().run()
        world.clock.advance(minutes=minutes)
        with suppress(SluiceError):
            app.tick()
    app.host().run()


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


def failing(world, app, found=ASIDE, **shops):
    """Have a job on the work queue of which few transactions of each chunk fail, for a reason that nobody knows."""
    submitted(world, app, found=found)
    app.host(hold_back=only("submissions")).run()
    world.sales.breaks_at = shops or {"bad": UNKNOWN, "odd": UNKNOWN}


def waiting_for_service(world, app):
    """Have a job on the work queue whose service answers for some transactions only."""
    failing(world, app, odd=TimeoutError, w=TimeoutError)


def set_aside(world, app):
    """Have transactions set aside, and the cause of some of them removed."""
    failing(world, app)
    app.host().run()
    del world.sales.breaks_at["odd"]


def suspect(world, app):
    """Have a job on the work queue of which two processes died in each chunk. In a process of its own the guilty one is known."""
    failing(world, app, bad=DyingError, odd=DyingError)
    queue = app.connections.queues.get_queue_client("work-00")
    for _ in range(2):
        list(queue.receive_messages(max_messages=BATCH, visibility_timeout=HIDDEN))
        world.storage.wait(HIDDEN)
    for chunk in range(app.stores.ledger.read(A).chunks):
        app.stores.attempts.note_begun(job_note(A, chunk_key(chunk, 1)), 2)


def killers_set_aside(world, app):
    """Have transactions set aside that processes died of, and the cause removed."""
    suspect(world, app)
    app.host().run()
    come_to_rest(world, app)
    world.sales.breaks_at = {}


def set_aside_long_ago(world, app):
    """Have a job that the tick does not look after any more, and the cause removed."""
    set_aside(world, app)
    come_to_rest(world, app)
    world.sales.breaks_at = {}


def deliver_last(world, app):
    """Let the host work on chunks that fail, which costs each its five deliveries."""
    app.host(hold_back=only("work-00", "results")).run()


def replay_twice_at_once(world, app):
    """Replay, and have a second message of each entry on the queue, as of a replayer that was taken for dead."""
    queue = app.connections.queues.get_queue_client("work-00")
    operator = app.operator()
    for entry in operator.select(Selection()):
        body = app.stores.parked_table.body(entry)
        for _ in range(2):
            queue.send_message(body.decode(), time_to_live=-1)
    app.host(hold_back=only("work-00")).run()
    app.host().run()


def replay(world, app):
    """Replay everything that is parked."""
    list(app.operator().replay(Selection(), ReplayPace(patience=5), by="ann"))


def replay_elsewhere(world, app):
    """Replay from another process, which outlives the one that works and sees what the ledger has."""

    def let_work(seconds):
        with suppress(KilledError):
            app.let_work(seconds)

    with world.app(Plan()) as person:
        list(person.operator(let_work).replay(Selection(), ReplayPace(patience=5), by="ann"))


def replay_again(world, app):
    """Let the work end, then mend the cause and replay until nothing is open any more."""
    # A settler that ended right after its pointer leaves it waiting for a revision that only the next replay makes.
    with suppress(StuckError):
        come_to_rest(world, app)
    world.sales.breaks_at = {}
    for _ in range(3):
        operator = app.operator()
        list(operator.replay(Selection(), ReplayPace(patience=5, again=True), by="ann"))
        come_to_rest(world, app)
        if not operator.select(Selection()):
            return


def gave_up(world, app):
    """Have a host that gives up early, before the app itself would park, and a tick that drains what it left."""
    app.host(most_deliveries=3).run()
    hour(world)
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
    """Run the timer at a full hour."""
    hour(world)
    app.tick()


def after_poison(world, app):
    """Let the same host go on, and drain again."""
    for _ in range(3):
        app.host(most_deliveries=3).run()
        hour(world)
        with suppress(SluiceError):
            app.tick()
    replay_again(world, app)


def quarter(world):
    """Move to the next quarter of an hour."""
    world.clock.advance(minutes=15 - world.clock.now().minute % 15)


def hour(world):
    """Move to the next full hour, when the poison queues of the base are looked after."""
    world.clock.advance(minutes=60 - world.clock.now().minute)


def submit_unplanned(world, app):
    """Publish once more what the ledger has no plan of: nobody but its publisher knows it any more."""
    job = Stores(world.observer()).ledger.read(A)
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


def lost(world, app):
    """Have a job accepted, and lose every message."""
    accepted(world, app)
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


def tick_twice(world, app):
    """Run the timer again a quarter of an hour later: what is put beside lost chunks gives their workers that time."""
    tick(world, app)
    tick(world, app)


def tick_for_turns(world, app):
    """Run the timer where more lost chunks than one wait for their turn, and the feeder that it calls."""
    with patch("shared.pipeline.start.MOST_AT_ONCE", 1):
        tick(world, app)


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


def dropped(world, job=None, queue="submissions", **said):
    """Drop a message as it is typed, and return its id; without a job id, its id is the job's."""
    message = {"sluice": {"workload": "sales", **({"job": job} if job else {}), **said}}
    return world.observer().queues.get_queue_client(queue).send_message(json.dumps(message), time_to_live=-1).id


def late(world, app):
    """Have a submission without a job id parked, because its file came late."""
    name = dropped(world, payload={"blob": "late/sales.ndjson"})
    world.published[name] = GOOD
    app.host().run()
    lines = "".join(json.dumps(sale) + "\n" for sale in GOOD)
    world.observer().blobs.get_container_client("payloads").upload_blob("late/sales.ndjson", lines)


def killing(world, app):
    """Have a submission without a job id that killed three workers, and the host's copy of it, which has another id."""
    name = dropped(world, items=GOOD)
    world.published[name] = GOOD
    queues = world.observer().queues
    (message,) = queues.get_queue_client("submissions").receive_messages(max_messages=1)
    body = message.content.encode()
    for count in (1, 2, 3):
        with suppress(KilledError), world.app(Plan.of(4, "kill_after")) as worker:
            worker.app.accept(Delivery(queue="submissions", message_id=name, body=body, count=count))
    queues.get_queue_client("submissions-poison").send_message(message.content)
    queues.get_queue_client("submissions").delete_message(message)


def corrected(world, app):
    """Have a job finished, and on the queue the same bytes under the same id, to be read in another way."""
    packed = base64.b64encode(
        gzip.compress("".join(json.dumps(sale) + "\n" for sale in GOOD).encode(), mtime=0)
    ).decode()
    dropped(world, A, payload={"inline": packed, "codec": "gzip"})
    world.published[A] = GOOD
    come_to_rest(world, app)
    dropped(world, A, payload={"inline": packed, "codec": "plain"})


def forged(world, app):
    """Have, beside a job's own, messages that claim to be of the app: at the door, at work, given up, and on the bus."""
    chunk = {"kind": "chunk", "chunk": 0, "revision": 1, "codec": "plain", "frames": [], "first_id": 0}
    dropped(world, A, **chunk)
    dropped(world, A, kind="dispatch")
    dropped(world, A, "submissions-poison", kind="finish", revision=1)
    dropped(world, A, "work-00", **{**chunk, "chunk": 2**31})
    dropped(world, A, "work-00-poison", **{**chunk, "chunk": 10**30})
    for job, number in ((A, 0), (A, 2**31 - 1), ("nobody", 0)):
        message = encode(Segment(job=job, revision=1, segment=number)).decode()
        world.observer().queues.get_queue_client("work-00").send_message(message, time_to_live=-1)
    submitted(world, app)
    odd = {"sluice": {"kind": "result", "job": A, "chunk": 2**31, "revision": 1}}
    world.bus.send("results", "result", json.dumps(odd), "")


def deliver_and_drain(world, app):
    """Let the host do what there is to do, and the timer park what it gave up."""
    app.host().run()
    drain(world, app)
    app.host().run()


SCENARIOS = (
    Scenario("submit", nothing, submit, submit_again),
    Scenario("accept, gate open", submitted, accept),
    Scenario("accept a small job", small_submitted, accept, runs=1),
    Scenario("accept a small job, then all is lost", small_submitted, accept, forgets=True),
    Scenario("accept a small job, and it waits for a turn", small_submitted, accept, world=UnfedWorld, runs=1),
    Scenario(
        "accept a small job, gate closed, release",
        lambda w, a: small_submitted(w, a, GATE),
        hold_and_release,
        open_again,
        is_gated=True,
    ),
    Scenario("a small job, the whole way", small_submitted, everything, runs=1),
    Scenario("release by slices", two_held, hold_and_release_by_slices, open_again, is_gated=True),
    Scenario(
        "accept, gate closed, release", lambda w, a: submitted(w, a, GATE), hold_and_release, open_again, is_gated=True
    ),
    Scenario(
        "forged messages at every stage",
        lambda w, a: submitted(w, a, GATE),
        hold_and_release_among_forged,
        forge_and_open_again,
        is_gated=True,
        parked=(("accept", "unknown_kind"),) * 7,
    ),
    Scenario("grow", nothing, grow, grow_again),
    Scenario("grow, all of it waits for turns", nothing, grow, grow_again, world=UnfedWorld),
    Scenario("grow, then all is lost", nothing, grow, grow_again, forgets=True),
    Scenario("grow held, then open", nothing, grow_and_release, grow_again_and_open, is_gated=True),
    Scenario("grow, two publishers", nothing, grow_beside_another, grow_again),
    Scenario("take all stretches at once", grown, accept),
    Scenario("ranges", dropped_file, everything, world=RangedWorld),
    Scenario("gz", dropped_packed, everything, world=RangedWorld),
    Scenario("ranges, one ahead", dropped_file, cut_one_by_one, world=RangedWorld),
    Scenario("ranges, all of it waits for turns", dropped_file, everything, world=UnfedRangedWorld),
    Scenario("ranges, then all is lost", dropped_file, accept, forgets=True, world=RangedWorld),
    Scenario(
        "ranges held, then open",
        lambda w, a: dropped_file(w, a, GATE),
        cut_some_and_release,
        open_again,
        is_gated=True,
        world=RangedWorld,
    ),
    Scenario("process", accepted, process, runs=3),
    Scenario("accept, and wait for a turn", submitted, accept, world=FedWorld, runs=3),
    Scenario("accept, and all of it waits for a turn", submitted, accept, world=UnfedWorld, runs=3),
    Scenario("feed", accepted, feed, world=FedWorld),
    Scenario("feed two jobs", two_accepted, feed, world=UnfedWorld),
    Scenario("feed a room of two chunks at most", limited, feed, world=UnfedWorld),
    Scenario("feed, then all is lost", accepted, feed, forgets=True, world=FedWorld),
    Scenario("process with a limit", accepted, process, world=LimitedWorld, check=breaches_of_limit, pause=0),
    Scenario(
        "two processes with a limit", accepted, process_beside, world=LimitedWorld, check=breaches_of_limit, pause=0
    ),
    Scenario("process, the bus refuses", accepted, process_refused, runs=3),
    Scenario("process, then the bus loses all", accepted, process_and_lose, runs=6),
    Scenario("settle and finish", processed, everything, runs=3),
    Scenario(
        "settle a bundle of two jobs",
        lambda w, a: bundled(w, a, jobs=((A, GOOD), (B, OTHER))),
        everything,
        runs=4,
    ),
    Scenario("two settlers, overlapping bundles", overlapping, settle_overlapping, runs=3),
    Scenario(
        "a bundle with one bad result",
        bundled_with_a_bad_one,
        everything,
        parked=(("settle", "result_refused"),),
        runs=3,
    ),
    Scenario("settle after a zombie with another result", bundled_with_another_run, everything, runs=3),
    Scenario("settle and finish in segments", processed, everything, world=SegmentedWorld),
    Scenario("replay in segments", mended_long_ago, replay, replay_again, world=SegmentedWorld, revisions={A: (2, 3)}),
    Scenario("settle and finish in shards", processed, everything, world=ShardedWorld),
    Scenario("settle and finish in spans", processed, everything, world=SpannedWorld),
    Scenario("settle and finish in cuts that are joined", processed, everything, world=JoinedWorld),
    Scenario("lines", accepted, everything, world=LinedWorld),
    Scenario("lines in blobs", accepted, everything, world=LongLinedWorld),
    Scenario("replay with lines", mended_long_ago, replay, replay_again, world=LinedWorld, revisions={A: (2, 3)}),
    Scenario("replay in shards", mended_long_ago, replay, replay_again, world=ShardedWorld, revisions={A: (2, 3)}),
    Scenario("park", broken, everything, replay_again, revisions={A: (2, 3)}),
    Scenario("replay", mended_with_parked, replay, replay_again, revisions={A: (2, 3)}),
    Scenario("set aside", failing, everything, replay_again, revisions={A: (2, 5)}),
    Scenario("set aside a suspect", suspect, everything, replay_again, revisions={A: (2, 5)}),
    Scenario("extend a suspect", killers_set_aside, replay, replay_again, revisions={A: (2, 5)}),
    Scenario("set aside, then all is lost", failing, deliver_last, replay_again, forgets=True, revisions={A: (2, 5)}),
    Scenario(
        "wait for a service, in vain",
        waiting_for_service,
        everything,
        replay_again,
        world=WaitingWorld,
        revisions={A: (2, 5)},
    ),
    Scenario(
        "wait for a service, then all is lost",
        waiting_for_service,
        deliver_last,
        replay_again,
        world=WaitingWorld,
        forgets=True,
        revisions={A: (2, 5)},
    ),
    Scenario("set aside with lines", failing, everything, replay_again, world=LinedWorld, revisions={A: (2, 5)}),
    Scenario("extend with lines", set_aside, replay, replay_again, world=LongLinedWorld, revisions={A: (2, 7)}),
    Scenario("extend", set_aside_long_ago, replay, replay_again, revisions={A: (2, 5)}),
    Scenario("extend with some that fail again", set_aside, replay, replay_again, revisions={A: (2, 7)}),
    Scenario("extend twice at once", set_aside_long_ago, replay_twice_at_once, replay_again, revisions={A: (2, 5)}),
    Scenario("host gives up, drain", broken, gave_up, after_poison, revisions={A: (1, 3)}),
    Scenario("drain a submission", given_up, drain, replay_again),
    Scenario("tick after all was lost", forgotten, tick_twice),
    Scenario("tick after all was lost, and it waits for a turn", lost, tick_for_turns, world=WholeWorld),
    Scenario("tick after nobody was told", untold, tick),
    Scenario(
        "refuse a submission",
        strange,
        everything,
        parked=(("accept", "conflict"), ("accept", "not_json")),
    ),
    Scenario("park and replay without a job id", late, replay, replay_again),
    Scenario("killed without a job id, drain and replay", killing, drain, replay_again),
    Scenario("refuse a corrected submission", corrected, everything, parked=(("accept", "conflict"),)),
    Scenario(
        "odd messages at work, given up and on the bus",
        forged,
        deliver_and_drain,
        parked=(
            ("accept", "unknown_kind"),
            ("accept", "unknown_kind"),
            ("accept", "delivered_too_often"),
            ("process", "unreadable"),
            ("process", "delivered_too_often"),
            ("settle", "result_unreadable"),
        ),
    ),
    Scenario("bury a dead letter", dead_letter, bury, bury_again, parked=(("settle", "dead_lettered"),)),
    Scenario("the whole way", nothing, whole, whole_again, is_gated=True, runs=3),
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
    Scenario("finish in segments, then all is lost", processed, everything, forgets=True, world=SegmentedWorld),
    Scenario("finish in shards, then all is lost", processed, everything, forgets=True, world=ShardedWorld),
    Scenario("finish in spans, then all is lost", processed, everything, forgets=True, world=SpannedWorld),
    Scenario(
        "accept, then even the submission is lost",
        submitted,
        accept,
        submit_unplanned,
        forgets=True,
        loses_submissions=True,
    ),
    Scenario("tick after all was lost, and lost again", forgotten, tick_twice, forgets=True),
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
#: Those of lines, of transactions that are set aside, of calls to others, and of cuts by size.
WORK_SCENARIOS = tuple(
    one
    for one in SCENARIOS
    if any(word in one.name for word in ("lines", "set aside", "a service", "extend", "a limit", "in spans"))
)
#: Of what people do with jobs: jobs behind others, timetables, pause, stop, rerun and erase.
ACT_SCENARIOS = (
    Scenario(
        "release by a timetable",
        lambda w, a: submitted(w, a, GATE),
        hold_and_release_by_timetable,
        set_and_end_again,
        is_gated=True,
    ),
    Scenario("wait for another", waiting, everything, runs=4),
    Scenario("wait for another, then all is lost", waiting, everything, forgets=True),
    Scenario("made from another", made_from, tick, runs=6),
    Scenario("made from another, then all is lost", made_from, tick, forgets=True),
    Scenario(
        "made from another, behind a gate",
        lambda w, a: made_from(w, a, GATE),
        made_and_released,
        open_again,
        world=WholeWorld,
    ),
    Scenario("ends never", nothing, grow_and_never_end, stop_open, check=breaches_of_stopped),
    Scenario("pause and resume", accepted, pause_and_resume, resume_again, world=WholeWorld, revisions={A: (1, 2)}),
    Scenario("pause while it is fed", accepted, pause_and_resume, resume_again, world=FedWorld, revisions={A: (1, 2)}),
    Scenario(
        "pause, then all is lost", accepted, pause, resume_again, forgets=True, world=WholeWorld, revisions={A: (1, 2)}
    ),
    Scenario(
        "stop, its results on their way", processed, stop, stop_again, world=WholeWorld, check=breaches_of_stopped
    ),
    Scenario("stop", accepted, stop, stop_again, world=WholeWorld, check=breaches_of_stopped),
    Scenario(
        "stop behind a gate",
        lambda w, a: submitted(w, a, GATE),
        stop_held,
        stop_held_again,
        world=WholeWorld,
        check=breaches_of_stopped,
    ),
    Scenario("rerun", ended, rerun, rerun_again, world=WholeWorld, revisions={A: (2, 2)}, check=breaches_of_rerun),
    Scenario(
        "rerun, then all is lost",
        ended,
        rerun,
        rerun_again,
        forgets=True,
        world=WholeWorld,
        revisions={A: (2, 2)},
        check=breaches_of_rerun,
    ),
    Scenario(
        "rerun of a paused job, its results on their way",
        paused_half,
        rerun,
        rerun_again,
        world=WholeWorld,
        revisions={A: (2, 2)},
        check=breaches_of_rerun,
    ),
    Scenario(
        "rerun of a job from others, of which one moved",
        moved_source,
        rerun_newest,
        rerun_newest_again,
        revisions={A: (2, 2), B: (2, 2)},
        check=breaches_of_rerun,
    ),
    Scenario(
        "rerun of a job with parked entries",
        parked_long_ago,
        rerun,
        rerun_again,
        world=WholeWorld,
        revisions={A: (2, 2)},
        check=breaches_of_rerun,
    ),
    Scenario("erase while it runs", marked, erase, erase_again, rest=come_to_the_second_look, check=breaches_of_erased),
    Scenario(
        "erase with what is parked",
        marked_and_parked,
        erase,
        erase_again,
        rest=come_to_the_second_look,
        check=breaches_of_erased,
    ),
)
#: Those of jobs that wait for their turn, and of what is put without waiting.
TURN_SCENARIOS = tuple(
    one
    for one in (*SCENARIOS, *ACT_SCENARIOS)
    if any(word in one.name for word in ("feed", "fed", "turn", "small job"))
)
#: Those of jobs that grow, by stretches of a publisher or by ranges of a file, and of a large file that does not.
GROWTH_SCENARIOS = tuple(
    one
    for one in (*SCENARIOS, *ACT_SCENARIOS)
    if one.name.startswith(("grow", "take all stretches", "ranges", "gz", "ends never"))
)
