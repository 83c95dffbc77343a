"""The release of many entries by slices as a state machine of requests, searched through every interleaving.

The gate is open, and the entries lie in two slices. A tick and signals begin invocations, in any number. An invocation
for the whole gate announces both slices by signals, then takes one after the other itself. One for a slice leases it,
lists its rows, puts the entries, deletes the rows together, and frees the lease. If its time is up before all are put,
it frees the lease and sends a further signal. One that finds the lease taken ends there.

Each signal may be doubled. A worker may be killed before any step, its signals may be lost with it, and then its lease
ends by itself at any later time.

Stuck: everybody ends here, all signals are lost, the leases end, and one tick runs. A row is still there, or an entry
was never put.
Twice: an entry is put twice although nobody was killed.
Slow: nobody was killed, every signal came, everybody is done, and a row waits for the tick.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from tests.model.search import replaced, spelt, walk

IDLE = ("idle",)
#: The slice of each entry.
SLICES = (0, 0, 1)
FREE, ENDED = -1, -2


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: A slice is released only under its lease.
    leases: bool = True
    #: The rows are listed under the lease, not before it.
    lists_under_the_lease: bool = True
    #: An invocation whose time is up frees the lease before it sends the further signal.
    frees_before_signalling: bool = True
    #: The entries are put before their rows go.
    puts_before_deleting: bool = True
    #: A lease ends by itself after its holder was killed.
    leases_end: bool = True
    #: The announcer takes slices too.
    announcer_takes_slices: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part; `kills`: workers may be killed, and signals may be lost."""

    workers: int = 2
    kills: bool = True


class Entry(NamedTuple):
    """One held entry."""

    has_row: bool = True
    is_put: bool = False


class State(NamedTuple):
    """One point of one history."""

    entries: tuple = (Entry(),) * len(SLICES)
    #: The worker that holds the lease of each slice, or that it is free, or that its holder was killed.
    leases: tuple = (FREE, FREE)
    workers: tuple = ()
    #: Signals under way: one for the whole gate, one for each slice.
    whole: bool = True
    slices: tuple = (False, False)
    is_killed: bool = False


class TwiceError(Exception):
    """Raised when an entry is put twice although nobody was killed."""


def first_state(scope):
    """The gate was opened and its signal sent."""
    return State(workers=(IDLE,) * scope.workers)


def steps(rules, state, index):
    """Yield what the next request of a worker can lead to."""
    what, *known = state.workers[index]
    for after, local in _STEPS[what](rules, state, index, *known):
        yield after._replace(workers=replaced(after.workers, index, local))


def beginnings(state):
    """Yield how a worker begins, with the signal taken or left to be delivered again."""
    if state.whole:
        yield state._replace(whole=False), ("announce",)
        yield state, ("announce",)
    for number, is_sent in enumerate(state.slices):
        if is_sent:
            yield _signalled(state, number, is_sent=False), ("take", number, ())
            yield state, ("take", number, ())


def _signalled(state, number, *, is_sent):
    return state._replace(slices=replaced(state.slices, number, is_sent))


def _announce(rules, state, _index):
    yield state._replace(slices=(True, True)), (("take", 1, (0,)) if rules.announcer_takes_slices else IDLE)


def _take(rules, state, index, number, then):
    """Lease the slice; `then`: the slices to take after it."""
    if not rules.leases:
        yield state, ("list", number, then)
    elif not rules.lists_under_the_lease:
        yield state, ("lease", number, then, _rows(state, number))
    else:
        yield from _lease(rules, state, index, number, then, None)


def _lease(_rules, state, index, *local):
    number, then, rows = local
    if state.leases[number] != FREE:
        yield state, _after(then)
        return
    leased = state._replace(leases=replaced(state.leases, number, index))
    yield leased, (("list", number, then) if rows is None else ("put", number, then, rows, ()))


def _rows(state, number):
    return tuple(each for each, entry in enumerate(state.entries) if SLICES[each] == number and entry.has_row)


def _list(_rules, state, _index, number, then):
    yield state, ("put", number, then, _rows(state, number), ())


