"""The start of one job as a state machine of storage requests, searched through every interleaving.

Openers change its gate. Workers go step by step in any order, each of them any of four programs, begun at any time and
ended before any step, any number of times: whoever accepts the submission (it is dropped or delivered again at will),
whoever releases what is held (a signal or a tick), whoever asks for the job (a forged message or signal), and the tick
that follows the job's pointer. What they decide is decided by `met`, `may_start` and `dispatched` of the ledger and
`must_dispatch` of the gate.

The pointer is one row, whoever writes it: each writing makes another version, and a removal names the version that its
maker wrote or read. Pointers that are due at different times are different rows, which is only safer.

Early: a chunk is put although the gate was never open since the job first met it.
Stuck: everybody ends here, one tick runs, and the submission comes again unless an accept came to its end. Then the job
is owed and not on its way with a pointer, or it is not owed and does not wait as `held` behind its gate with its row. It
is owed when its gate was open at the reading that its row keeps, or at any time since.
"""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

from shared.gate.state import Reading, after_close, after_open, must_dispatch
from shared.ledger.job_decisions import advance_cursor, may_start, note_gate_passed, record_plan
from shared.ledger.records import Job, JobState, PlanBlob
from tests.model.ledger_model import NOW
from tests.model.search import replaced, spelt, walk

IDLE, WAIT = ("idle",), ("wait",)
NOTHING = ("", False)
NEW = Job(job="j", content_hash="", workload="", accepted_at=NOW, gate="g")


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: What the gate said is in the row before anything is put.
    writes_the_note: bool = True
    #: ... and not only after it.
    notes_before_putting: bool = True
    #: Whoever is asked for a job believes its row, and not the one who asks.
    believes_the_row: bool = True
    #: A job without the note whose gate says no is put behind it again.
    puts_behind_again: bool = True
    #: The epoch at which the job first met its gate stays in the row.
    first_epoch_stays: bool = True
    #: A reading that says open counts only for rows that were there before it.
    reads_again_after_rows: bool = True
    #: A write is refused when the row has changed since it was read.
    writes_conditionally: bool = True
    #: A release writes the pointer again before it notes anything in the row.
    points_before_noting: bool = True
    #: So does everybody else who finds the gate open after the job was held.
    points_when_held: bool = True
    #: The pointer of a job that waits goes after its held row is there.
    leaves_after_keeping: bool = True
    #: A pointer that was written again stays.
    removes_by_version: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part; `before`: the job was planned by a version without notes, and its submission is gone."""

    scripts: tuple = (("open", "close"), ("open",))
    workers: int = 3
    before: bool = False


class Row(NamedTuple):
    """What the job's row says."""

    is_planned: bool = False
    state: JobState = JobState.PLANNING
    held: int | None = None
    passed: int | None = None


class State(NamedTuple):
    """One point of one history."""

    gate: Reading
    openers: tuple
    workers: tuple
    row: Row = Row()
    #: The epoch of the held row; -1: there is none.
    kept: int = -1
    #: -1 before the job first met its gate; else whether the gate was open at any time since.
    exposed: int = -1
    is_owed: bool = False
    is_put: bool = False
    has_pointer: bool = False
    #: Whether an accept came to its end, after which the submission is gone.
    is_accepted: bool = False
    #: Of each worker, whose pointer it removes if the job waits: which program it runs, and whether that pointer is the
    #: one that is there.
    owns: tuple = ()


class EarlyError(Exception):
    """Raised when a chunk is put of a job that nobody may start."""


def first_state(scope):
    """Nothing has happened, or what a version without notes left."""
    state = State(Reading(0, is_open=False), scope.scripts, (IDLE,) * scope.workers, owns=(NOTHING,) * scope.workers)
    if not scope.before:
        return state
    return state._replace(row=Row(is_planned=True, held=0), exposed=0, has_pointer=True, is_accepted=True)


# The ledger's own decisions, on records that are made of the model's.


@cache
def _job(row):
    plan, chunks = (PlanBlob("p", "e"), 1) if row.is_planned else (None, 0)
    return replace(NEW, plan=plan, chunks=chunks, state=row.state, held_epoch=row.held, passed_epoch=row.passed)


def _row(job):
    return Row(job.plan is not None, job.state, job.held_epoch, job.passed_epoch)


@cache
def after_meeting(rules, row, gate):
    """Return the row of a job that met its gate as it was read."""
    job = _job(row)
    if not rules.first_epoch_stays and job.held_epoch is not None:
        job = replace(job, held_epoch=gate.epoch)
    made = _row(note_gate_passed(job, gate))
    if rules.writes_the_note and rules.notes_before_putting:
        return made
    return made._replace(passed=None)


@cache
def after_planning(rules, gate):
    """Return the row of a job that was just planned and met its gate."""
    return after_meeting(rules, _row(record_plan(NEW, PlanBlob("p", "e"), 1, 1, 1)), gate)


