"""The runtime: the order of its writes, what a crash at each of them leaves, and who ends it."""

from datetime import timedelta

import pytest

from shared.azure import Connections, tally_requests
from shared.errors import (
    ConflictError,
    DecisionFailedError,
    DuplicateError,
    NotPublishedError,
    RefusedError,
    StorageUnavailableError,
)
from shared.processes import Agenda, Case, Incoming, ReplyClass
from shared.processes.agenda import NOTE_AFTER
from shared.processes.runtime import MOST_HOMES
from shared.telemetry import events
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.faults.memory.storage import MemoryStorage
from tests.processes.errands import NOON, WAITS, ask, got, remark
from tests.processes.world import World

STEPS = [(step, when) for step in ("write", "remind", "commit", "send", "remove") for when in ("before", "after")]
#: A process that dies there has stored no home.
NOT_STORED = {(at, when) for at, when in STEPS if at in {"write", "remind"} or (at, when) == ("commit", "before")}


@pytest.fixture
def world():
    """An installation in memory that holds nothing yet. The agenda alone is tested on Azurite."""
    storage = MemoryStorage()
    with Connections(storage.connection_string) as made:
        storage.serve(made)
        yield World(MemoryHomes(), Agenda(made.tables.create_table("agendaofone")))


def test_note_reminder_home_send_note_removed(world):
    """In this order, and nothing is read for a home that its caller knows to be new."""
    with tally_requests() as tally:
        (outcome,) = world.handle(ask(believed=None)).outcomes
    assert world.steps.names == ["write", "remind", "commit", "send", "send", "remove"]
    assert tally.total() == 2
    assert (outcome.is_written, outcome.state.stage, outcome.error) == (True, "asked", None)
    assert world.bus.ranges() == [("errand-1", 1, 2)]
    assert world.bus.commands() == ["fetch"]
    assert world.plain_agenda.find(7) == "errand-1"
    assert world.hints == [(3, NOON + WAITS)]
    # Only the timeout stays.
    assert world.rows(hours=1) == ["2026-11-22T12:05:00Z|expire|errand-1"]


def test_the_next_write_removes_what_was_sent(world):
    """The process's row holds only commands that are not known to be sent; the head says what is published."""
    world.handle(ask())
    world.handle(got())
    home = world.plain_homes.load("errand-1")
    assert [command["kind"] for command in home.process["commands"]] == ["thank"]
    assert home.head.published == 2
    assert world.bus.commands() == ["fetch", "thank"]
    assert world.bus.ranges() == [("errand-1", 1, 2), ("errand-1", 3, 3)]
    # Its timeout is of no use any more, and went with the note.
    assert world.rows(hours=1) == []


def test_a_home_that_the_tick_sent_is_looked_at_no_more(world):
    """The tick stores nothing in it: no later tick reads it, and only its next writer sends the range once more."""
    world.bus.is_down = True
    assert world.handle(ask()).not_sent
    world.bus.is_down = False
    with tally_requests() as sending:
        world.tick(seconds=61)
    with tally_requests() as idle:
        world.steps.names.clear()
        world.tick(seconds=1)
    assert world.bus.ranges() == [("errand-1", 1, 2)]
    assert {"load", "read_head", "commit", "send"}.isdisjoint(world.steps.names)
    # The note goes. Nothing else is written for it.
    assert sending.total() - idle.total() == 1
    world.handle(got()).check()
    assert world.bus.ranges()[1:] == [("errand-1", 1, 3)]


def test_another_process_sends_the_last_range_once_more(world):
    """It does not know that it was sent; consumers drop it by the range, receivers by the generation."""
    world.handle(ask())
    world.restart()
    world.handle(got())
    assert world.bus.ranges() == [("errand-1", 1, 2), ("errand-1", 1, 3)]
    assert world.bus.commands() == ["fetch", "fetch", "thank"]
    assert len(world.bus.command_ids()) == 2


