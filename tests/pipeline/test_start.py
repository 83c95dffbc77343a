"""Starting a job: only by what its row says, which whoever read the gate wrote there first."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import StorageUnavailableError
from shared.gate.held import HeldEntry
from shared.gate.receipts import NO_MARK
from shared.gate.state import Reading
from shared.ledger.records import JobState
from shared.messages import DispatchMessage, encode
from shared.pipeline.start import Placed
from shared.telemetry import events
from tests.faults.plan import KilledError, killed
from tests.gate.conftest import NOON

OPEN, CLOSED, PULSED = Reading(1, is_open=True), Reading(0, is_open=False), Reading(1, is_open=False)


@pytest.fixture
def held(world, process):
    """A process that has accepted a job behind a closed gate."""
    one = process()
    one.accept(world.submission(gate="nightly"), "m1")
    return one


def entry_of(world):
    """Return the only row behind the gate."""
    (row,) = world.gates.rows.values()
    return row


def chunks(world):
    """Return the chunks that were put."""
    return [message["chunk"] for message in world.queues.on("work-")]


def test_a_forged_hint_starts_nothing(world, held):
    """Whoever asks for a held job has its gate read, and the job waits on behind it."""
    before = world.ledger.read(world.job)
    held.starter.go_on(world.job)
    held.starter.go_on("nobody-knows-it")
    assert (world.ledger.read(world.job), chunks(world), world.gates.held) == (before, [], [("nightly", world.job)])


def pointers(world, one):
    """Return the kinds of the pointers to the job, whenever they are due."""
    far = world.clock.now() + timedelta(days=400)
    return [pointer.kind for pointer in one.acceptance.pending.due(far) if pointer.id == world.job]


@pytest.mark.parametrize("hours", [None, 4])
def test_a_held_job_keeps_a_pointer_for_its_deadline_alone(world, process, hours):
    """It is due when a warning would be: after three quarters of the time."""
    one, fields = process(), {}
    if hours is not None:
        fields = {"deadline": (world.clock.now() + timedelta(hours=hours)).isoformat()}
    one.accept(world.submission(gate="nightly", **fields), "m1")
    found = [one for one in one.acceptance.pending.due(world.clock.now() + timedelta(days=1)) if one.id == world.job]
    assert [(each.kind, each.due) for each in found] == (
        [] if hours is None else [("deadline", NOON + timedelta(hours=3, seconds=1))]
    )
    assert entry_of(world).deadline == (None if hours is None else NOON + timedelta(hours=4))


def test_a_release_writes_the_pointers_before_any_note_and_wakes_once_for_all(world, held, monkeypatch):
    """The wake-up says how many chunks come. Each job itself wakes nobody."""
    row, woken = entry_of(world), []
    others = [replace(row, id=f"{world.job}-{n}", chunks=n) for n in (1, 100, 101)]
    starter = replace(
        held.starter, dispatcher=replace(held.dispatcher, waking=lambda *said: nullcontext(woken.append(said)))
    )
    with starter.begin([row, *others], [row, *others, row]):
        assert pointers(world, held) == ["job"]
        assert world.ledger.read(world.job).passed_epoch is None
        starter.carry_out(row, OPEN, world.clock.monotonic() + 60, NO_MARK)
    # One of more than a hundred chunks wakes for each hundred by itself.
    own = row.chunks
    assert woken == [(own + 1 + 100, own + 1 + 100 + own)]
    assert (chunks(world), world.ledger.read(world.job).passed_epoch) == (list(range(own)), 1)
    for pointer in held.acceptance.pending.due(world.clock.now() + timedelta(days=1)):
        held.acceptance.pending.remove(pointer)


def test_a_hint_that_starts_a_held_job_writes_its_pointer_and_one_that_does_not_writes_none(world, held):
    """Nothing else would find the job if its chunks were lost."""
    held.starter.go_on(world.job)
    assert pointers(world, held) == []
    world.gates.now = OPEN
    held.starter.go_on(world.job)
    assert (pointers(world, held), chunks(world), world.gates.held) == (["job"], [0], [])


def test_a_job_in_planning_whose_gate_says_no_is_put_behind_it_again(world, process):
    """As a version without notes left it: planned at an epoch, its dispatch message refused at the door."""
    one = process()
    one.plan(world.submission(gate="nightly"), "m1")
    world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.PLANNING))
    one.starter.go_on(world.job)
    assert world.ledger.read(world.job).state is JobState.HELD
    assert (chunks(world), world.gates.held) == ([], [("nightly", world.job)])
    world.gates.now = PULSED
    one.starter.go_on(world.job)
    assert (chunks(world), world.gates.held) == ([0], [])


def test_a_gate_that_was_open_for_a_moment_while_the_row_was_written_is_noticed(world, process):
    """Opened, served and closed between the reading and the row: its own keeper starts it, and the row goes."""
    world.gates.after_keeping = lambda: setattr(world.gates, "now", PULSED)
    process().accept(world.submission(gate="nightly"), "m1")
    assert (chunks(world), world.gates.held) == ([0], [])
    assert world.ledger.read(world.job).passed_epoch == 1


@pytest.mark.parametrize("closed_at_once", [False, True])
def test_a_job_that_met_an_open_gate_goes_exactly_once_however_soon_it_closes(world, process, closed_at_once):
    """Its process ends right after the plan; the gate is closed by the time that the submission comes again."""
    world.gates.now = OPEN
    process().plan(world.submission(gate="nightly"), "m1")
    if closed_at_once:
        world.gates.now = PULSED
    again = process()
    again.accept(world.submission(gate="nightly"), "m1", again=True)
    again.starter.go_on(world.job)
    assert (chunks(world), world.gates.held) == ([0], [])


def test_the_note_is_in_the_row_before_anything_is_put(world, held, monkeypatch):
    """A releaser that ends at its first put leaves a job that may start, and its held row."""
    monkeypatch.setattr(world.queues, "send", lambda *_: killed())
    broken = replace(held.dispatcher, send=lambda *_: killed())
    with pytest.raises(KilledError):
        replace(held.starter, dispatcher=broken).carry_out(entry_of(world), OPEN, 0.0, NO_MARK)
    job = world.ledger.read(world.job)
    assert (job.passed_epoch, job.state, len(world.gates.held)) == (1, JobState.HELD, 1)


def test_a_released_job_is_dispatched_once_and_by_a_second_releaser_not_again(world, held):
    """The second one finds it running, and says that the row may go."""
    row = entry_of(world)
    far = world.clock.monotonic() + 60
    assert held.starter.is_job(row)
    assert held.starter.carry_out(row, PULSED, far, NO_MARK)
    assert held.starter.carry_out(row, PULSED, far, NO_MARK)
    assert chunks(world) == [0]


def test_what_was_held_by_a_version_before_is_started_and_not_put(world, held):
    """Its row says queue `submissions` and holds a dispatch message."""
    old = HeldEntry(
        gate="nightly", id=world.job, epoch=0, queue="submissions", held_at=NOON,
        message=encode(DispatchMessage(job=world.job)).decode(),
    )  # fmt: skip
    assert entry_of(world).is_same_work(old)
    assert held.starter.is_job(old)
    foreign = replace(old, message='{"sluice": {"items": [{}]}}')
    assert not held.starter.is_job(foreign)
    assert not held.starter.is_job(replace(old, queue="mine"))


@pytest.mark.parametrize("gate", ["nightly", "another"])
def test_a_row_that_names_no_job_of_its_gate_is_told_of_and_goes(world, held, told, gate):
    """A job behind another gate is not started by it."""
    row = replace(entry_of(world), gate=gate, id=world.job if gate == "another" else "nobody")
    assert held.starter.carry_out(row, OPEN, 0.0, NO_MARK)
    assert (chunks(world), told(events.HELD_STRANGE)) == ([], [{"gate": gate, "entry": row.id}])


def test_a_dispatch_for_which_there_was_no_time_waits_for_its_turn(world, held, monkeypatch):
    """Its ready row is written before its held row goes, and a feeder is called."""
    world.gates.now = OPEN
    short = replace(held.starter, dispatcher=replace(held.dispatcher, clock=Hurrying()))
    monkeypatch.setattr("shared.pipeline.dispatch.CURSOR_EVERY", 0)
    assert short.start(world.ledger.read(world.job), until=0.0) is Placed.WAITS
    assert (world.calls, world.gates.held, waiting(held)) == ([0.0], [], [world.job])


def waiting(one):
    """Return the jobs that wait for their turn, and have none wait after that: other tests share the table."""
    rows = one.ready.read("")
    one.ready.remove(rows)
    for room, etag in one.ready.rooms().items():
        one.ready.forget_room(room, etag)
    one.ready.forget_pointer(one.ready.read_pointer())
    return [row.job for row in rows]


class Hurrying:
    """A clock by which it is always too late."""

    def now(self):
        """Return noon."""
        return NOON

    def monotonic(self):
        """Return a late moment."""
        return 1.0


def test_an_outage_leaves_what_the_next_delivery_completes(world, process):
    """The submission is not done with as long as its chunks are not put."""
    one = process()
    world.queues.refuse_next = 10_000
    with pytest.raises(StorageUnavailableError):
        one.accept(world.submission(), "m1")
    world.queues.refuse_next = 0
    one.accept(world.submission(), "m1", again=True)
    assert chunks(world) == [0]
