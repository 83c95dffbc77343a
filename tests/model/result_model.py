"""The way of results into the ledger as a state machine of requests, deciding by the ledger's own functions.

One job at one revision. A message carries what one run of its chunk made; two runs of a chunk differ. Workers send the
result in its message, and store it where the sending is refused or not answered. Settlers write the blob of their group,
then rows that name it. Blobs of groups are a set: each is what is in it.

Work messages and messages of the bus come again whenever their receiver ended or lost its lease. The bus may lose all that
it holds. A chunk may be parked first, and is then replayed.

What is checked in every state: a done row names a blob that is there, with the bytes of the run that the row counts; the
run that was credited first stays; no chunk is run again but for a kill, a lost lease or a lost message.
At the end of each history every chunk is done.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from shared.ledger.records import ChunkRow, ChunkState, Portion, Totals
from shared.ledger.settlement import result_blob, settle
from shared.messages import PortionMessage, Result
from shared.pipeline.results import assemble
from tests.model.ledger_model import NEVER_PAUSES, NOW, Core, _job
from tests.model.search import replaced, walk

IDLE = ("idle",)
PARKED = "parked"
#: Where a message is: waiting, gone, or with the worker or settler of this number.
WAITS, GONE = -1, -2
_AGAIN = True


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The blob of a group is written before the rows that name it.
    blob_before_rows: bool = True
    #: Its name says what is in it. Else each chunk has a blob that the next settler overwrites.
    named_by_content: bool = True
    #: Bytes and totals of a row are of one result. Else the bytes are those of the last one of its chunk.
    bytes_of_the_credited: bool = True
    #: A chunk that is done stays with the run that was credited first.
    first_credited_stays: bool = True
    #: The messages are completed after the transaction.
    completes_last: bool = True
    #: A result whose sending was not answered is stored.
    stores_unanswered: bool = True
    #: Nothing is put again while results wait.
    waits_for_settlers: bool = True
    #: Only a done row ends a chunk that comes again.
    only_done_ends: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part, and how often each fault may happen."""

    chunks: int = 2
    workers: int = 1
    settlers: int = 1
    #: Ends of workers and settlers, and leases that they lose.
    kills: int = 1
    #: Sends and transactions that are refused or not answered.
    unanswered: int = 1
    losses: int = 0
    #: Whether the first run of the first chunk is parked.
    parks: bool = False


class Letter(NamedTuple):
    """One message on the bus: what a run of a chunk made, with its content or with the name of its blob."""

    chunk: int
    #: 0: the chunk is parked.
    run: int
    is_stored: bool
    at: int = WAITS


class Row(NamedTuple):
    """A chunk's row: the run that it counts, 0 if it is parked, and the blob of its result."""

    run: int
    #: None: the chunk's own blob. Else the chunks and runs in the blob of the group.
    group: tuple | None = None


class Plan(NamedTuple):
    """What a settler is about to write: for which messages, by which reading, and the blob that it has written."""

    batch: tuple
    version: int
    rows: tuple
    group: tuple
    credited: tuple = ()


class State(NamedTuple):
    """One point of one history."""

    #: For each chunk: where its work message is, and whether it came before.
    work: tuple
    comes_again: tuple
    rows: tuple
    #: Which run each chunk's own blob has, 0 if there is none.
    own: tuple
    #: How often each chunk ran, and which run was credited first.
    runs: tuple
    credited: tuple
    #: Whether the first run of the first chunk is still to be parked, and whether it was replayed.
    parks: bool
    is_replayed: bool
    workers: tuple
    settlers: tuple
    kills: int
    unanswered: int
    losses: int
    version: int = 1
    bus: tuple = ()
    groups: frozenset = frozenset()
    #: Runs that kills, lost leases and lost messages account for.
    excused: int = 0