@pytest.mark.parametrize(("at", "when"), STEPS)
def test_a_crash_and_the_same_message_again(world, at, when):
    """The end is the same as without the crash, and every command was sent, under the same id."""
    assert world.dies(at, when, lambda: world.handle(ask(believed=None)))
    world.handle(ask(believed=None)).check()
    assert world.plain_homes.load("errand-1").head.version == 2
    assert set(world.bus.commands()) == {"fetch"}
    assert len(world.bus.command_ids()) == 1
    world.tick(seconds=61)
    world.tick(minutes=12)
    world.tick(seconds=1)
    assert world.rows(hours=1) == []
    assert set(world.bus.commands()) == {"fetch", "forget"}


@pytest.mark.parametrize(("at", "when"), STEPS)
def test_a_crash_that_only_the_tick_ends(world, at, when):
    """What is stored is sent after a minute; of what is not stored, the last row goes after eleven."""
    assert world.dies(at, when, lambda: world.handle(ask(believed=None)))
    is_stored = world.plain_homes.load("errand-1") is not None
    assert is_stored == ((at, when) not in NOT_STORED)
    world.tick(seconds=61)
    if is_stored:
        assert set(world.bus.commands()) == {"fetch"}
        assert world.bus.ranges()[-1] == ("errand-1", 1, 2)
        assert world.rows(seconds=0) == []
    for _ in range(12):
        world.tick(minutes=1)
    assert world.rows(hours=1) == []
    assert set(world.bus.commands()) == ({"fetch", "forget"} if is_stored else set())
    assert world.plain_agenda.find(7) == ("errand-1" if is_stored else None)


@pytest.mark.parametrize(("at", "when"), STEPS)
def test_a_crash_after_the_home_is_stored_has_left_a_reminder(world, at, when):
    """Whoever gets it sends what is stored, twelve seconds after the note and long before a tick would."""
    assert world.dies(at, when, lambda: world.handle(ask(believed=None)))
    if world.plain_homes.load("errand-1") is None:
        return
    assert world.reminders == [NOON + NOTE_AFTER]
    world.tick(seconds=NOTE_AFTER.seconds)
    assert set(world.bus.commands()) == {"fetch"}


@pytest.mark.parametrize(("at", "when"), STEPS)
def test_a_crash_at_a_reply(world, at, when):
    """The shop answers, and its thanks come, by the redelivery or by the tick."""
    world.handle(ask())
    world.restart()
    assert world.dies(at, when, lambda: world.handle(got()))
    if (at, when) in NOT_STORED:
        world.handle(got()).check()
    world.tick(seconds=61)
    assert "thank" in world.bus.commands()
    assert len(world.bus.command_ids()) == 2
    for _ in range(12):
        world.tick(minutes=1)
    assert world.rows(hours=1) == []
    assert world.plain_homes.load("errand-1").process["state"]["stage"] == "done"


def test_a_note_is_not_removed_while_its_writer_may_be_slow(world):
    """The commit comes two minutes after the note: the tick waits for it, and sends what it brought."""
    commit, late = world.plain_homes.commit, []
    world.plain_homes.commit = late.append
    world.bus.is_down = True
    assert world.handle(ask(believed=None)).not_sent
    world.bus.is_down = False
    world.tick(seconds=61)
    world.tick(seconds=61)
    assert world.rows(minutes=2) == ["2026-11-22T12:02:14Z|send|" + world.rows(minutes=2)[0].rpartition("|")[2]]
    commit(late[0])
    world.tick(seconds=61)
    assert world.bus.commands() == ["fetch"]
    assert world.rows(minutes=1) == []


def test_a_conflict_is_repeated_once(world):
    """The other's commit is read, and the decision made again on it."""
    world.handle(ask())
    commit = world.plain_homes.commit

    def first_another(mine):
        world.plain_homes.commit = commit
        world.runtime.handle([remark()]).check()
        return commit(mine)

    world.plain_homes.commit = first_another
    world.handle(got()).check()
    home = world.plain_homes.load("errand-1")
    assert [event.kind for event in home.events] == ["asked", "thought", "remarked", "got"]
    assert world.rows(minutes=2) == []


