"""The gate as a state machine of atomic storage requests, searched through every interleaving.

Two openers, three keepers of work and three releasers (two ticks and a signal handler, which are one program) go step
by step in any order. What they decide is decided by the functions of `shared.gate.state` themselves.

Nothing is counted that need not be, which makes the search both smaller and stronger. A keeper may end before any step,
any number of times, and its submission comes again. A releaser may end before any step and begin again at any time, so
every number of ticks and every lost, doubled, late or forged signal is among the histories. An opener that ends is one
that takes no further step, and every state is judged as if all ended there. Once an entry's message is put, whatever
else happens to the entry is a duplicate, which the design allows, so all such states count as one.

Early: a message is put although the gate was never open since the entry's keeper first read it.
Stuck: everybody ends here, submissions come again, one tick runs, and an entry is nowhere or is owed: it has a row, the
gate was opened since the reading that led to the row, and its message was not put.
Slow: nobody ends early and every signal comes at least once; everybody is done, and an entry is owed until a tick comes.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from shared.gate.state import Reading, after_close, after_open, must_dispatch
from tests.model.search import replaced, walk

READ, CAS, SIGNAL, DONE = "read", "cas", "signal", "done"
INSERT, AGAIN, PASS, PUT = "insert", "again", "pass", "put"
IDLE, ROWS, LATER, DELETE = "idle", "rows", "later", "delete"


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: After writing its row the keeper reads the gate again.
    keeper_reads_again: bool = True
    #: The row carries the epoch of the reading that found the gate closed, not the one at the time of writing.
    row_has_the_epoch_of_the_reading: bool = True
    #: A keeper that comes again leaves the row of its first attempt as it is.
    first_row_stands: bool = True
    #: A releaser serves what an earlier opening left, also when the gate is closed again.
    level_triggered: bool = True
    put_before_delete: bool = True
    #: A signal handler reads the flag instead of believing the signal.
    reads_the_flag: bool = True
    #: A reading that says open counts only for rows that were there before it.
    reads_again_after_rows: bool = True
    #: A write is refused when the gate has changed since it was read.
    writes_conditionally: bool = True
    opening_makes_an_epoch: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part; `by_signal`: releasers begin by a signal only, and nobody ends early."""

    scripts: tuple = (("open", "close"), ("open",))
    keepers: int = 3
    releasers: int = 3
    by_signal: bool = False


class Entry(NamedTuple):
    """One piece of work: its keeper's step, its row, and what only the observer knows."""

    step: str = READ
    #: What the keeper's step needs: the epoch it read, or that of its row.
    seen: int = -1
    row: int = -1
    #: -1 before the keeper first read; else whether the gate was open at any time since.
    exposed: int = -1
    owed: bool = False


#: An entry whose message was put.
FINISHED = Entry(DONE, -1, -1, 1, owed=False)


class State(NamedTuple):
    """One point of one history."""

    gate: Reading
    openers: tuple
    entries: tuple
    releasers: tuple
    signals: int = 0


class EarlyError(Exception):
    """Raised when a message is put that no opening had released."""


def first_state(scope):
    """Nothing has happened."""
    openers = tuple((READ, script) for script in scope.scripts)
    return State(Reading(0, is_open=False), openers, (Entry(),) * scope.keepers, ((IDLE,),) * scope.releasers)


def opener_steps(rules, scope, state, index):
    """Yield what one request of an opener can lead to."""
    what, script, *seen = state.openers[index]

    def going_on(after, *local):
        return after._replace(openers=replaced(after.openers, index, local))

    if not script:
        return
    change = after_open if script[0] == "open" else after_close
    if what == SIGNAL:
        yield going_on(state._replace(signals=min(state.signals + 1, 2)), READ, script[1:])
        yield going_on(state._replace(signals=2), READ, script[1:])
    elif what == READ and change(state.gate) == state.gate:
        yield going_on(state, READ, script[1:])
    elif what == READ and not rules.writes_conditionally:
        yield going_on(state, CAS, script, state.gate)
    else:
        # A conditional write that succeeds replaces what its writer has read, and one that fails changes nothing and
        # is tried again: so reading and writing count as one step.
        before = seen[0] if seen else state.gate
        after = change(before)
        after = after if rules.opening_makes_an_epoch else Reading(before.epoch, after.is_open)
        signals = scope.by_signal and after.is_open
        yield going_on(written(state, after), SIGNAL if signals else READ, script if signals else script[1:])


