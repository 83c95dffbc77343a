"""A chunk in a process of its own: it ends as in this one, or its process does, and the transaction is known."""

import re
from dataclasses import replace
from decimal import Decimal
from threading import Event, Thread
from types import SimpleNamespace

import msgspec
import pytest

from shared.errors import NoSlotError, NotStartedError
from shared.memory import MIB
from shared.messages import PortionMessage
from shared.parked.entry import chunk_key, job_note
from shared.parked.poison_policy import (
    DEFAULT_POLICY,
    FailedAloneError,
    KillerError,
    Nature,
    StandstillError,
    item_of,
    nature_of,
)
from shared.payload import Limits
from shared.pipeline.failing import alone as module
from shared.pipeline.failing.alone import Alone, Board
from shared.pipeline.outputs import run_in_parts
from shared.workloads.registry import Workloads, raise_first
from tests.faults.memory.storage import MemoryStorage
from tests.process import forked
from tests.process.world import LINES, MemoryWorld, Sales

#: The number of the first transaction.
FIRST = 100
#: The amount of transaction 104.
FIFTH = "4.10"
#: A process that imports all by itself, as in the app: for what depends on how it starts.
newly = pytest.mark.parametrize("start", [module._start], ids=["newly"])


@pytest.fixture
def start():
    """How a child is started."""
    return forked.start


@pytest.fixture(autouse=True)
def starting(start, monkeypatch):
    """Have children started so."""
    monkeypatch.setattr(module, "_start", start)


def loaded(kind, how="", amounts=""):
    """Return what the app loads the workload by."""
    return Workloads.load(f"tests.process.suspects:{kind}", {"HOW": how, "AMOUNTS": amounts}).loaded


def alone(kind, how, **changes):
    """Return the runner of a workload that meets its end at transaction 104."""
    return Alone(loaded=loaded(kind, how, FIFTH), **changes)


#: What is known here of a workload that runs there.
SUSPECT = SimpleNamespace(name="suspect", partial=dict[str, Decimal])


def run(runner, parts=(LINES[:3], LINES[3:]), **more):
    """Run the ten lines."""
    return runner(SUSPECT, parts, FIRST, Limits(), **more)


def numbers_of(ran):
    """Return what has failed there, and how."""
    return {one.number: type(one.error) for one in ran.left}


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("Suspect", module._start),
        ("Suspect", forked.start),
        ("AtOnce", forked.start),
        ("Waiting", forked.start),
        ("Rejecting", forked.start),
    ],
    ids=lambda one: one if isinstance(one, str) else "newly" if one is module._start else "forked",
)
def test_a_run_that_ends_is_the_run_of_this_process(kind):
    """Portions, partial and rejections are those of the same code here, by any call that a workload may have."""
    found = loaded(kind, "prints", FIFTH)
    there = run(Alone(loaded=found))
    workload = Workloads.load(*found).find("suspect")
    here = run_in_parts(workload, [LINES[:3], LINES[3:]], FIRST, Limits())
    assert replace(there, partial=None) == replace(here, partial=None)
    assert there.accepted.items + there.rejected.items == len(LINES)
    assert bytes(there.partial) == msgspec.json.encode(here.partial)


@pytest.mark.parametrize(
    ("how", "found"),
    [("segfault", "SIGSEGV"), ("exit", "exit status 0"), ("exit status", "exit status 3")],
)
def test_the_end_of_the_process_is_the_transactions(how, found):
    """Whatever it says at its end: without an answer it is a death. The others run in the next process. This one lives."""
    ran = run(alone("Suspect", how))
    (left,) = ran.left
    assert re.match(rf"^{found} after \d+\.\d s in a process of its own", str(left.error))
    assert (left.number, left.line, item_of(left.error)) == (104, LINES[4], 104)
    assert (ran.accepted.items, ran.failed) == (9, PortionMessage(items=1, sums={"amount": "4.10"}))
    assert [piece.first for piece in ran.pieces] == [100, 103, 105]