def test_a_second_conflict_is_left_to_the_redelivery(world):
    """The error names the home; another home of the same call is stored and sent."""
    world.handle(ask(), ask("errand-2", 8))
    commit = world.plain_homes.commit

    def always_late(mine):
        if mine.home == "errand-1":
            raise ConflictError("errand-1 is elsewhere")
        return commit(mine)

    world.plain_homes.commit = always_late
    handled = world.handle(got(), got("errand-2"))
    assert [type(outcome.error) for outcome in handled.outcomes] == [ConflictError, type(None)]
    with pytest.raises(ConflictError):
        handled.check()
    assert world.bus.commands().count("thank") == 1
    # The notes of both tries stay until it is known what became of the first home.
    assert len(world.rows(minutes=2)) == 2


def test_a_wrong_belief_costs_a_second_try(world):
    """A home that was believed new has the same message already: a duplicate, which sends what is unsent."""
    world.bus.is_down = True
    assert isinstance(world.handle(ask()).not_sent, NotPublishedError)
    world.bus.is_down = False
    (outcome,) = world.handle(ask(believed=None)).outcomes
    assert (outcome.reply, outcome.is_written) == (ReplyClass.DUPLICATE, False)
    assert world.bus.commands() == ["fetch"]


def test_an_answer_that_writes_nothing_is_not_given_by_belief(world):
    """A reply to a home that its caller believes to be gone."""
    world.handle(ask())
    (outcome,) = world.handle(Case(home="errand-1", message=got().message, believed=None)).outcomes
    assert outcome.reply is ReplyClass.CURRENT


def test_several_messages_of_one_home_are_one_commit(world):
    """In their order, each on the state after the one before."""
    world.steps.names.clear()
    handled = world.handle(ask(), remark(), got(), got())
    assert [outcome.reply for outcome in handled.outcomes] == [None, None, ReplyClass.CURRENT, ReplyClass.DUPLICATE]
    assert world.steps.names.count("commit") == 1
    assert world.bus.commands() == ["fetch", "thank"]


def test_an_outside_id_counts_once(world):
    """The same content is a duplicate, other content an error; also inside one call."""
    world.handle(ask(), remark("good", "r1"))
    handled = world.handle(remark("good", "r1"), remark("bad", "r1"), remark("new", "r2"), remark("new", "r2"))
    assert [outcome.reply for outcome in handled.outcomes] == [
        ReplyClass.DUPLICATE,
        None,
        None,
        ReplyClass.DUPLICATE,
    ]
    assert isinstance(handled.outcomes[1].error, DuplicateError)
    assert world.plain_homes.load("errand-1").head.version == 4


def test_what_is_refused_or_a_defect_stops_no_other(world):
    """A refusal is its message's own. A defect is its home's own, and the home is unchanged."""
    world.handle(ask(), ask("errand-2", 8))
    handled = world.handle(remark("rude"), got(), remark("defect", home="errand-2"), got("errand-2"))
    assert [type(outcome.error) for outcome in handled.outcomes] == [
        RefusedError,
        type(None),
        DecisionFailedError,
        DecisionFailedError,
    ]
    assert world.plain_homes.load("errand-2").head.version == 2
    assert "KeyError" in str(handled.outcomes[2].error)


def test_a_process_that_leaves_is_a_defect_of_its_home(world):
    """What is no Exception would else end the call, and with it every other home of the batch."""
    world.handle(ask(), ask("errand-2", 8))
    handled = world.handle(got(), remark("exit", home="errand-2"))
    assert [type(outcome.error) for outcome in handled.outcomes] == [type(None), DecisionFailedError]
    assert "SystemExit at errands.py:" in str(handled.outcomes[1].error)


def test_replies_by_their_class(world):
    """An unexpected one changes nothing. A skipped one is stored, so that the state which judged it is proven."""
    (nobody,) = world.handle(got("errand-9")).outcomes
    assert (nobody.reply, nobody.home) == (ReplyClass.UNEXPECTED, None)
    world.handle(ask())
    world.handle(got(generation=5))
    assert world.plain_homes.load("errand-1").head.version == 2
    world.tick(minutes=6)
    (late,) = world.handle(got()).outcomes
    assert (late.reply, late.is_written) == (ReplyClass.STALE, True)