def first_state(scope):
    """All chunks wait on their queues."""
    none = (0,) * scope.chunks
    return State(
        work=(WAITS,) * scope.chunks,
        comes_again=(False,) * scope.chunks,
        rows=(None,) * scope.chunks,
        own=none,
        runs=none,
        credited=none,
        parks=scope.parks,
        is_replayed=False,
        workers=(IDLE,) * scope.workers,
        settlers=(IDLE,) * scope.settlers,
        kills=scope.kills,
        unanswered=scope.unanswered,
        losses=scope.losses,
    )


def search(scope, rules=None):
    """Search every state that can be reached."""
    rules = rules or Rules()
    return walk(first_state(scope), _canonical, partial(_look, rules))


def _canonical(state):
    """Settlers and workers are alike; what a state names is not who does it but what is done."""
    return state._replace(bus=tuple(sorted(state.bus)))


def _look(rules, state):
    harm = _harm(state)
    following = [] if harm else list(_following(rules, state))
    if not harm and not following and any(row is None or not row.run for row in state.rows):
        harm = "a chunk was never counted"
    return harm, following


def _harm(state):
    for chunk, row in enumerate(state.rows):
        if row is not None and row.run and (harm := _harm_of(state, chunk, row)):
            return harm
    if sum(state.runs) > len(state.runs) + state.is_replayed + state.excused:
        return "a chunk was computed again for no reason"
    return ""


def _harm_of(state, chunk, row):
    """Say what is wrong with a done row."""
    if row.run != state.credited[chunk]:
        return "another run took the place of the one that was credited"
    if row.group is None:
        return "" if state.own[chunk] == row.run else "a row names a result that is not there"
    if row.group not in state.groups:
        return "a row names a blob that is not there"
    return "" if (chunk, row.run) in row.group else "a row names the bytes of another run"


def _following(rules, state):
    yield from _environment(rules, state)
    for index, (step, *known) in enumerate(state.workers):
        for after, local in _WORK[step](rules, state, index, *known):
            yield after._replace(workers=replaced(after.workers, index, local))
        if step != "idle" and state.kills:
            yield from _ends_of_worker(state, index, known[0])
    for index, (step, *known) in enumerate(state.settlers):
        for after, local in _SETTLE[step](rules, state, index, *known):
            yield after._replace(settlers=replaced(after.settlers, index, local))
        if step != "idle" and state.kills:
            yield from _ends_of_settler(state, index)


def _ends_of_worker(state, index, chunk):
    """Yield how the lease is lost and the worker goes on, and how the process ends."""
    back = _returned(state, chunk, index)._replace(kills=state.kills - 1, excused=state.excused + 1)
    if state.work[chunk] == index:
        yield back
    yield back._replace(workers=replaced(back.workers, index, IDLE))


def _ends_of_settler(state, index):
    back = _freed(state, index)._replace(kills=state.kills - 1)
    if back.bus != state.bus:
        yield back
    yield back._replace(settlers=replaced(back.settlers, index, IDLE))


def _environment(rules, state):
    if state.losses and state.bus:
        lost = {letter.chunk for letter in state.bus}
        # Each may be put again and run once more.
        yield state._replace(bus=(), losses=state.losses - 1, excused=state.excused + len(lost))
    for chunk, row in enumerate(state.rows):
        if state.work[chunk] != GONE:
            continue
        if row is not None and not row.run and not state.is_replayed:
            yield _returned(state, chunk, GONE)._replace(is_replayed=True)
        if row is None and (not state.bus or not rules.waits_for_settlers):
            again = state._replace(work=replaced(state.work, chunk, WAITS))
            yield again._replace(comes_again=replaced(again.comes_again, chunk, _AGAIN))


# Workers.


def _take_work(_rules, state, index):
    for chunk, at in enumerate(state.work):
        if at == WAITS:
            taken = state._replace(work=replaced(state.work, chunk, index))
            yield taken, ("look" if state.comes_again[chunk] else "run", chunk)