@cache
def after_putting(row):
    """Return the row of a job whose chunk is on its queue."""
    noted = row if may_start(_job(row)) else row._replace(passed=0)
    return _row(advance_cursor(_job(noted), 1, NOW))


# What everybody may do next: (step, what it knows).


def steps(rules, state, index):
    """Yield what the next request of a worker can lead to."""
    what, *known = state.workers[index]
    if what in _POINTER_STEPS:
        yield from _POINTER_STEPS[what](rules, state, index, *known)
        return
    for after, local in _STEPS[what](rules, state, *known):
        yield _going_on(rules, after, index, local)


def _going_on(rules, state, index, local):
    """Return the state after a step of a worker; one that finds its job waiting removes the pointer that it owns."""
    program, _ = state.owns[index]
    if local == WAIT:
        local = ("leave",) if program and rules.leaves_after_keeping else IDLE
    ends = local == IDLE
    return state._replace(
        workers=replaced(state.workers, index, local),
        owns=replaced(state.owns, index, NOTHING) if ends else state.owns,
        is_accepted=state.is_accepted or (ends and program == "accept"),
    )


def _point(rules, state, index, program, then):
    """Write the pointer: whoever knows another version of it has an old one now."""
    owns = tuple((name, False) for name, _ in state.owns)
    if program:
        owns = replaced(owns, index, (program, True))
    after = state._replace(has_pointer=True, owns=owns)
    yield _going_on(rules, after, index, then)


def _leave(rules, state, index, *then):
    """Remove the pointer, unless it was written again."""
    _, is_current = state.owns[index]
    gone = state.has_pointer and (is_current or not rules.removes_by_version)
    yield _going_on(rules, state._replace(has_pointer=state.has_pointer and not gone), index, then or IDLE)


_POINTER_STEPS = {"point": _point, "leave": _leave}


def beginnings(rules, state):
    """Yield how a worker begins, and the pointer that it owns from the beginning."""
    yield ("point", "accept", ("accept",)), NOTHING
    yield ("release",), NOTHING
    if state.row.is_planned:
        yield ("ask",), NOTHING
        if state.has_pointer:
            yield (("ask",) if rules.leaves_after_keeping else ("leave", "ask")), ("follow", True)


def _accept(rules, state):
    yield state, (_start(rules, state.row) if state.row.is_planned else ("meet",))


def _meet(rules, state):
    met_first = state._replace(exposed=max(state.exposed, int(state.gate.is_open)))
    yield met_first, ("plan", state.gate)


def _plan(rules, state, gate):
    if state.row != Row() and rules.writes_conditionally:
        yield state, _start(rules, state.row)
        return
    row = after_planning(rules, gate)
    is_owed = state.is_owed or gate.is_open or state.gate.epoch > gate.epoch
    yield state._replace(row=row, is_owed=is_owed), _start(rules, row, said=gate.is_open)


def _start(rules, row, *, said=False):
    """Return what is done with a job by what is known of its row; `said`: the gate was read as open just now."""
    if row.state not in {JobState.PLANNING, JobState.HELD}:
        return IDLE
    if may_start(_job(row)) or not rules.believes_the_row:
        return ("put", row, -1)
    if said and not (rules.writes_the_note and rules.notes_before_putting):
        return ("put", row, -1)
    is_kept = rules.puts_behind_again or row.state is JobState.HELD
    return ("keep", row) if is_kept else ("look", row)


def _keep(rules, state, row):
    kept = row.held if state.kept < 0 else state.kept
    yield state._replace(kept=kept), ("look", row, kept)


def _look(rules, state, row, kept=-1):
    yield from ((state, local) for local in _decided(rules, row, state.gate, kept))


def _decided(rules, row, gate, kept, *, is_pointed=False):
    made = after_meeting(rules, row, gate)
    is_due = must_dispatch(row.held, gate)
    if not rules.puts_behind_again and not is_due and row.state is JobState.PLANNING:
        yield IDLE
    elif made != row:
        write = ("write", row, gate, kept)
        yield ("point", "", write) if is_due and rules.points_when_held and not is_pointed else write
    else:
        yield ("put", row, kept) if may_start(_job(row)) or is_due else WAIT


def _write(rules, state, row, gate, kept):
    if state.row != row and rules.writes_conditionally:
        # It decides anew on what others wrote.
        yield from ((state, local) for local in _again(rules, state.row, gate, kept))
        return
    made = after_meeting(rules, row, gate)
    goes = may_start(_job(made)) or (must_dispatch(row.held, gate) and not rules.notes_before_putting)
    yield state._replace(row=made), (("put", made, kept) if goes else WAIT)


def _again(rules, row, gate, kept):
    if row.state in {JobState.PLANNING, JobState.HELD}:
        yield from _decided(rules, row, gate, kept, is_pointed=True)
    else:
        yield ("forget", kept) if kept >= 0 else IDLE


