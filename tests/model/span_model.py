"""A shard that is published span after span, as a state machine of requests, searched through all interleavings.

Two workers have the shard's message at a time, or one after the other. Each may be killed before any of its requests. So a
reply that is lost is a kill behind the request. A worker gives its step back after any span, by a new message.

After every state all workers end, and the tick sends the message anew until the last blob is there.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from tests.model.search import replaced, spelt, walk

#: Accounts of each span, in the order of their rows.
SPANS = (("a", "b"), ("c",), ("d", "e"))
ALL = tuple(account for span in SPANS for account in span)
ENOUGH = 12


class Bug(Enum):
    """A mistake that somebody could make, and that the search must find."""

    #: A span says that it is done, then writes its rows.
    BLOB_BEFORE_ROWS = auto()
    #: A span says that it is done, then writes its lines.
    BLOB_BEFORE_LINES = auto()
    #: The blob of a span counts its own rows alone.
    COUNT_OF_ONE_SPAN = auto()
    #: Who goes on takes it that all rows that the fence counts are of its span.
    ROWS_FROM_ZERO = auto()
    #: Rows are written wherever the fence is.
    NO_FENCE = auto()
    #: Who goes on begins at the span behind the rows that the fence counts.
    SPAN_BY_THE_FENCE = auto()


@dataclass(frozen=True)
class Scope:
    """How many workers there are, and the mistake."""

    workers: int = 2
    bug: Bug | None = None


class Worker(NamedTuple):
    """Somebody who took the message; `step` is its next request."""

    step: str = "list"
    span: int = 0
    #: Rows of the spans before, and those of this span that it has seen written.
    before: int = 0
    done: int = 0
    #: The fence's count when it last read it.
    fence: int = 0


class State(NamedTuple):
    """One point of one history."""

    written: int = 0
    #: Rows that are in the table, each with how often a request inserted it.
    rows: tuple = ()
    lines: frozenset = frozenset()
    #: Of each span, the rows so far that its blob says, or None.
    blobs: tuple = (None,) * len(SPANS)
    workers: tuple = ()


def stepped(scope, state, worker):
    """Return the state and the worker that the next request of a worker leads to."""
    return _STEPS[worker.step](scope, state, worker)


def _list(scope, state, worker):
    first = next((n for n, blob in enumerate(state.blobs) if blob is None), None)
    if first is None:
        return state, None
    if scope.bug is Bug.SPAN_BY_THE_FENCE:
        counts = [sum(map(len, SPANS[:n])) for n in range(len(SPANS))]
        first = max(n for n, count in enumerate(counts) if count <= state.written)
    return state, worker._replace(step="before", span=first)


def _before(scope, state, worker):
    """Read the blob of the span before."""
    found = 0 if not worker.span else state.blobs[worker.span - 1] or 0
    before = 0 if scope.bug is Bug.ROWS_FROM_ZERO else found
    return state, worker._replace(step="fence", before=before)


def _fence(scope, state, worker):
    last = "blob" if scope.bug is Bug.BLOB_BEFORE_ROWS else "rows"
    return state, worker._replace(step=last, fence=state.written, done=0)


def _rows(scope, state, worker):
    """Write the next row if the fence is where it was; else see where it is."""
    span = SPANS[worker.span]
    done = max(worker.done, worker.fence - worker.before)
    if done >= len(span):
        after = "blob" if scope.bug is Bug.BLOB_BEFORE_LINES else "lines"
        return state, worker._replace(step=after, done=len(span))
    if state.written != worker.fence and scope.bug is not Bug.NO_FENCE:
        return state, worker._replace(fence=state.written, done=done)
    rows = (*state.rows, span[done])
    state = state._replace(written=state.written + 1, rows=rows[: len(ALL) + 2])
    return state, worker._replace(fence=worker.fence + 1, done=done + 1)


def _lines(scope, state, worker):
    after = "next" if scope.bug in {Bug.BLOB_BEFORE_LINES, Bug.BLOB_BEFORE_ROWS} else "blob"
    return state._replace(lines=state.lines | {worker.span}), worker._replace(step=after)


def _blob(scope, state, worker):
    own = len(SPANS[worker.span])
    count = own if scope.bug is Bug.COUNT_OF_ONE_SPAN else worker.before + own
    if state.blobs[worker.span] is None:
        state = state._replace(blobs=replaced(state.blobs, worker.span, count))
    after = {Bug.BLOB_BEFORE_ROWS: "rows", Bug.BLOB_BEFORE_LINES: "lines"}.get(scope.bug, "next")
    return state, worker._replace(step=after)


def _next(scope, state, worker):
    """Go on with the span behind; what it came to is known."""
    if worker.span + 1 == len(SPANS):
        return state, None
    before = worker.before + len(SPANS[worker.span])
    if scope.bug is Bug.COUNT_OF_ONE_SPAN:
        before = len(SPANS[worker.span])
    if scope.bug is Bug.ROWS_FROM_ZERO:
        before = 0
    return state, worker._replace(step="fence", span=worker.span + 1, before=before)


_STEPS = {
    "list": _list, "before": _before, "fence": _fence, "rows": _rows, "lines": _lines, "blob": _blob, "next": _next
}  # fmt: skip


def successors(scope, state):
    """Yield every state that one request, or the begin or end of a worker, leads to."""
    for index, worker in enumerate(state.workers):
        if worker is None:
            # The message is doubled, late, sent anew by who gave its step back, or by the tick.
            yield state._replace(workers=replaced(state.workers, index, Worker()))
            continue
        after, local = stepped(scope, state, worker)
        yield after._replace(workers=replaced(after.workers, index, local))
        yield state._replace(workers=replaced(state.workers, index, None))


def harm_of(state):
    """Return what is wrong with what people see, or nothing."""
    if len(set(state.rows)) != len(state.rows):
        return "an account's row is counted twice"
    if state.blobs[-1] is None:
        return ""
    if set(state.rows) != set(ALL) or state.written != len(ALL):
        return "a shard that is done lacks rows"
    if state.lines != set(range(len(SPANS))):
        return "a shard that is done lacks lines"
    return "" if state.blobs[-1] == len(ALL) else "the count of a shard that is done is wrong"


def end_of(scope, state):
    """Return the harm when every worker ends here, and one more goes all the way."""
    state = state._replace(workers=())
    for _ in range(ENOUGH):
        worker = Worker()
        steps = 0
        while worker is not None and steps < 10 * ENOUGH:
            state, worker = stepped(scope, state, worker)
            steps += 1
        if state.blobs[-1] is not None:
            return harm_of(state)
    return "the shard is stuck"


def search(scope):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        harm = harm_of(state) or end_of(scope, state)
        return harm, () if harm else list(successors(scope, state))

    def canonical(state):
        return state._replace(workers=tuple(sorted(state.workers, key=spelt)))

    return walk(State(workers=(None,) * scope.workers), canonical, look)
