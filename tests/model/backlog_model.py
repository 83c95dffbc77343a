"""One chunk behind other work, as a state machine that is searched through every history of its scope.

Workers take messages and finish them, or crash and leave them to the next one. Messages are lost. Others put more work.
A tick peeks at the front of the queue, of which it sees a few messages only, and judges the job's silence by the ledger's
own decisions (`read_watermark`, `judge_silence`, `note_put_again`). Time passes in steps of half the time that a job may
be silent.

Impatient: the chunk is put again more often than its silence allows, or while a message of it waits: anywhere on a queue
that keeps its order, at the front of one that does not.
Forgotten: everybody ends here, no message of the chunk is left, and even under work that never ends no tick puts it
again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from shared.ledger import settlement
from shared.ledger.job_decisions import Turn, note_put_again
from shared.ledger.records import Job, JobState, PlanBlob
from shared.topology import work_queue_names
from tests.model.ledger_model import NOW
from tests.model.search import walk

STEP = timedelta(minutes=5)
PATIENCE = 2 * STEP
NEW = Job(
    job="j", content_hash="", workload="", accepted_at=NOW, state=JobState.RUNNING, plan=PlanBlob("p", "e"), chunks=1,
    dispatch_cursor=1, progressed_at=NOW, put_until=NOW,
)  # fmt: skip
(QUEUE,) = work_queue_names(1)
#: Ticks of lasting work within which a lost chunk is to be put again.
SOON = 8


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The front decides, and not the depth of the queue.
    asks_the_front: bool = True
    #: The row keeps when the chunk was put again.
    notes_the_put: bool = True
    #: A front that shows only failed deliveries says nothing about what is behind it.
    knows_what_it_does_not_see: bool = True


@dataclass(frozen=True)
class Scope:
    """How much happens, and whether the queue keeps its order."""

    steps: int = 5
    others: int = 2
    losses: int = 1
    crashes: int = 1
    #: Messages that a peek shows.
    front: int = 1
    in_order: bool = True


class Message(NamedTuple):
    """One message on the queue."""

    is_mine: bool
    put: int
    received: int = 0
    #: The step from which it can be received again; while it is in work, it cannot.
    visible: int = 0
    in_work: bool = False


class State(NamedTuple):
    """One point of one history, in steps since the chunk was put."""

    now: int = 0
    queue: tuple = (Message(is_mine=True, put=0),)
    put_until: int = 0
    nudged: int = -1
    over_since: int = -1
    turn_of: int = -1
    is_done: bool = False
    others: int = 0
    losses: int = 0
    crashes: int = 0
    puts: int = 1
    ticked: int = -1


class ImpatientError(Exception):
    """Raised when a chunk is put again that waits."""


def at(step: int) -> datetime:
    """Return the moment of a step."""
    return NOW + step * STEP


def front(scope, state):
    """Return what a peek shows: the first messages that can be received, in the order of the queue."""
    seen = sorted((m for m in state.queue if not m.in_work), key=lambda m: (m.visible, m.put, m.is_mine))
    return seen[: scope.front]


@cache
def silence(rules, scope, state):
    """Return what the tick makes of the job."""
    row = replace(NEW, put_until=at(state.put_until), nudged_at=at(state.nudged) if state.nudged >= 0 else None)
    if not rules.asks_the_front:
        marks = settlement.Watermark(at(0)) if state.queue else settlement.Watermark(at(state.now), is_drained=True)
    else:
        shown = front(scope, state)
        padding = settlement.FRONT - scope.front
        seen = [settlement.Fronted(at(m.put), m.received) for m in shown]
        if len(shown) == scope.front and rules.knows_what_it_does_not_see:
            # As many failed deliveries more as fill a real front.
            seen += [settlement.Fronted(at(0), 1)] * padding
        marks = settlement.read_watermark(seen, at(state.now))
    noted = Turn(at(state.turn_of), 1, at(state.over_since)) if state.over_since >= 0 else None
    return settlement.judge_silence(row, noted, settlement.Fronts({QUEUE: marks}, 1), at(state.now), PATIENCE)


def after_tick(rules, scope, state):
    """Return the state after a tick."""
    found = silence(rules, scope, state)
    if found is settlement.Silence.IN_WORK:
        is_known = state.over_since >= 0 and state.turn_of == state.put_until
        since = state.over_since if is_known else state.now
        return state._replace(over_since=since, turn_of=state.put_until, ticked=state.now)
    if found is not settlement.Silence.LOST or state.is_done:
        return state._replace(ticked=state.now)
    seen = state.queue if scope.in_order else front(scope, state)
    if any(m.is_mine and not m.received for m in seen):
        raise ImpatientError
    noted = note_put_again(NEW, at(state.now), at(state.now)).put_until == at(state.now)
    mine = Message(is_mine=True, put=state.now, visible=state.now)
    return state._replace(
        queue=(*state.queue, mine), nudged=state.now, puts=state.puts + 1, ticked=state.now,
        put_until=state.now if noted and rules.notes_the_put else state.put_until,
    )  # fmt: skip


def without(queue, message):
    """Return the queue with one message less."""
    index = queue.index(message)
    return (*queue[:index], *queue[index + 1 :])


def receivable(scope, state):
    """Return the messages that the next receive may bring."""
    shown = front(scope, state)
    return shown[:1] if scope.in_order else shown


def successors(rules, scope, state):
    """Yield every state that one event leads to."""
    if state.now < scope.steps:
        yield state._replace(now=state.now + 1)
    if state.ticked < state.now:
        yield after_tick(rules, scope, state)
    if state.others < scope.others:
        other = Message(is_mine=False, put=state.now, visible=state.now)
        yield state._replace(queue=(*state.queue, other), others=state.others + 1)
    yield from deliveries(scope, state)


def deliveries(scope, state):
    """Yield every state that a worker or a loss leads to."""
    for message in receivable(scope, state):
        taken = message._replace(received=1, in_work=True)
        yield state._replace(queue=(*without(state.queue, message), taken))
    for message in set(state.queue):
        rest = without(state.queue, message)
        if message.in_work:
            yield state._replace(queue=rest, is_done=state.is_done or message.is_mine)
            if state.crashes < scope.crashes:
                back = message._replace(in_work=False, visible=state.now)
                yield state._replace(queue=(*rest, back), crashes=state.crashes + 1)
        elif message.is_mine and state.losses < scope.losses:
            yield state._replace(queue=rest, losses=state.losses + 1)


def is_forgotten(rules, scope, state):
    """Return whether a lost chunk is never put again, though each step ends one message and brings another."""
    if state.is_done or any(message.is_mine for message in state.queue):
        return False
    for _ in range(SOON + len(state.queue)):
        state = state._replace(now=state.now + 1)
        waiting = [m for m in state.queue if not m.in_work]
        other = Message(is_mine=False, put=state.now, visible=state.now)
        state = state._replace(queue=(*sorted(waiting, key=lambda m: m.visible)[1:], other))
        state = after_tick(rules, scope, state)
        if any(message.is_mine for message in state.queue):
            return False
    return True


def canonical(state):
    """Return the one state that stands for all which differ only in the order of equal messages."""
    return state._replace(queue=tuple(sorted(state.queue)))


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        try:
            if state.puts > 1 + state.now // 2:
                return "impatient", ()
            if is_forgotten(rules, scope, state):
                return "forgotten", ()
            return "", list(successors(rules, scope, state))
        except ImpatientError:
            return "impatient", ()

    return walk(State(), canonical, look)