def test_one_note_serves_a_batch(world):
    """Fifty homes are one request before and one after; their loads and commits are their own."""
    world.handle(*(ask(f"errand-{n}", n) for n in range(50)))
    with tally_requests() as tally:
        world.handle(*(got(f"errand-{n}") for n in range(50))).check()
    # The removal takes the timeouts along, which are in four shards.
    assert tally.total() == 1 + 4


def test_the_first_homes_of_a_large_batch_do_not_wait_for_the_last(world):
    """What is stored is sent before more is begun. So a process that ends in the midst leaves little unsent."""
    number = 2 * MOST_HOMES + 1
    world.handle(*(ask(f"errand-{n}", n, believed=None) for n in range(number))).check()
    names = world.steps.names
    assert names.count("commit") == len(world.bus.commands()) == number
    assert names[: names.index("send")].count("commit") == MOST_HOMES


def test_a_failure_of_storage_leaves_the_note(world):
    """Nobody knows whether the home was written."""
    world.fails("commit", "after")
    handled = world.handle(ask(believed=None))
    with pytest.raises(StorageUnavailableError):
        handled.check()
    world.tick(seconds=61)
    assert world.bus.commands() == ["fetch"]


def test_a_timeout_of_an_ended_process_changes_nothing(world):
    """Its row only goes. That of an errand which still waits ends it."""
    world.handle(ask(), ask("errand-2", 8))
    world.plain_agenda.write([])
    assert world.dies("remove", "before", lambda: world.handle(got()))
    world.clock.moment += timedelta(minutes=6)
    for shard in range(4):
        world.follower.follow(shard, float("inf"))
    assert world.rows(hours=1) == []
    assert world.bus.commands().count("forget") == 1
    stages = [world.plain_homes.load(f"errand-{n}").process["state"]["stage"] for n in (1, 2)]
    assert stages == ["done", "given up"]


def test_a_timeout_that_fails_is_due_again_and_told_as_stuck(world, told):
    """Two ticks after its deadline. The others of the shard are served."""
    world.handle(ask(), ask("errand-2", 11))
    world.clock.moment += WAITS + timedelta(seconds=1)
    load = world.plain_homes.load

    def broken(key, after=0):
        if key == "errand-1":
            raise StorageUnavailableError("could not read errand-1")
        return load(key, after)

    world.plain_homes.load = broken
    with pytest.raises(StorageUnavailableError):
        world.tick()
    assert told(events.PROCESS_STUCK) == []
    with pytest.raises(StorageUnavailableError):
        world.tick(minutes=2)
    assert [line["home"] for line in told(events.PROCESS_STUCK)] == ["errand-1"]
    assert world.stuck == {"errand-1": "StorageUnavailableError: could not read errand-1"}
    assert world.bus.commands().count("forget") == 1
    world.plain_homes.load = load
    world.tick()
    assert world.stuck["errand-1"] == ""
    assert world.bus.commands().count("forget") == 2
    assert world.rows(hours=1) == []


def test_the_follower_has_a_home_go_on_after_its_sends(world):
    """What its writer would have done next."""
    assert world.dies("remove", "before", lambda: world.handle(ask()))
    world.tick(seconds=61)
    assert world.resumed == [("errand-1", 2)]


def test_nothing_is_begun_after_the_time(world):
    """What is due stays."""
    world.handle(ask())
    world.clock.moment += timedelta(minutes=6)
    world.follower.follow(3, world.clock.monotonic())
    assert len(world.rows(hours=1)) == 1


def test_an_unknown_kind_is_a_defect_of_its_home(world):
    """And not of the call."""
    (outcome,) = world.handle(Case(home="errand-1", message=Incoming(kind="nonsense", body={}, at=NOON))).outcomes
    assert isinstance(outcome.error, DecisionFailedError)


def test_what_two_writers_could_not_send_is_sent_from_its_beginning(world):
    """The row says what was published, never what a later commit hopes for."""
    world.bus.is_down = True
    assert world.handle(ask()).not_sent
    assert world.handle(got()).not_sent
    world.bus.is_down = False
    world.tick(seconds=61)
    assert world.bus.ranges()[0] == ("errand-1", 1, 3)
    assert world.bus.commands()[:2] == ["fetch", "thank"]