def _look_first(rules, state, index, chunk):
    """A chunk that comes again looks for its row, then for its blob. The row is read first."""
    row = state.rows[chunk]
    if row is not None and (row.run or not rules.only_done_ends):
        yield _ended(state, chunk, index), IDLE
    else:
        yield state, ("find", chunk)


def _find_blob(_rules, state, _index, chunk):
    yield state, (("tell", chunk, state.own[chunk], True) if state.own[chunk] else ("run", chunk))


def _run(_rules, state, _index, chunk):
    if state.parks and not chunk:
        # Its entry is there; the message about it follows.
        yield state._replace(parks=False), ("tell", chunk, 0, True)
        return
    run = state.runs[chunk] + 1
    yield state._replace(runs=replaced(state.runs, chunk, run)), ("tell", chunk, run, False)


def _tell(rules, state, _index, chunk, *made):
    run, is_stored = made
    sent = state._replace(bus=tuple(sorted((*state.bus, Letter(chunk, run, is_stored)))))
    yield sent, ("done", chunk)
    if state.unanswered:
        step = ("store", chunk, run) if not is_stored and rules.stores_unanswered else ("give back", chunk)
        yield state._replace(unanswered=state.unanswered - 1), step
        yield sent._replace(unanswered=state.unanswered - 1), step


def _store(_rules, state, _index, chunk, run):
    """The first one stays."""
    own = state.own if state.own[chunk] else replaced(state.own, chunk, run)
    yield state._replace(own=own), ("give back", chunk)


def _give_back(_rules, state, index, chunk):
    yield _returned(state, chunk, index), IDLE


def _done(_rules, state, index, chunk):
    yield _ended(state, chunk, index), IDLE


_WORK = {
    "idle": _take_work,
    "look": _look_first,
    "find": _find_blob,
    "run": _run,
    "tell": _tell,
    "store": _store,
    "give back": _give_back,
    "done": _done,
}


def _returned(state, chunk, holder):
    """The work message of a chunk is delivered again, unless another has it by now."""
    if state.work[chunk] != holder:
        return state
    again = state._replace(work=replaced(state.work, chunk, WAITS))
    return again._replace(comes_again=replaced(state.comes_again, chunk, _AGAIN))


def _ended(state, chunk, holder):
    return state._replace(work=replaced(state.work, chunk, GONE)) if state.work[chunk] == holder else state


# Settlers.


def _take_batch(rules, state, index):
    waiting = [letter for letter in state.bus if letter.at == WAITS]
    for batch in {tuple(waiting), *((letter,) for letter in waiting)} - {()}:
        left = Counter(state.bus) - Counter(batch)
        held = [letter._replace(at=index) for letter in batch] if rules.completes_last else []
        known = tuple(letter._replace(at=WAITS) for letter in batch)
        yield state._replace(bus=tuple(sorted([*left.elements(), *held]))), ("read", known, False, ())


def _read(_rules, state, _index, batch, must_look, group):
    """The rows are read where some may exist: after a lost race or reply, or when one is parked."""
    looks = must_look or any(row is not None and not row.run for row in state.rows) or all(state.rows)
    rows = state.rows if looks else (None,) * len(state.rows)
    yield state, ("decide", Plan(batch, state.version, rows, group))


def _decide(rules, state, _index, plan):
    batch, group = plan.batch, plan.group
    credited = _credited(batch, plan.rows)
    if not rules.first_credited_stays:
        credited = credited or tuple(batch)
    brought = tuple((letter.chunk, letter.run) for letter in credited if letter.run and not letter.is_stored)
    if not rules.bytes_of_the_credited:
        last = {letter.chunk: letter.run for letter in batch if letter.run and not letter.is_stored}
        brought = tuple((chunk, last[chunk]) for chunk, _ in brought)
    if not credited:
        yield state, ("complete", batch)
    elif brought and not set(brought) <= set(group):
        # As the real one lays them side by side: by chunk.
        plan = plan._replace(group=_contents(brought), credited=credited)
        yield state, ("blob" if rules.blob_before_rows else "write", plan)
    else:
        yield state, ("write", plan._replace(credited=credited))


