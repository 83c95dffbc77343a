"""A job that people pause, resume and stop, as a state machine of storage requests, searched through every interleaving.

People act one after the other, each in a process that may end before any of its writes, or make it at any later time.
Dispatchers read the job's row, put one chunk, and note that, step by step. Workers have the halt row as they read it last;
they take any message, drop it or run it, and it may be delivered once more. The tick reads the row, and writes or removes
the halt row later. What is decided is decided by the ledger: `pause`, `resume`, `advance_cursor`, `note_put_again`,
`list_open`, `settle`.

Missing: everybody ends here, the tick runs, a person resumes a job that is paused, and whoever feeds works in peace. Then a
chunk has no result and no message: only the silence of ten minutes would find it.
Moved: the state of a paused job changes without a person, or a stopped one's row at all.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from shared.ledger.job_decisions import (
    advance_cursor,
    is_halted,
    list_open,
    may_feed,
    note_put_again,
    pause,
    resume,
    stop,
)
from shared.ledger.records import SEALED, ChunkRow, ChunkState, Job, JobState, PlanBlob
from shared.ledger.settlement import result_blob, settle
from shared.messages import PortionMessage, Result
from tests.model.ledger_model import NOW
from tests.model.search import replaced, spelt, walk

IDLE = ("idle",)
#: No halt row.
NONE = -1


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The halt row is written after the job's row.
    row_first: bool = True
    #: A message is dropped by its number, and not for its job alone.
    drops_by_number: bool = True
    #: Who put messages of an older number notes nothing.
    notes_by_number: bool = True
    #: A resume has the open chunks put again.
    puts_again: bool = True
    #: Results of a stopped job are dropped.
    seals: bool = True
    #: A resume does not go back to an older number.
    keeps_number: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part."""

    acts: tuple = ("pause", "resume")
    chunks: int = 2
    dispatchers: int = 1
    workers: int = 1


class Row(NamedTuple):
    """The job's row."""

    state: JobState = JobState.DISPATCHING
    cursor: int = 0
    again: int | None = None
    halts: int = 0


class State(NamedTuple):
    """One point of one history."""

    #: The acts that have not begun, and the writes of those that have: (write, number).
    acts: tuple
    writes: tuple
    dispatchers: tuple
    #: The halt row as each worker knows it.
    workers: tuple
    row: Row = Row()
    halt: int = NONE
    has_pointer: bool = False
    #: What the tick is about to do.
    tick: tuple = IDLE
    #: Messages, (chunk, number); results that are not credited; chunks that have ended.
    messages: frozenset = frozenset()
    results: frozenset = frozenset()
    ended: frozenset = frozenset()


@cache
def _job(row, ended, chunks):
    return Job(
        job="j", content_hash="", workload="w", accepted_at=NOW, started_at=NOW, plan=PlanBlob("p", "e"),
        chunks=chunks, items=chunks, state=row.state, dispatch_cursor=row.cursor, again_from=row.again, halts=row.halts,
        done=len(ended),
    )  # fmt: skip


def _row(job):
    return Row(job.state, job.dispatch_cursor, job.again_from, job.halts)


@cache
def _settled(row, ended, chunk, chunks):
    """Return the row after a result is credited, and the chunks that have ended."""
    stored = {
        one: ChunkRow(job="j", chunk=one, state=ChunkState.DONE, revision=1, settled_at=NOW, hash="0" * 64)
        for one in ended
    }
    result = Result(
        job="j", chunk=chunk, revision=1, blob=result_blob("j", 1, chunk), hash="0" * 64,
        accepted=PortionMessage(items=1),
    )  # fmt: skip
    return _row(settle(_job(row, ended, chunks), stored, [result], NOW).job), ended | {chunk}


@cache
def _paused(row, ended, chunks):
    return _row(pause(_job(row, ended, chunks), "ann", "why"))


@cache
def _stopped(row, ended, chunks):
    return _row(stop(_job(row, ended, chunks), "ann", "why", NOW))


@cache
def _resumed(rules, row, ended, chunks):
    found = resume(_job(row, ended, chunks), NOW)
    if not rules.puts_again:
        found = replace(found, again_from=row.again)
    return _row(found if rules.keeps_number else replace(found, halts=0))


@cache
def _choose(row, ended, chunks):
    """Return the next chunk that a dispatcher puts, and the note that it makes then. None: nothing is to be put."""
    job = _job(row, ended, chunks)
    if not may_feed(job):
        return None
    if row.again is not None:
        lost = list_open(job, ended)
        return (lost[0] if lost else None), ("again", row.again, lost[1] if len(lost) > 1 else None, row.halts)
    return row.cursor, ("cursor", row.cursor + 1, None, row.halts)


@cache
def _noted(rules, row, ended, chunks, note):
    what, place, left, halts = note
    job = _job(row, ended, chunks)
    known = halts if rules.notes_by_number else row.halts
    if what == "again":
        return _row(note_put_again(job, NOW, NOW, began=place, left=left, halts=known))
    return _row(advance_cursor(job, place, NOW, NOW, halts=known))