def written(state, gate):
    """Return the state with the gate changed; an opening exposes and is owed to who waits."""
    if not gate.is_open:
        return state._replace(gate=gate)
    entries = tuple(
        entry._replace(exposed=-1 if entry.exposed < 0 else 1, owed=entry.owed or entry.row >= 0)
        for entry in state.entries
    )
    return state._replace(gate=gate, entries=entries)


def put(state, index):
    """Return the state after the message of an entry is put."""
    entry = state.entries[index]
    if entry != FINISHED and entry.exposed != 1:
        raise EarlyError
    return state._replace(entries=replaced(state.entries, index, FINISHED))


def keeper_steps(rules, state, index):
    """Yield what one request of a keeper can lead to."""
    entry = state.entries[index]

    def going_on(**fields):
        return state._replace(entries=replaced(state.entries, index, entry._replace(**fields)))

    if entry.step == READ:
        step = PASS if state.gate.is_open else INSERT
        yield going_on(step=step, seen=state.gate.epoch, exposed=max(entry.exposed, int(state.gate.is_open)))
    elif entry.step == INSERT:
        yield going_on(**_insert(rules, entry, state.gate))
    elif entry.step == AGAIN:
        is_due = must_dispatch(entry.seen, state.gate)
        yield going_on(step=PUT if is_due else DONE, seen=-1)
    elif entry.step in {PASS, PUT}:
        yield put(state, index)


def _insert(rules, entry, gate):
    step = AGAIN if rules.keeper_reads_again else DONE
    if entry.row >= 0 and rules.first_row_stands:
        return {"step": step, "seen": entry.row if rules.keeper_reads_again else -1}
    row = entry.seen if rules.row_has_the_epoch_of_the_reading else gate.epoch
    owed = entry.owed or gate.epoch > entry.seen
    return {"step": step, "seen": row if rules.keeper_reads_again else -1, "row": row, "owed": owed}


def releaser_steps(rules, state, index):
    """Yield what one request of a releaser can lead to."""
    what, *local = state.releasers[index]

    def going_on(after, *now):
        return after._replace(releasers=replaced(after.releasers, index, now))

    if what == ROWS:
        yield going_on(state, *listed(rules, state, local[0]))
    elif what == LATER:
        sure, unsure = local
        due = sure + tuple(row for row in unsure if must_dispatch(row[1], state.gate))
        yield going_on(state, *to_dispatch(rules, due))
    elif what in {PUT, DELETE}:
        # In any order: the real one has several in flight.
        for row in local[0]:
            rest = tuple(other for other in local[0] if other != row)
            yield from (going_on(after, *now) for after, now in _dispatch_steps(rules, state, row, rest))
    elif what == "put deleted":
        yield going_on(put(state, local[0]), *to_dispatch(rules, local[1]))


def _dispatch_steps(rules, state, row, rest):
    index, epoch = row
    if rules.put_before_delete:
        # Its row goes afterwards or not at all: the entry is finished either way.
        yield put(state, index), to_dispatch(rules, rest)
        return
    entry = state.entries[index]
    without = entry._replace(row=-1) if entry.row == epoch else entry
    yield state._replace(entries=replaced(state.entries, index, without)), ("put deleted", index, rest)


def to_dispatch(rules, due):
    """Return what a releaser does with the rows that are due."""
    if not due:
        return (IDLE,)
    return (PUT if rules.put_before_delete else DELETE, due)


def listed(rules, state, seen):
    """Return what a releaser makes of the rows that it finds now, having read the gate before."""
    rows = tuple((index, entry.row) for index, entry in enumerate(state.entries) if entry.row >= 0)
    if not rules.level_triggered:
        return to_dispatch(rules, rows if seen.is_open else ())
    if not rules.reads_again_after_rows:
        return to_dispatch(rules, tuple(row for row in rows if must_dispatch(row[1], seen)))
    sure = tuple(row for row in rows if row[1] < seen.epoch)
    unsure = tuple(row for row in rows if row[1] >= seen.epoch) if seen.is_open else ()
    return (LATER, sure, unsure) if unsure else to_dispatch(rules, sure)