def _put_blob(rules, state, _index, plan):
    groups, chunks = state.groups, {chunk for chunk, _ in plan.group}
    if not rules.named_by_content:
        groups = frozenset(one for one in groups if not {chunk for chunk, _ in one} & chunks)
    after = state._replace(groups=groups | {plan.group})
    yield after, (("write", plan) if rules.blob_before_rows else ("complete", plan.batch))


def _write(rules, state, _index, plan):
    batch, _, rows, group, credited = plan
    is_free = all(state.rows[letter.chunk] == rows[letter.chunk] for letter in credited)
    if plan.version != state.version or not (is_free or not rules.first_credited_stays):
        yield state, ("read", batch, True, group)
        return
    after, first = list(state.rows), list(state.credited)
    for letter in credited:
        named = None if letter.is_stored or not letter.run else group
        after[letter.chunk] = Row(letter.run, named)
        first[letter.chunk] = first[letter.chunk] or letter.run
    written = state._replace(rows=tuple(after), credited=tuple(first), version=state.version + 1)
    rest = group and not rules.blob_before_rows and group not in state.groups
    yield written, (("blob", plan) if rest else ("complete", batch))
    if state.unanswered:
        yield written._replace(unanswered=state.unanswered - 1), ("read", batch, True, group)


def _complete(_rules, state, index, _batch):
    yield state._replace(bus=tuple(letter for letter in state.bus if letter.at != index)), IDLE


def _freed(state, index):
    return state._replace(
        bus=tuple(sorted(letter._replace(at=WAITS) if letter.at == index else letter for letter in state.bus))
    )


_SETTLE = {
    "idle": _take_batch,
    "read": _read,
    "decide": _decide,
    "blob": _put_blob,
    "write": _write,
    "complete": _complete,
}


# The ledger's own decisions, on records that are made of the model's.


@cache
def _credited(batch, rows):
    """Let the ledger settle a batch, and return the letters that it credits."""
    results = {id(result): letter for letter in batch for result in [_result(letter)]}
    known = {chunk: _row(chunk, row) for chunk, row in enumerate(rows) if row is not None}
    done = sum(row is not None and row.run > 0 for row in rows)
    core = Core(done=done, parked=len(known) - done, accepted_items=done, parked_items=len(known) - done)
    made = settle(_job(core, len(rows)), known, [_result(letter) for letter in batch], NOW, NEVER_PAUSES)
    assert not made.refused, "nothing in the model is forged"
    return tuple(results[id(result)] for result in made.credited)


@cache
def _contents(brought):
    """Return what is in the blob of these chunks and runs, read back from where the real one places them."""
    packed = [(_row(chunk, Row(run)), f"{chunk}:{run};".encode()) for chunk, run in brought]
    blob = assemble("j", packed)
    found = []
    for row, _ in packed:
        placed = blob.place(row)
        chunk, _, run = blob.content[placed.offset : placed.offset + placed.length].decode().strip(";").partition(":")
        found.append((int(chunk), int(run)))
    return tuple(sorted(found))


@cache
def _result(letter):
    if not letter.run:
        return Result(job="j", chunk=letter.chunk, revision=1, parked=PortionMessage(items=1), reason="why")
    place = {"blob": result_blob("j", 1, letter.chunk)} if letter.is_stored else {"content": "in the message"}
    return Result(
        job="j", chunk=letter.chunk, revision=1, accepted=PortionMessage(items=1), hash=_hash(letter.run), **place
    )


def _row(chunk, row):
    state = ChunkState.DONE if row.run else ChunkState.PARKED
    totals = Totals(accepted=Portion(1)) if row.run else Totals(parked=Portion(1))
    found = _hash(row.run) if row.run else None
    return ChunkRow(job="j", chunk=chunk, state=state, revision=1, settled_at=NOW, totals=totals, hash=found, etag="e")


def _hash(run):
    return f"{run:064x}"