def _put(rules, state, _index, *local):
    """Put the next entry, or find that the time is up."""
    number, then, left, done = local
    if not rules.puts_before_deleting and left and done != left:
        yield _without_rows(state, left), ("put", number, then, left, left)
        return
    if not left:
        yield state, ("delete", number, then, done, False)
        return
    entry = state.entries[left[0]]
    if entry.is_put and not state.is_killed:
        raise TwiceError
    after = state._replace(entries=replaced(state.entries, left[0], entry._replace(is_put=True)))
    if not rules.puts_before_deleting:
        yield after, ("put", number, then, left[1:], left[1:])
        return
    yield after, ("put", number, then, left[1:], (*done, left[0]))
    if done:
        # Without any progress no further signal is sent, and the tick goes on.
        yield state, ("delete", number, then, done, True)


def _without_rows(state, rows):
    entries = tuple(
        entry._replace(has_row=False) if each in rows else entry for each, entry in enumerate(state.entries)
    )
    return state._replace(entries=entries)


def _delete(rules, state, _index, *local):
    number, then, done, is_late = local
    following = ("free", number, then, is_late)
    if is_late and not rules.frees_before_signalling:
        following = ("signal", number, then, True)
    yield _without_rows(state, done), following


def _free(rules, state, index, *local):
    number, then, is_late = local
    leases = replaced(state.leases, number, FREE) if state.leases[number] == index else state.leases
    following = _after(() if is_late else then)
    if is_late and rules.frees_before_signalling:
        following = ("signal", number, then, False)
    yield state._replace(leases=leases), following


def _signal(_rules, state, _index, *local):
    number, then, is_leased = local
    yield _signalled(state, number, is_sent=True), (("free", number, then, True) if is_leased else IDLE)


def _after(then):
    return ("take", then[0], then[1:]) if then else IDLE


_STEPS = {
    "announce": _announce, "take": _take, "lease": _lease, "list": _list, "put": _put, "delete": _delete,
    "free": _free, "signal": _signal,
}  # fmt: skip


def successors(rules, scope, state):
    """Yield every state that one request, or one beginning or end of a process, leads to."""
    for index, local in enumerate(state.workers):
        if local == IDLE:
            for after, begun in beginnings(state):
                yield after._replace(workers=replaced(after.workers, index, begun))
            if scope.kills:
                yield state._replace(workers=replaced(state.workers, index, ("announce",)))
            continue
        yield from steps(rules, state, index)
        if scope.kills:
            yield killed(state, index)
    if scope.kills:
        if rules.leases_end:
            yield state._replace(leases=tuple(FREE if held == ENDED else held for held in state.leases))
        yield state._replace(whole=False, slices=(False, False))


def killed(state, index):
    """Return the state after the end of a worker: its lease stays for a while."""
    leases = tuple(ENDED if held == index else held for held in state.leases)
    return state._replace(workers=replaced(state.workers, index, IDLE), leases=leases, is_killed=True)


def canonical(state):
    """Return the one state that stands for all which differ only in who is who."""
    order = sorted(range(len(state.workers)), key=lambda index: spelt((state.workers[index], _held(state, index))))
    name = {old: new for new, old in enumerate(order)}
    return state._replace(
        workers=tuple(state.workers[old] for old in order),
        leases=tuple(name.get(held, held) for held in state.leases),
    )


def _held(state, index):
    return tuple(number for number, held in enumerate(state.leases) if held == index)


def is_stuck(rules, state):
    """Return whether an entry is lost or left behind when everything ends here, the leases end, and one tick runs."""
    leases = (FREE, FREE) if rules.leases_end else tuple(FREE if held == FREE else ENDED for held in state.leases)
    return _is_stuck(rules, State(state.entries, leases, (("announce",),), whole=False, is_killed=True))


@cache
def _is_stuck(rules, state):
    while state.workers[0] != IDLE:
        state = next(iter(steps(rules, state, 0)))
    return any(entry.has_row or not entry.is_put for entry in state.entries)


def is_slow(state):
    """Return whether everybody is done, every signal came, nobody was killed, and a row waits all the same."""
    is_over = not (state.whole or any(state.slices)) and all(local == IDLE for local in state.workers)
    return is_over and any(entry.has_row for entry in state.entries)


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        try:
            if is_stuck(rules, state):
                return "stuck", ()
            if not scope.kills and is_slow(state):
                return "slow", ()
            return "", list(successors(rules, scope, state))
        except TwiceError:
            return "twice", ()

    return walk(first_state(scope), partial(canonical), look)