class Model:
    """The steps of one scope, under one set of rules."""

    def __init__(self, scope, rules):
        self._scope, self._rules = scope, rules

    def first(self):
        """Return the state of a job that was just planned."""
        scope = self._scope
        return State(scope.acts, (), (IDLE,) * scope.dispatchers, (NONE,) * scope.workers)

    def look(self, state):
        """Return the harm of a state, and those that follow."""
        found = list(self._follow(state))
        for _, after, is_person in found:
            if state.row.state is JobState.PAUSED and after.row.state is not JobState.PAUSED and not is_person:
                return "moved", []
            if state.row.state is JobState.STOPPED and (after.row, after.ended) != (state.row, state.ended):
                return "moved", []
        return self._judge(state), [after for _, after, _ in found]

    def _follow(self, state):
        yield from self._act(state)
        yield from self._write(state)
        for at, dispatcher in enumerate(state.dispatchers):
            yield from self._dispatch(state, at, dispatcher)
        for at, known in enumerate(state.workers):
            yield from self._work(state, at, known)
        for chunk in state.results:
            yield "settle", self._settle(state, chunk), False
        yield from self._tick(state)

    def _act(self, state):
        """Begin the next act: up to the write of the row, or, where rules are broken, that of the halt row."""
        if not state.acts:
            return
        act, rest = state.acts[0], state.acts[1:]
        row, ended, chunks = state.row, state.ended, self._scope.chunks
        if act == "pause":
            after = _paused(row, ended, chunks)
            begun = state._replace(acts=rest)
            if after == row or after.halts == row.halts:
                yield act, begun._replace(row=after), True
                return
            pointed = begun._replace(has_pointer=True)
            if self._rules.row_first:
                yield act, pointed._replace(row=after, writes=(*state.writes, ("put", after.halts))), True
            else:
                yield act, pointed._replace(halt=after.halts, writes=(*state.writes, ("pause", 0))), True
        elif act == "stop":
            after = _stopped(row, ended, chunks)
            if after == row:
                yield act, state._replace(acts=rest), True
                return
            begun = state._replace(acts=rest, row=after, has_pointer=True)
            yield act, begun._replace(writes=(*state.writes, ("put", after.halts))), True
        elif row.state is JobState.PAUSED:
            after = _resumed(self._rules, row, ended, chunks)
            yield act, state._replace(acts=rest, row=after, writes=(*state.writes, ("lift", 0))), True

    def _write(self, state):
        """Make a write of an act that began, or have its process end before it."""
        for at, (write, number) in enumerate(state.writes):
            left = state._replace(writes=state.writes[:at] + state.writes[at + 1 :])
            yield "died", left, False
            if write == "put":
                yield write, left._replace(halt=number), False
            elif write == "lift":
                yield write, left._replace(halt=NONE), False
            else:
                yield write, left._replace(row=_paused(state.row, state.ended, self._scope.chunks)), True

    def _dispatch(self, state, at, dispatcher):
        def be(now):
            return replaced(state.dispatchers, at, now)

        if dispatcher == IDLE:
            if (chosen := _choose(state.row, state.ended, self._scope.chunks)) is not None:
                yield "read", state._replace(dispatchers=be(("put", *chosen))), False
            return
        yield "died", state._replace(dispatchers=be(IDLE)), False
        step, chunk, note = dispatcher
        if step == "put":
            put = state.messages if chunk is None else state.messages | {(chunk, note[-1])}
            yield "put", state._replace(messages=put, dispatchers=be(("note", chunk, note))), False
        else:
            row = _noted(self._rules, state.row, state.ended, self._scope.chunks, note)
            yield "note", state._replace(row=row, dispatchers=be(IDLE)), False

    def _drops(self, known, number):
        return number < known if self._rules.drops_by_number else known != NONE

    def _work(self, state, at, known):
        if known != state.halt:
            yield "look", state._replace(workers=replaced(state.workers, at, state.halt)), False
        for message in state.messages:
            gone = state._replace(messages=state.messages - {message})
            if self._drops(known, message[1]):
                yield "drop", gone, False
            else:
                # It is delivered once more, or not.
                for after in (state, gone):
                    yield "run", after._replace(results=state.results | {message[0]}), False

    def _settle(self, state, chunk):
        results = state.results - {chunk}
        is_dropped = self._rules.seals and state.row.state in SEALED
        if chunk in state.ended or is_dropped:
            return state._replace(results=results)
        row, ended = _settled(state.row, state.ended, chunk, self._scope.chunks)
        return state._replace(row=row, ended=ended, results=results)

    def _tick(self, state):
        if state.tick == IDLE:
            if state.has_pointer:
                halted = is_halted(_job(state.row, state.ended, self._scope.chunks))
                yield "tick", state._replace(tick=("put", state.row.halts) if halted else ("lift",)), False
            return
        yield "died", state._replace(tick=IDLE), False
        if state.tick[0] == "put":
            yield "tick puts", state._replace(halt=state.tick[1], tick=IDLE), False
        else:
            yield "tick lifts", state._replace(halt=NONE, has_pointer=False, tick=IDLE), False

    def _judge(self, state):
        """Have everybody end, and those that come after them work in peace."""
        chunks, row, ended = self._scope.chunks, state.row, state.ended
        halt = state.halt
        if state.has_pointer and not is_halted(_job(row, ended, chunks)):
            halt = NONE
        for chunk in state.results:
            if chunk not in ended:
                row, ended = _settled(row, ended, chunk, chunks)
        if row.state is JobState.PAUSED:
            row, halt = _resumed(self._rules, row, ended, chunks), NONE
        messages = set(state.messages)
        while (chosen := _choose(row, ended, chunks)) is not None:
            if chosen[0] is not None:
                messages.add((chosen[0], row.halts))
            row = _noted(self._rules, row, ended, chunks, chosen[1])
        if row.state is JobState.STOPPED:
            return ""
        left = set(range(chunks)) - ended - {chunk for chunk, number in messages if not self._drops(halt, number)}
        return "missing" if left else ""


def search(scope, rules=Rules()):
    """Walk through every state of the scope."""
    model = Model(scope, rules)
    return walk(model.first(), _order, model.look)


def _order(state):
    """Return the one state that stands for those that differ in names alone."""
    return state._replace(
        writes=tuple(sorted(state.writes)),
        workers=tuple(sorted(state.workers)),
        dispatchers=tuple(sorted(state.dispatchers, key=spelt)),
    )
