"""Finishing in segments and shards as a state machine of requests, searched through all interleavings.

A message that was sent may be taken at any time, any number of times or never: so it is lost, doubled and late. A worker
may be killed before each of its requests. A replay may make the next revision at any moment, and a worker of the older one
goes on.

After every state everybody ends, every message is lost, and the tick sends `finish`: the job must come to its end.
"""

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from tests.model.search import replaced, spelt, walk

FINISHING, COMPLETE, UNBALANCED = "finishing", "complete", "unbalanced"
ACCOUNTS = (0, 1)
#: Chunks of a segment. The three chunks of the job are two segments.
SIZE, CHUNKS = 2, 3
SEGMENTS = 2
#: The partition of one shard, then the partitions of two.
PARTITIONS = 3
DONE = True
ENOUGH = 12


class Bug(Enum):
    """A mistake that somebody could make, and that the search must find."""

    #: A segment is so many of the done rows that are read, not the chunks of certain numbers.
    SEGMENTS_BY_DONE_ROWS = auto()
    #: The shards are asked for, and write, before anybody compared the sums.
    SHARD_BEFORE_BALANCE = auto()
    #: A shard says that it is done, then writes its totals.
    SHARD_BLOB_BEFORE_TOTALS = auto()
    #: One of the partitions is written whatever revision has written before.
    NO_FENCE_IN_ONE_PARTITION = auto()
    #: A segment is cut into as many cuts as its own partial asks for.
    COUNT_FROM_THE_PARTIAL = auto()
    #: A segment says that it is done, then writes its rejected lines.
    SEGMENT_BLOB_BEFORE_REJECTED = auto()
    #: What was merged for one revision is taken for the next one.
    FOLDER_OF_ALL_REVISIONS = auto()
    #: Who finds the plan takes it that the messages were sent.
    PLAN_MEANS_SENT = auto()
    #: The end does not wait for the shards.
    END_WITHOUT_SHARDS = auto()


@dataclass(frozen=True)
class Scope:
    """What is searched: how many shards, whether a chunk is parked and replayed, whether the sums agree."""

    shards: int = 2
    has_replay: bool = True
    is_balanced: bool = True
    workers: int = 2
    bug: Bug | None = None


class Worker(NamedTuple):
    """Somebody who took a message; `step` is its next request."""

    kind: str
    revision: int
    number: int
    step: str
    known: object = None

    def go(self, step, known=None):
        """Return the worker before another request."""
        return self._replace(step=step, known=known)


class Segment(NamedTuple):
    """The blob of a segment: the chunks in it, and into how many cuts its accounts are cut."""

    chunks: frozenset
    cuts: int


class State(NamedTuple):
    """One point of one history. What has an entry for each revision begins with revision 1."""

    state: str
    revision: int
    #: The done chunks.
    done: frozenset
    messages: frozenset
    plans: tuple
    segments: tuple
    shards: tuple
    #: Of each partition, the revision that may write and how many of its rows are there.
    fences: tuple = ((0, 0),) * PARTITIONS
    #: Of each partition and account: the revision and the chunks of the row, or None.
    totals: tuple = ((None, None),) * PARTITIONS
    #: Revision, name and content of each part.
    parts: frozenset = frozenset()
    #: Revision and parts of each manifest.
    manifests: frozenset = frozenset()
    workers: tuple = ()


def first_state(scope):
    """Every chunk has ended, and the finish message is on its queue."""
    done = frozenset(range(1 if scope.has_replay else 0, CHUNKS))
    plans, segments = (False,) * 2, ((None,) * SEGMENTS,) * 2
    shards = ((False,) * 2,) * 2
    begun = frozenset({("finish", 1, 0)})
    return State(FINISHING, 1, done, begun, plans, segments, shards, workers=(None,) * scope.workers)


def folder(scope, revision):
    """Return the place of a revision's blobs."""
    return 0 if scope.bug is Bug.FOLDER_OF_ALL_REVISIONS else revision - 1