def beginnings(rules, scope, state, index):
    """Yield how a releaser begins, by a signal or at any time: it reads the flag."""
    if scope.by_signal and not state.signals:
        return
    start = (ROWS, state.gate)
    if not rules.reads_the_flag:
        start = listed(rules, state, Reading(state.gate.epoch + 1, is_open=True))
    yield state._replace(signals=max(state.signals - 1, 0), releasers=replaced(state.releasers, index, start))


def from_anew(state, index, step):
    """Return the state with the keeper of an entry at its beginning, if it is at this step."""
    entry = state.entries[index]
    if entry.step != step:
        return state
    return state._replace(entries=replaced(state.entries, index, entry._replace(step=READ, seen=-1)))


def successors(rules, scope, state):
    """Yield every state that one request, or one end of a process, leads to."""
    for index in range(len(state.openers)):
        yield from opener_steps(rules, scope, state, index)
    for index, entry in enumerate(state.entries):
        for after in keeper_steps(rules, state, index):
            # Who is done may always be asked again, so there is no need to tell the two apart.
            yield after if scope.by_signal or after.entries[index] == FINISHED else from_anew(after, index, DONE)
        if not scope.by_signal and entry != FINISHED:
            yield from_anew(state, index, entry.step)
    for index, local in enumerate(state.releasers):
        if local[0] == IDLE:
            yield from beginnings(rules, scope, state, index)
        else:
            yield from releaser_steps(rules, state, index)
            if not scope.by_signal:
                yield state._replace(releasers=replaced(state.releasers, index, (IDLE,)))


def canonical(rules, state):
    """Return the one state that stands for all which differ only in names, or in what became of finished entries."""
    order = sorted(range(len(state.entries)), key=state.entries.__getitem__)
    name = {old: new for new, old in enumerate(order)}
    live = {old for old in order if state.entries[old] != FINISHED}
    return state._replace(
        openers=tuple(sorted(state.openers)),
        entries=tuple(state.entries[old] for old in order),
        releasers=tuple(sorted(_renamed(rules, local, name, live) for local in state.releasers)),
    )


def _renamed(rules, local, name, live):
    if local[0] in {PUT, DELETE}:
        return to_dispatch(rules, _renamed_rows(local[1], name, live))
    if local[0] == LATER:
        sure, unsure = (_renamed_rows(rows, name, live) for rows in local[1:])
        return (LATER, sure, unsure) if unsure else to_dispatch(rules, sure)
    if local[0] == "put deleted":
        rest = _renamed_rows(local[2], name, live)
        return ("put deleted", name[local[1]], rest) if local[1] in live else to_dispatch(rules, rest)
    return local


def _renamed_rows(rows, name, live):
    return tuple(sorted((name[index], epoch) for index, epoch in rows if index in live))


def is_stuck(rules, state):
    """Return whether something is lost or left behind when everything ends here and one tick runs."""
    return _is_stuck(rules, State(state.gate, (), state.entries, ((ROWS, state.gate),)))


@cache
def _is_stuck(rules, state):
    for index in range(len(state.entries)):
        if state.entries[index] != FINISHED and state.entries[index].row < 0:
            again = state.entries[index]._replace(step=READ, seen=-1)
            state = state._replace(entries=replaced(state.entries, index, again))
            while state.entries[index].step != DONE:
                state = next(iter(keeper_steps(rules, state, index)))
    while state.releasers != ((IDLE,),):
        state = next(iter(releaser_steps(rules, state, 0)))
    return any(entry != FINISHED and (entry.owed or entry.row < 0) for entry in state.entries)


def is_slow(state):
    """Return whether everybody is done, every signal came, and an entry waits for the tick all the same."""
    is_over = (
        not state.signals
        and all(not opener[1] for opener in state.openers)
        and all(entry.step == DONE for entry in state.entries)
        and all(local == (IDLE,) for local in state.releasers)
    )
    return is_over and any(entry.owed for entry in state.entries)


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        try:
            if is_stuck(rules, state):
                return "stuck", ()
            if scope.by_signal and is_slow(state):
                return "slow", ()
            return "", list(successors(rules, scope, state))
        except EarlyError:
            return "early", ()

    return walk(first_state(scope), partial(canonical, rules), look)