@newly
def test_a_fault_of_a_library_is_found_in_the_code():
    """`faulthandler` names the functions of Python."""
    (left,) = run(alone("Suspect", "segfault")).left
    assert re.search(r", at .*suspects\.py:\d+ <lambda> < suspects\.py:\d+ _meet < ", str(left.error))


@pytest.mark.parametrize("kind", ["AtOnce", "Waiting"])
def test_of_calls_for_several_the_guilty_one_is_found(kind):
    """The next process calls for one after the other."""
    ran = run(alone(kind, "exit status"))
    assert (numbers_of(ran), ran.accepted.items) == ({104: KillerError}, 9)


def test_a_call_for_all_parks_all():
    """None is alone to blame for what `combine` does."""
    with pytest.raises(KillerError) as died:
        run(alone("InCombine", "exit status"))
    assert item_of(died.value) is None


def test_two_killers_are_set_aside_and_the_third_is_that_of_the_chunk():
    """Each costs a process."""
    assert numbers_of(run(Alone(loaded=loaded("Suspect", "exit", "4.10 7.10")))) == dict.fromkeys(
        (104, 107), KillerError
    )
    with pytest.raises(KillerError) as died:
        run(Alone(loaded=loaded("Suspect", "exit", "4.10 5.10 7.10")))
    assert item_of(died.value) == 107


def test_only_those_that_are_left_run():
    """The others passed in a run before."""
    ran = run(Alone(loaded=loaded("Suspect", "bug", FIFTH)), left={101, 104, 109})
    assert (numbers_of(ran), ran.accepted.items) == ({104: FailedAloneError}, 2)
    assert [(piece.first, sum(piece.partial.values())) for piece in ran.pieces] == [
        (101, Decimal("1.10")),
        (109, Decimal("9.10")),
    ]


@newly
def test_one_that_takes_too_much_memory_is_ended():
    """Half of what the instance has."""
    (left,) = run(alone("Suspect", "memory", memory=lambda: 400 * MIB)).left
    assert (left.number, str(left.error)) == (104, "it took more than 200 MiB in a process of its own")


@pytest.fixture
def leaping(monkeypatch):
    """A clock that leaps once the child was seen at transaction 104, however long its start takes."""
    seen, read = [], Board.read

    def look(board):
        calls, number = read(board)
        if number == 104:
            seen.append(calls)
        return calls, number

    monkeypatch.setattr(Board, "read", look)
    return SimpleNamespace(monotonic=lambda: 3500.0 if seen else 0.0)


def test_one_that_stands_still_is_ended(leaping):
    """No call began or ended for so long."""
    with pytest.raises(StandstillError, match="no call began or ended for 3500 s") as stood:
        run(alone("Suspect", "stands still", clock=leaping))
    assert item_of(stood.value) == 104


def test_one_that_takes_too_long_in_all_is_ended(leaping):
    """However often it calls."""
    policy = replace(DEFAULT_POLICY, still_seconds=3600)
    with pytest.raises(StandstillError, match="it had not ended after 3500 s"):
        run(alone("Suspect", "stands still", policy=policy, clock=leaping))


@pytest.mark.parametrize(
    ("how", "kind", "nature"),
    [
        ("bug", "KeyError", Nature.UNKNOWN),
        ("outage", "ConnectionResetError", Nature.TRANSIENT),
        ("SystemExit", "SystemExit", Nature.UNKNOWN),
    ],
)
def test_an_error_there_is_an_error_here(how, kind, nature):
    """With its place in the workload and its transaction. Its words, which may quote data, are in the cause alone."""
    with pytest.raises(FailedAloneError) as failed:
        raise_first(run(alone("Suspect", how)).left, len(LINES))
    cause = failed.value.failed.cause
    assert (failed.value.failed.kind, nature_of(failed.value), cause.failed_item) == (kind, nature, 104)
    assert re.search(r"suspects\.py:\d+ _meet", cause.place)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("kind", ["Suspect", "AtOnce", "Waiting"])
def test_all_that_fail_there_are_known_here(kind):
    """Each by its own number, by any call that a workload may have. The others are done."""
    ran = run(Alone(loaded=loaded(kind, "bug", "4.10 7.10")))
    assert [(one.number, one.error.failed.cause.failed_item) for one in ran.left] == [(104, 104), (107, 107)]
    assert ran.accepted.items == len(LINES) - 2