def _put(rules, state, row, kept):
    if not state.is_put and state.exposed != 1:
        raise EarlyError
    yield state._replace(is_put=True), ("cursor", row, kept)


def _cursor(rules, state, row, kept):
    if state.row != row and rules.writes_conditionally:
        open_still = state.row.state in {JobState.PLANNING, JobState.HELD}
        yield state, (("cursor", state.row, kept) if open_still else ("forget", kept))
        return
    yield state._replace(row=after_putting(row)), ("forget", kept)


def _forget(rules, state, kept):
    # By its ETag: the row that was seen, or none.
    yield state._replace(kept=-1 if state.kept == kept else state.kept), IDLE


def _release(rules, state):
    yield state, ("rows", state.gate)


def _rows(rules, state, seen):
    if state.kept < 0:
        yield state, IDLE
    elif state.kept < seen.epoch or (not rules.reads_again_after_rows and must_dispatch(state.kept, seen)):
        yield state, _to_carry(rules, seen, state.kept)
    else:
        yield state, (("later", state.kept) if seen.is_open else IDLE)


def _later(rules, state, kept):
    yield state, (_to_carry(rules, state.gate, kept) if must_dispatch(kept, state.gate) else IDLE)


def _to_carry(rules, gate, kept):
    carry = ("carry", gate, kept)
    return ("point", "", carry) if rules.points_before_noting else carry


def _carry(rules, state, gate, kept):
    yield from ((state, local) for local in _again(rules, state.row, gate, kept))


def _ask(rules, state):
    yield state, _start(rules, state.row)


_STEPS = {
    "accept": _accept, "meet": _meet, "plan": _plan, "keep": _keep, "look": _look, "write": _write, "put": _put,
    "cursor": _cursor, "forget": _forget, "release": _release, "rows": _rows, "later": _later, "carry": _carry,
    "ask": _ask,
}  # fmt: skip


def opened_or_closed(state, index):
    """Return the state after an opener's next change of the gate; a conditional write, so one step."""
    script = state.openers[index]
    gate = after_open(state.gate) if script[0] == "open" else after_close(state.gate)
    after = state._replace(gate=gate, openers=replaced(state.openers, index, script[1:]))
    if not gate.is_open:
        return after
    return after._replace(exposed=-1 if state.exposed < 0 else 1, is_owed=state.is_owed or state.row.is_planned)


def successors(rules, scope, state):
    """Yield every state that one request, or one beginning or end of a process, leads to."""
    for index, script in enumerate(state.openers):
        if script:
            yield opened_or_closed(state, index)
    for index, local in enumerate(state.workers):
        if local != IDLE:
            yield from steps(rules, state, index)
            yield state._replace(
                workers=replaced(state.workers, index, IDLE), owns=replaced(state.owns, index, NOTHING)
            )
            continue
        for begun, owns in beginnings(rules, state):
            if begun[:2] != ("point", "accept") or not scope.before:
                yield state._replace(
                    workers=replaced(state.workers, index, begun), owns=replaced(state.owns, index, owns)
                )


def canonical(state):
    """Return the one state that stands for all which differ only in who is who."""
    pairs = sorted(zip(state.workers, state.owns, strict=True), key=spelt)
    return state._replace(
        openers=tuple(sorted(state.openers)),
        workers=tuple(local for local, _ in pairs),
        owns=tuple(owns for _, owns in pairs),
    )


def is_stuck(rules, state):
    """Return whether the job is lost or left behind when everything ends here, a tick runs and it is delivered again."""
    return _is_stuck(rules, state._replace(openers=(), workers=(IDLE,), owns=(NOTHING,)))


@cache
def _is_stuck(rules, state):
    # As a tick does: the gates first, then the pointers. Another tick follows what those left.
    for program in ("accept", "release", "follow", "release", "follow"):
        begun = {"accept": (("point", "accept", ("accept",)), NOTHING), "release": (("release",), NOTHING)}
        if (program == "accept" and state.is_accepted) or (program == "follow" and not _is_followed(state)):
            continue
        follow = (("ask",) if rules.leaves_after_keeping else ("leave", "ask")), ("follow", True)
        local, owns = begun.get(program, follow)
        state = state._replace(workers=(local,), owns=(owns,))
        while state.workers[0] != IDLE:
            state = next(iter(steps(rules, state, 0)))
    if state.is_owed:
        return not (state.is_put and state.row.state is JobState.RUNNING and state.has_pointer)
    return not state.is_put and (state.row.state is not JobState.HELD or state.kept < 0)


def _is_followed(state):
    return state.has_pointer and state.row.is_planned


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        try:
            if is_stuck(rules, state):
                return "stuck", ()
            return "", list(successors(rules, scope, state))
        except EarlyError:
            return "early", ()

    return walk(first_state(scope), partial(canonical), look)