def cut(scope, done, number):
    """Return the done chunks of a segment."""
    if scope.bug is Bug.SEGMENTS_BY_DONE_ROWS:
        return frozenset(sorted(done)[number * SIZE : (number + 1) * SIZE])
    return frozenset(chunk for chunk in done if chunk // SIZE == number)


def partition(scope, shard):
    """Return the partition of a shard."""
    return shard if scope.shards == 1 else 1 + shard


def accounts(scope, shard):
    """Return the accounts of a shard."""
    return [account for account in ACCOUNTS if account % scope.shards == shard]


def merged(segments, shard, account):
    """Return the chunks in an account's row: of each segment, its cut of this number is read."""
    return frozenset().union(*(one.chunks for one in segments if account % one.cuts == shard))


_FIRST = {"finish": "plan", "segment": "merge", "shard": "fence"}


def begun(state, message):
    """Return the worker that took a message and read the job, or None: there is nothing to do."""
    if state.revision != message[1] or state.state != FINISHING:
        return None
    return Worker(*message, _FIRST[message[0]])


def stepped(scope, state, worker):
    """Return the state and the worker that the next request of a worker leads to."""
    return _STEPS[worker.kind, worker.step](scope, state, worker)


def _plan(scope, state, worker):
    at = folder(scope, worker.revision)
    is_new = not state.plans[at]
    state = state._replace(plans=replaced(state.plans, at, DONE))
    if scope.bug is Bug.PLAN_MEANS_SENT and not is_new and None in state.segments[at]:
        return state, None
    return state, worker.go("look")


def _look(scope, state, worker):
    """Find what is missing, send it; or go on to the sums, and to the end."""
    at = folder(scope, worker.revision)
    missing = [n for n, one in enumerate(state.segments[at]) if one is None]
    if missing:
        asked = _sent(state, *(("segment", worker.revision, n) for n in missing))
        if scope.bug is Bug.SHARD_BEFORE_BALANCE:
            asked = _sent(asked, *(("shard", worker.revision, k) for k in range(scope.shards)))
        return asked, None
    if not scope.is_balanced and scope.bug is not Bug.SHARD_BEFORE_BALANCE:
        return state, worker.go("end", UNBALANCED)
    if scope.shards == 1:
        return state, worker.go("fence")
    missing = [k for k in range(scope.shards) if not state.shards[at][k]]
    if missing and scope.bug is not Bug.END_WITHOUT_SHARDS:
        return _sent(state, *(("shard", worker.revision, k) for k in missing)), None
    return state, worker.go("manifest") if scope.is_balanced else worker.go("end", UNBALANCED)


def _sent(state, *messages):
    return state._replace(messages=state.messages | set(messages))


def _merge(scope, state, worker):
    found = cut(scope, state.done, worker.number)
    early = scope.bug is Bug.SEGMENT_BLOB_BEFORE_REJECTED
    return state, worker.go("blob" if early else "rejected", found)


def _put_part(state, revision, name, content):
    """Write a part, unless it is there."""
    if any(part[:2] == (revision, name) for part in state.parts):
        return state
    return state._replace(parts=state.parts | {(revision, name, content)})


def _rejected(scope, state, worker):
    state = _put_part(state, worker.revision, ("rejected", worker.number), worker.known) if worker.known else state
    return state, worker.go("tell" if scope.bug is Bug.SEGMENT_BLOB_BEFORE_REJECTED else "blob", worker.known)


def _segment_blob(scope, state, worker):
    at = folder(scope, worker.revision)
    if state.segments[at][worker.number] is None:
        cuts = min(len(worker.known), scope.shards) if scope.bug is Bug.COUNT_FROM_THE_PARTIAL else scope.shards
        of_revision = replaced(state.segments[at], worker.number, Segment(worker.known, max(cuts, 1)))
        state = state._replace(segments=replaced(state.segments, at, of_revision))
    return state, worker.go("rejected" if scope.bug is Bug.SEGMENT_BLOB_BEFORE_REJECTED else "tell", worker.known)


def _tell_segment(scope, state, worker):
    is_last = None not in state.segments[folder(scope, worker.revision)]
    return (_sent(state, ("finish", worker.revision, 0)) if is_last else state), None


def _fence(scope, state, worker):
    """Take the fence of the partition. A shard has read the segments, and compares the sums as the end does."""
    is_early = scope.bug is Bug.SHARD_BEFORE_BALANCE
    if None in state.segments[folder(scope, worker.revision)] or not (scope.is_balanced or is_early):
        return state, None
    at = partition(scope, worker.number)
    fence = state.fences[at]
    if fence[0] > worker.revision and not _is_open(scope, at):
        return state, None
    if fence[0] < worker.revision:
        state = state._replace(fences=replaced(state.fences, at, (worker.revision, 0)))
    return state, worker.go("part" if scope.bug is Bug.SHARD_BLOB_BEFORE_TOTALS else "totals", 0)


def _is_open(scope, at):
    return scope.bug is Bug.NO_FENCE_IN_ONE_PARTITION and at == PARTITIONS - 1


def _totals(scope, state, worker):
    """Write one row, and move the fence with it."""
    at = partition(scope, worker.number)
    fence, rows = state.fences[at], accounts(scope, worker.number)
    if fence[0] != worker.revision and not _is_open(scope, at):
        return state, None
    last = "tell" if scope.bug is Bug.SHARD_BLOB_BEFORE_TOTALS else "part"
    after = worker.go("totals", worker.known + 1) if worker.known + 1 < len(rows) else worker.go(last)
    if fence[0] == worker.revision and fence[1] > worker.known:
        return state, after
    chunks = merged(state.segments[folder(scope, worker.revision)], worker.number, rows[worker.known])
    row = replaced(state.totals[at], rows[worker.known], (worker.revision, chunks))
    fences = replaced(state.fences, at, (max(fence[0], worker.revision), worker.known + 1))
    return state._replace(totals=replaced(state.totals, at, row), fences=fences), after


def _output(scope, state, worker):
    found = state.segments[folder(scope, worker.revision)]
    content = tuple((account, merged(found, worker.number, account)) for account in accounts(scope, worker.number))
    state = _put_part(state, worker.revision, ("output", worker.number), content)
    return state, worker.go("manifest" if scope.shards == 1 else "blob")


def _shard_blob(scope, state, worker):
    at = folder(scope, worker.revision)
    state = state._replace(shards=replaced(state.shards, at, replaced(state.shards[at], worker.number, DONE)))
    return state, worker.go("totals", 0) if scope.bug is Bug.SHARD_BLOB_BEFORE_TOTALS else worker.go("tell")


def _tell_shard(scope, state, worker):
    is_last = all(state.shards[folder(scope, worker.revision)])
    return (_sent(state, ("finish", worker.revision, 0)) if is_last else state), None


def _manifest(scope, state, worker):
    if all(one[0] != worker.revision for one in state.manifests):
        found = frozenset(part[1:] for part in state.parts if part[0] == worker.revision)
        state = state._replace(manifests=state.manifests | {(worker.revision, found)})
    return state, worker.go("end", COMPLETE)


def _end(scope, state, worker):
    if state.revision == worker.revision and state.state == FINISHING:
        state = state._replace(state=worker.known)
    return state, None


_STEPS = {
    ("finish", "plan"): _plan, ("finish", "look"): _look, ("finish", "fence"): _fence, ("finish", "totals"): _totals,
    ("finish", "part"): _output, ("finish", "manifest"): _manifest, ("finish", "end"): _end,
    ("segment", "merge"): _merge, ("segment", "rejected"): _rejected, ("segment", "blob"): _segment_blob,
    ("segment", "tell"): _tell_segment,
    ("shard", "fence"): _fence, ("shard", "totals"): _totals, ("shard", "part"): _output,
    ("shard", "blob"): _shard_blob, ("shard", "tell"): _tell_shard,
}  # fmt: skip


def successors(scope, state):
    """Yield every state that one request, or one beginning or end of a worker leads to."""
    if scope.has_replay and state.revision == 1:
        yield _replayed(state)
    for index, worker in enumerate(state.workers):
        if worker is None:
            for message in state.messages:
                yield state._replace(workers=replaced(state.workers, index, begun(state, message)))
            continue
        after, local = stepped(scope, state, worker)
        yield after._replace(workers=replaced(after.workers, index, local))
        yield state._replace(workers=replaced(state.workers, index, None))


def _replayed(state):
    """The parked chunk is done, in the next revision."""
    done = frozenset(range(CHUNKS))
    return _sent(state._replace(state=FINISHING, revision=2, done=done), ("finish", 2, 0))


def canonical(state):
    """Return the one state that stands for all which differ only in who is who."""
    return state._replace(workers=tuple(sorted(state.workers, key=spelt)))


def harm_of(scope, state):
    """Return what is wrong with what people see, or nothing."""
    for found in state.segments:
        seen = [chunk for one in found if one for chunk in one.chunks]
        if len(seen) != len(set(seen)):
            return "a chunk is in two segments"
    labelled = [row for at in state.totals for row in at if row and row[0] == state.revision]
    if any(row[1] != state.done for row in labelled):
        return "a row of this revision has other chunks than the revision"
    if not scope.is_balanced and (
        labelled or state.manifests or any(name[0] == "output" for _, name, _ in state.parts)
    ):
        return "a job that does not add up has published"
    return _harm_of_complete(scope, state) if state.state == COMPLETE else ""


def _harm_of_complete(scope, state):
    found = [parts for revision, parts in state.manifests if revision == state.revision]
    if len(found) != 1:
        return "a complete job has no manifest"
    lines = [line for name, content in found[0] if name[0] == "output" for line in content]
    if sorted(account for account, _ in lines) != list(ACCOUNTS) or any(one != state.done for _, one in lines):
        return "a complete job lacks lines, or has one twice"
    rejected = [chunk for name, content in found[0] if name[0] == "rejected" for chunk in content]
    if sorted(rejected) != sorted(state.done):
        return "a complete job lacks rejected lines, or has one twice"
    for shard in range(scope.shards):
        at = partition(scope, shard)
        if any(state.totals[at][account] != (state.revision, state.done) for account in accounts(scope, shard)):
            return "a complete job lacks totals, or has those of another revision"
    return ""


def end_of(scope, state):
    """Return the harm when everybody ends here: the tick sends `finish` again and again, and every message arrives."""
    return "" if state.state != FINISHING else _end_of(scope, state._replace(messages=frozenset(), workers=()))


@cache
def _end_of(scope, state):
    for _ in range(ENOUGH):
        state = _sent(state, ("finish", state.revision, 0))
        while state.messages:
            message = min(state.messages)
            state = state._replace(messages=state.messages - {message})
            worker = begun(state, message)
            while worker is not None:
                state, worker = stepped(scope, state, worker)
        if state.state != FINISHING:
            return harm_of(scope, state)
    return "the job is stuck"


def search(scope):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        harm = harm_of(scope, state) or end_of(scope, state)
        return harm, () if harm else list(successors(scope, state))

    return walk(first_state(scope), canonical, look)
