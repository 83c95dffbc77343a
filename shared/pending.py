"""Index of unfinished work. One range query finds all that is due, however long the history.

A row is only a pointer. Its writer adds it before the state that it points to. Its follower removes it after the work,
by its own ETag: one written again stays. A crash in between leaves at worst a pointer to nothing. A follower that
defers adds the later pointer first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import MOST_GROUP_ROWS, date_of, expecting_an_answer, write_group
from shared.clock import Clock
from shared.errors import NewerVersionError
from shared.telemetry import events, tell
from shared.topology import is_room_queue, is_work_queue

#: Due at every tick.
AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The range of every kind that names no other; also its partition.
PENDING: Final = "pending"
#: An instance whose clock is behind that of storage by more than this reads again, with the right time.
SLOW: Final = timedelta(seconds=5)
#: The kinds of pointers, each with the work that it leads to. First, a job that is not finished.
JOB_POINTER: Final = "job"
#: A held job whose deadline comes near. Its held row leads to it otherwise.
DEADLINE_POINTER: Final = "deadline"
#: A job whose dispatch stopped for lack of time, where no signal could say so.
DISPATCH_POINTER: Final = "dispatch"
#: A job whose finish message may not have been sent.
FINISH_POINTER: Final = "finish"
#: A job with messages that may not have been sent.
OUTBOX_POINTER: Final = "outbox"
#: A finished job whose retention ends.
RETENTION_POINTER: Final = "retention"
#: A gate that is to be opened, or closed again.
GATE_POINTER: Final = "gate"
#: A gate whose timetable has come to an opening: the next one is planned.
TIMETABLE_POINTER: Final = "timetable"
#: The roll of an opening, whose retention ends.
ROLL_POINTER: Final = "roll"
#: A sweep of payloads that has begun. Its note is the place to continue.
ORPHANS_POINTER: Final = "orphans"
#: A work queue whose watermark is unknown since the pointer's due time.
FRONT_POINTER: Final = "front"
#: A check of the instances that planned openings warm. Its id is always the same.
WARM_POINTER: Final = "warm"
#: A work queue with a message that no open job stands for.
WORK_POINTER: Final = "work"
#: A replay that any process may step.
REPLAY_POINTER: Final = "replay"
#: A container that was found gone.
ROOM_POINTER: Final = "room"
#: A room's queue of submissions whose publishers send no hints. Its note is when a message was last found there.
NET_POINTER: Final = "net"
#: Jobs that wait for their turn. It is due as long as one does, and its id is always the same.
FEED_POINTER: Final = "feed"
#: A job whose chunk messages are taken out of the queues. Its note is the number of the halt, and the turn of the messages.
HALT_POINTER: Final = "halt"
#: A job that was erased, until nothing of it was found twice.
ERASE_POINTER: Final = "erase"
#: A job that waits for others. Its note is how often a hint to make its plan was in vain.
WAIT_POINTER: Final = "wait"
#: The kinds that a capability follows.
OF_CAPABILITIES: Final = {WARM_POINTER: "warming"}


@dataclass(frozen=True, slots=True)
class Pointer:
    """Unfinished work of one kind, its due time, and the ETag of its row."""

    kind: str
    due: datetime
    id: str
    etag: str = ""
    #: The progress of its follower; not part of its key.
    note: str = ""

    @property
    def row_key(self) -> str:
        """Row key, sorted by due time in whole seconds. Compare other due times in whole seconds too."""
        return f"{_due_text(self.due)}|{self.kind}|{self.id}"


class Pending(Protocol):
    """The write side of the index."""

    def add(self, pointer: Pointer) -> Pointer:
        """Write a pointer and return it with its ETag, for its removal."""
        ...

    def remove(self, pointer: Pointer) -> None:
        """Remove a pointer, unless it was written again."""
        ...


#: Longer than any writer needs between its pointer and its message.
_PUT_WITHIN: Final = timedelta(minutes=3)


def point_at_work(pending: Pending, clock: Clock, queue: str) -> None:
    """Leave a pointer before a message is put on a queue that no job and no trigger leads to.

    Until a work queue is empty, each tick decides and sends permits, as for an open job. A room's queue is looked at by
    each tick. Many puts share one pointer.
    """
    if is_work_queue(queue):
        due = (clock.now() + _PUT_WITHIN).replace(second=0, microsecond=0)
        pending.add(Pointer(WORK_POINTER, due, queue))
    elif is_room_queue(queue):
        pending.add(Pointer(NET_POINTER, AT_ONCE, queue, note=clock.now().isoformat()))


class Range(NamedTuple):
    """One partition of the index, and how a tick reads it.

    Kinds share the range `pending`: one request finds all of them. A kind with many future deadlines takes a range of
    its own, read no further than now.
    """

    name: str
    #: How far beyond now it is read, because the pointers of open jobs are due later.
    ahead: timedelta = timedelta()
    #: Rows per tick, in one request. None: all of them, one request per thousand.
    most: int | None = None


class PendingTable:
    """One range of the index: a table partition, read from its start, however many pointers are due later."""

    def __init__(self, table: TableClient, range: str = PENDING) -> None:  # noqa: A002 - the word of the index
        self._table = table
        self._partition = PENDING if range == PENDING else f"{PENDING}-{range}"

    def add(self, pointer: Pointer) -> Pointer:
        """Write the row, also over an equal one: its new ETag protects it from the removal of the old one.

        Returns the pointer with its ETag, so that its writer may remove it.
        """
        with expecting_an_answer(f"note that {pointer.kind} {pointer.id!r} is due"):
            written = self._table.upsert_entity(self._row(pointer), mode=UpdateMode.REPLACE)
        return replace(pointer, etag=str(written["etag"]))

    def add_all(self, pointers: Sequence[Pointer]) -> None:
        """Write the rows of different pointers in the same way, a hundred per request."""
        for begin in range(0, len(pointers), MOST_GROUP_ROWS):
            some = pointers[begin : begin + MOST_GROUP_ROWS]
            with expecting_an_answer(f"note that {len(some)} of {some[0].kind!r} are due"):
                options = {"mode": UpdateMode.REPLACE}
                write_group(self._table, [("upsert", self._row(pointer), options) for pointer in some])

    def _row(self, pointer: Pointer) -> dict[str, str]:
        row = {"PartitionKey": self._partition, "RowKey": pointer.row_key}
        return row | {"note": pointer.note} if pointer.note else row

    def due(
        self, now: datetime, reply: Callable[[Any], object] = lambda _reply: None, most: int | None = None
    ) -> Iterator[Pointer]:
        """Yield the due pointers of every kind, the oldest first.

        `reply` sees each reply of storage as it comes. `most`: so many rows at most, in one request.
        """
        limit = _due_text(now) + "~"  # behind every id
        with expecting_an_answer("read the due pointers"):
            known = {"partition": self._partition, "limit": limit}
            wanted = "PartitionKey eq @partition and RowKey lt @limit"
            rows = self._table.query_entities(wanted, parameters=known, raw_response_hook=reply, results_per_page=most)
            for row in rows if most is None else next(rows.by_page(), ()):
                due, kind, name = row["RowKey"].split("|", 2)
                etag, note = str(row.metadata["etag"]), row.get("note", "")
                yield Pointer(kind, datetime.fromisoformat(due), name, etag, note)

    def read_known(self, until: datetime, most: int | None = None) -> tuple[list[Pointer], datetime | None]:
        """Return the pointers due by `until`, and the time that storage named in its last reply."""
        replies: list[Any] = []
        found = list(self.due(until, replies.append, most))
        return found, date_of(replies[-1]) if replies else None

    def remove(self, pointer: Pointer) -> None:
        """Remove the row of this ETag. A row that was written again since stays."""
        # A refusal means that another writer wrote the pointer again after this row was read, and needs it.
        with expecting_an_answer(f"forget that {pointer.kind} {pointer.id!r} was due"), suppress(ResourceModifiedError):
            self._table.delete_entity(
                self._partition, pointer.row_key, etag=pointer.etag, match_condition=MatchConditions.IfNotModified
            )


@dataclass(slots=True)
class Due:
    """The pointers that one tick found due."""

    pointers: list[Pointer] = field(default_factory=list)
    #: Whether a job is open, whose pointer may be due later.
    is_job_open: bool = False
    #: When it was read, by the clock of storage.
    at: datetime | None = None

    def of(self, kind: str) -> list[Pointer]:
        """Return the pointers of one kind, the oldest first."""
        return [pointer for pointer in self.pointers if pointer.kind == kind]


@dataclass(frozen=True, slots=True)
class _Kind:
    """One registered kind."""

    #: Takes a pointer, and the moment by the monotonic clock after which it begins nothing further.
    follow: Callable[[Pointer, float], object]
    turn: int
    means_open: bool


class Followers:
    """Registry of the kinds of pointers: the follower of each, and its range."""

    def __init__(self, ranges: Sequence[tuple[Range, PendingTable]], clock: Clock) -> None:
        self._ranges, self._clock = ranges, clock
        self._kinds: dict[str, _Kind] = {}
        self._read_ranges: set[str] = set()

    def register(
        self,
        kind: str,
        follow: Callable[[Pointer, float], object],
        *,
        range: str = PENDING,  # noqa: A002 - the word of the index
        means_open: bool = False,
        turn: int = 0,
    ) -> None:
        """Register the follower of a kind. Its range is read from now on.

        `means_open`: a pointer of this kind, also one due later within the range, says that a job is open. `turn`:
        kinds of a lower turn are followed first, and within one turn the oldest pointer.
        """
        self._kinds[kind] = _Kind(follow, turn, means_open)
        self._read_ranges.add(range)

    def reads(self, due: Due) -> Iterator[Callable[[], object]]:
        """Yield one step per range that has a kind. Each adds to `due` by one request."""
        for read, table in self._ranges:
            if read.name in self._read_ranges:
                yield partial(self._read, read, table, due)

    def steps(self, due: Due, until: float) -> Iterator[Callable[[], object]]:
        """Yield one step per due pointer of a registered kind."""
        known = [pointer for pointer in due.pointers if pointer.kind in self._kinds]
        for pointer in sorted(known, key=lambda pointer: self._kinds[pointer.kind].turn):
            yield partial(self._follow, pointer, until)

    def _follow(self, pointer: Pointer, until: float) -> None:
        try:
            self._kinds[pointer.kind].follow(pointer, until)
        except NewerVersionError as error:
            # The pointer stays due, for a newer instance.
            tell(events.NEWER_VERSION, found=str(error))

    def _read(self, read: Range, table: PendingTable, due: Due) -> None:
        # One query answers both: which pointers are due, and whether any job is open (its pointer is due later).
        limit = self._clock.now() + read.ahead
        found, named_time = table.read_known(limit, read.most)
        # By the clock of storage, which is the same for every instance that ticks.
        now = self._clock.of_reply(named_time)
        if now + read.ahead > limit + SLOW:
            found, _ = table.read_known(now + read.ahead, read.most)
        due.at = now
        due.pointers += [pointer for pointer in found if pointer.due <= now]
        due.is_job_open |= any(self._means_open(pointer) for pointer in found)

    def _means_open(self, pointer: Pointer) -> bool:
        return (kind := self._kinds.get(pointer.kind)) is not None and kind.means_open


def _due_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