@newly
def test_one_that_cannot_start_says_nothing_about_its_chunk():
    """Such an end must not park it as a killer. It is tried again, as any error of an unknown nature."""
    with pytest.raises(NotStartedError, match="ended before it ran anything: exit status 4") as refused:
        run(Alone(loaded=loaded_unbuilt("Unloadable")))
    assert nature_of(refused.value) is Nature.UNKNOWN


@newly
def test_objects_are_made_by_their_classes_there():
    """Whoever hands in objects, and names no setting, has the same workload there."""
    workloads = Workloads([Sales()])
    ran = Alone(loaded=workloads.loaded)(workloads.find("sales"), [LINES], FIRST, Limits())
    assert ran.accepted.items == len(LINES)


def loaded_unbuilt(kind):
    """Return what a child loads a workload by that cannot be built here."""
    return loaded("Suspect")._replace(setting=f"tests.process.suspects:{kind}")


def test_one_runs_at_a_time():
    """A second suspect is delivered again: each takes the memory of a process."""
    runner, came, may_end = Alone(loaded=loaded("Suspect")), Event(), Event()

    def parts():
        came.set()
        may_end.wait()
        yield LINES

    first = Thread(target=lambda: run(runner, parts()))
    first.start()
    came.wait()
    with pytest.raises(NoSlotError):
        run(runner)
    may_end.set()
    first.join()
    assert run(runner).accepted.items == len(LINES)


@pytest.fixture
def suspect():
    """Return a world whose chunk runs alone as the app has it, with a workload that ends its process."""
    world = MemoryWorld(MemoryStorage())
    runner = alone("Suspect", "exit status")
    world.run_alone = lambda _workload, *rest, **more: runner(SUSPECT, *rest, **more)
    return world


def died(world, delivery):
    """Leave what a process leaves that dies at this delivery, in its work."""
    with world.process() as process:
        process.attempts.note_begun(job_note(world.job, chunk_key(0, 1)), delivery)


@newly
def test_what_ends_its_process_is_parked_at_its_third_delivery(suspect):
    """Two deliveries took their process along. The third one is this process, which lives."""
    died(suspect, 2)
    suspect.deliver(3)
    entry = suspect.aside
    assert (entry.reason, entry.attempts, entry.failed_item, entry.items) == ("killed_its_worker", 3, 104, 1)
    assert "exit status 3" in entry.found
    assert (suspect.entry, suspect.sent[0].accepted.items) == (None, 9)
    assert suspect.sent[0].parked == PortionMessage(items=1, sums={"amount": "4.10"})


def test_a_chunk_that_died_of_its_neighbour_comes_through(suspect):
    """It ran in a process of its own once, and is done. Its notes are forgotten."""
    runner = Alone(loaded=loaded("Suspect"))
    suspect.run_alone = lambda _workload, *rest, **more: runner(SUSPECT, *rest, **more)
    died(suspect, 2)
    suspect.deliver(3)
    assert (suspect.entry, suspect.sent[0].accepted.items) == (None, 10)
    assert Decimal(suspect.sent[0].accepted.sums["amount"]) == Decimal("46.00")
    with suspect.process() as process:
        assert process.attempts.list_failures(suspect.job) == []


def test_a_person_reads_that_a_chunk_is_suspect(suspect):
    """Until it ends: here an error of an unknown nature has it delivered again, and then says so itself."""

    def look(*_, **_more):
        with suspect.process() as process:
            (one,) = process.attempts.list_failures(suspect.job)
        seen.append((one.deliveries, one.words))
        raise KeyError

    seen = []
    suspect.run_alone = look
    died(suspect, 2)
    with pytest.raises(KeyError):
        suspect.deliver(3)
    assert seen == [(3, "its process ended, so it runs in one of its own")]
    with suspect.process() as process:
        (one,) = process.attempts.list_failures(suspect.job)
    assert re.match("KeyError at .*look", one.words)
