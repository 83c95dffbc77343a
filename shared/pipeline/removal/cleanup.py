"""Removal and repair by the tick: finished jobs, payloads without a job, the containers and queues of rooms.

`Retention` buries finished jobs after their time: removes their bytes and chunk rows, and leaves a tombstone.

Kept without limit: the tombstone (so that the same submission is still recognised), outputs and totals. The order makes
it safe: first the job becomes a tombstone that refers to no bytes, then the bytes go, then the pointer that led here.
A settler that had read the job before may still write a blob of results, which no row names. So a second check, a day later,
removes what is there by then.

A job of 10,000,000 has 1,250 rows and results, one of an earlier setting 100,000. So they go in groups, and a tick that has
no time left stops between two groups. The pointer stays due, and the next tick goes on.

`Orphans` removes payloads whose submission never came, once a day, in some of the rooms in turn. It keeps every blob that anything may still refer to.

A blob is removed when it is older than any message may wait and no parked message names it. A blob `<job>/<sha256>`
belongs to that job and stays while the job has a row: retention removes it. A blob of any other name belongs to no job,
even in a folder named after one: its bytes were framed again into a blob of the app. A publisher who drops the payload
again touches the blob first. That changes its ETag, and storage refuses the removal.

`Rooms` repairs the rooms: makes containers that publishers deleted again, and reports queues that no function reads.

A publisher's role lets it delete the container of its room. A reader that finds it gone leaves a pointer. Publishers
that only write leave none, so all containers are also checked once a day. A room taken off the list leaves its queue, and
so does a smaller `SLUICE_WORK_QUEUES`.

`Net` finds submissions that no hint led to, in rooms, whose queues have no trigger. A tick looks at four rooms in turn and
at those where something was found within a day, with one receive each. So a day without work costs the same for one room
and for two hundred. Publishers who send no hints wait for the turn of their room once, and then for the next tick.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobProperties, BlobServiceClient, ContainerClient
from azure.storage.queue import QueueClient, QueueServiceClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ParkedTamperedError
from shared.grammar import BLOB, ROOMS_A_DAY, ROOMS_A_TICK, owner_of, owner_of_stretch, room_job
from shared.ledger import FINISHED, KEPT, TOMBSTONES, Job, JobState, Ledger, bury, commit, counting
from shared.messages import unwrap
from shared.parked import ACCEPT, Entry, EntryState, ParkedTable
from shared.pending import (
    AT_ONCE,
    NET_POINTER,
    ORPHANS_POINTER,
    RETENTION_POINTER,
    ROOM_POINTER,
    Pending,
    PendingTable,
    Pointer,
)
from shared.pipeline.failing.aside import TRANSACTIONS
from shared.pipeline.removal.job_bytes import JobBytes
from shared.telemetry import events, tell
from shared.topology import (
    MOST_WORK_QUEUES,
    PLANS,
    POISON_SUFFIX,
    payload_container,
    rooms,
    submission_queue,
    topology,
    work_queue_names,
)

#: A job that cannot be buried yet is checked again after this time.
LATER: Final = timedelta(days=1)
#: The note of the pointer to a buried job whose bytes were removed before.
SECOND_CHECK: Final = "second check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Buries the jobs whose retention has ended. One per process."""

    ledger: Ledger
    parked: ParkedTable
    pending: PendingTable
    bytes: JobBytes
    #: Removes a job's line in its night.
    forget_night: Callable[[Job], object]
    clock: Clock
    period: timedelta

    def begin(self, job: Job) -> None:
        """Leave the pointer that is due when a finished job's retention ends."""
        self.pending.add(Pointer(RETENTION_POINTER, (job.finished_at or self.clock.now()) + self.period, job.job))

    def follow(self, pointer: Pointer, until: float) -> bool:
        """Bury the job of a due pointer. False: it is still needed, or the time was over."""
        with counting():
            job = self.ledger.read(pointer.id)
            if job is not None and self._is_early(pointer, job):
                # It ended once more since.
                self.begin(job)
                self.pending.remove(pointer)
                return False
            is_needed = job is not None and not self._bury_job(job)
        if is_needed:
            # The new pointer before the old one goes: a job without a pointer would keep its bytes without limit.
            self.pending.add(replace(pointer, due=self.clock.now() + LATER))
            self.pending.remove(pointer)
            return False
        if job is not None and job.state is not JobState.ERASED:
            is_second = pointer.note == SECOND_CHECK
            for _ in self.bytes.remove_results(job.job) if is_second else self.bytes.remove_kept(job):
                # After a group, not before it: each call removes something, however late it is.
                if self.clock.monotonic() >= until:
                    return False
            if is_second:
                self.forget_night(job)
            else:
                self.pending.add(replace(pointer, due=self.clock.now() + LATER, note=SECOND_CHECK))
        self.pending.remove(pointer)
        return True

    def _is_early(self, pointer: Pointer, job: Job) -> bool:
        if job.state not in KEPT or job.finished_at is None:
            return False
        # In whole seconds, as pointers are due.
        return pointer.due < (job.finished_at + self.period).replace(microsecond=0)

    def _bury_job(self, job: Job) -> bool:
        if job.state in TOMBSTONES:
            return True
        # A replay may have begun another revision, and parked chunks are replayed from these very bytes. A parked
        # submission only claims to be of this job, so it is no reason to keep it; earlier versions stored it here too.
        # The numbers of a stopped job are final, so no replay needs its bytes.
        entries = () if job.state is JobState.STOPPED else self.parked.entries(job.job)
        # Nor are those that a run before the last one left.
        needed = [one for one in entries if one.stage != ACCEPT and (one.revision or 0) >= job.run_from]
        if job.state in FINISHED and not job.aside:
            # Nothing is set aside any more, so these have outlived their reason: the result that they were for was lost.
            needed = [entry for entry in needed if not (entry.stage == TRANSACTIONS and self._close(entry))]
        if job.state not in KEPT or needed:
            return False
        buried = bury(job)
        # Before the row: no tick looks at a buried job again.
        return self.ledger.tell_needs(buried) and commit(self.ledger, buried) is not None

    def _close(self, entry: Entry) -> bool:
        return self.parked.change(entry, replace(entry, state=EntryState.DONE)) is not None


#: Hour of the day, in UTC, at which a sweep begins.
SWEEP_HOUR: Final = 3
#: Blobs per page of the listing, the most that storage returns at once, and pages per tick.
PAGE: Final = 5000
PAGES_A_TICK: Final = 20
#: Added to the retention, so that jobs which are being buried are not looked up.
MARGIN: Final = timedelta(days=1)
#: A submission that waits for longer means that the app was stopped: it may name a payload of any age.
LONGEST_WAIT: Final = timedelta(days=1)


def rooms_of_day(rooms: Sequence[str], day: date) -> Sequence[str]:
    """Return the rooms whose payloads are swept on this day: each once in as many days as there are parts."""
    parts = -(-len(rooms) // ROOMS_A_DAY) or 1
    return rooms[day.toordinal() % parts :: parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """The daily sweep of the payloads."""

    ledger: Ledger
    parked: ParkedTable
    pending: PendingTable
    #: Each returns the client of a name.
    container: Callable[[str], ContainerClient]
    queue: Callable[[str], QueueClient]
    #: Without the common one.
    rooms: Sequence[str]
    clock: Clock
    #: How long a finished job keeps its bytes; longer than any message can wait before it is parked.
    retention: timedelta
    page: int = PAGE
    pages_a_tick: int = PAGES_A_TICK

    def run(self, begun: Sequence[Pointer]) -> None:
        """Begin a sweep when it is time, or continue the one that left a pointer."""
        now = self.clock.now()
        # By the clock, like the drain of poison queues: any instance can begin, and there is no row that could be lost.
        if not begun and (now.hour, now.minute) == (SWEEP_HOUR, 0):
            begun = [self.pending.add(Pointer(ORPHANS_POINTER, now.replace(second=0, microsecond=0), "payloads"))]
        for pointer in begun:
            self._sweep(pointer, now)

    def _sweep(self, pointer: Pointer, now: datetime) -> None:
        if self._is_behind(pointer.due.date(), now):
            # The next day's sweep is early enough.
            tell(events.ORPHANS_POSTPONED)
            self.pending.remove(pointer)
            return
        # By the day on which it began: it may end after midnight.
        rooms = {payload_container(room): room for room in ("", *rooms_of_day(self.rooms, pointer.due.date()))}
        names = [*rooms, PLANS]
        name, _, token = pointer.note.partition("|")
        pages_left = self.pages_a_tick
        for container in names[names.index(name) if name in names else 0 :]:
            if not pages_left:
                self.pending.add(replace(pointer, note=f"{container}|"))
                return
            swept, following = self._sweep_container(container, rooms.get(container, ""), token, pages_left, now)
            if following:
                self.pending.add(replace(pointer, note=f"{container}|{following}"))
                return
            pages_left, token = pages_left - swept, ""
        self.pending.remove(pointer)

    def _sweep_container(self, name: str, room: str, token: str, most: int, now: datetime) -> tuple[int, str]:
        """Sweep at most `most` pages. Return their number and the token of the next page, empty at the end."""
        container, swept = self.container(name), 0
        with expecting_an_answer(f"list {name}"):
            pages: Any = container.list_blobs(results_per_page=self.page).by_page(token or None)
            try:
                for page in islice(pages, most):
                    swept += 1
                    self._remove_orphans(container, room, [blob for blob in page if self._is_old(blob, now)])
            except ResourceNotFoundError:
                # The publishers of a room may delete its container; it harms only them.
                return swept, ""
        return swept, pages.continuation_token or ""

    def _is_behind(self, day: date, now: datetime) -> bool:
        with expecting_an_answer("read the oldest submissions"):
            return any(
                (one.inserted_on or now) < now - LONGEST_WAIT
                for room in ("", *rooms_of_day(self.rooms, day))
                for one in self.queue(submission_queue(room)).peek_messages()
            )

    def _is_old(self, blob: BlobProperties, now: datetime) -> bool:
        # A name outside both grammars was written neither for a submission nor by the app: it is not ours to remove.
        is_known = BLOB.fullmatch(blob.name) is not None or owner_of(blob.name) is not None
        return is_known and blob.last_modified < now - self.retention - MARGIN

    def _remove_orphans(self, container: ContainerClient, room: str, old: Sequence[BlobProperties]) -> None:
        owners = {blob.name: _owner(room, blob.name) for blob in old}
        gone = self._without_job({owner for owner in owners.values() if owner})
        if not any(owner is None or owner in gone for owner in owners.values()):
            return
        parked = _References(self.parked)
        # Read again after the parked entries: a replay closes its entry only when the job has its row.
        unwanted = self._without_job(gone - parked.jobs)
        for blob in old:
            owner = owners[blob.name]
            if (owner is None or owner in unwanted) and blob.name not in parked.names:
                _remove_orphan(container, blob)

    def _without_job(self, names: Iterable[str]) -> set[str]:
        """Return the names without a job that could still need its payload."""
        found = {name: self.ledger.read(name) for name in sorted(names)}
        return {name for name, job in found.items() if job is None or job.state in TOMBSTONES}


def _remove_orphan(container: ContainerClient, blob: BlobProperties) -> None:
    try:
        container.delete_blob(blob.name, etag=blob.etag, match_condition=MatchConditions.IfNotModified)
    except (ResourceModifiedError, ResourceNotFoundError, ResourceExistsError):
        # A publisher drops it again right now, leased it or made a snapshot of it; or another tick removed it.
        return
    tell(events.PAYLOAD_REMOVED, blob=blob.name, size=blob.size, written_at=blob.last_modified)


def _owner(room: str, name: str) -> str | None:
    """Return the internal id of the only job that may own a blob. In the app's container the name has it whole."""
    owner = owner_of(name) or owner_of_stretch(name)
    return None if owner is None else room_job(room, owner)


class _References:
    """Jobs and blobs that parked submissions name: jobs by their claim, blobs by any text in the message."""

    def __init__(self, parked: ParkedTable) -> None:
        self._parked = parked
        self._submissions = [entry for entry in parked.entries() if entry.stage == ACCEPT]

    @property
    def jobs(self) -> set[str]:
        return {entry.about for entry in self._submissions} | self._over[0]

    @cached_property
    def names(self) -> set[str]:
        return {text for entry in self._submissions for text in self._texts(entry)} | self._over[1]

    @cached_property
    def _over(self) -> tuple[set[str], set[str]]:
        """The jobs and the texts of the messages in files, which are read once: there may be many."""
        jobs, texts = set[str](), set[str]()
        for line in self._parked.read_over():
            jobs.add(line.claimed)
            texts.update(_texts(line.body))
        return jobs, texts

    def _texts(self, entry: Entry) -> Iterator[str]:
        # Without its bytes, no replay of it can read a blob.
        with suppress(ParkedTamperedError):
            yield from _texts(self._parked.body(entry))


def _texts(body: bytes) -> Iterator[str]:
    """Yield each text of a message. One that is unreadable is so for the app too."""
    with suppress(ValueError, RecursionError):
        left = [msgspec.json.decode(unwrap(body))]
        while left:
            match left.pop():
                case str(text):
                    yield text
                case list(inner):
                    left += inner
                case dict(inner):
                    left += inner.values()


#: Hour of the day, in UTC, at which all rooms are checked.
LOOK_HOUR: Final = 2
#: The work queues that an installation may have had.
_WORK_QUEUES: Final = frozenset(work_queue_names(MOST_WORK_QUEUES))
#: Storage's codes for a container that it does not make.
_THERE, _GOING = "ContainerAlreadyExists", "ContainerBeingDeleted"


def point_at(pending: PendingTable) -> Callable[[str], object]:
    """Return a function that leaves a pointer to a missing container. Repeated calls leave one row."""
    return lambda container: pending.add(Pointer(ROOM_POINTER, AT_ONCE, container))


def poison_of_rooms(names: Sequence[str]) -> list[str]:
    """Return the poison queues that rooms had when each was a function: until 0.3.0, and beside an instance of it."""
    return [submission_queue(room) + POISON_SUFFIX for room in names]


class Unread(NamedTuple):
    """A queue that no function reads, and how many messages it has."""

    queue: str
    messages: int


def list_unread(queues: QueueServiceClient, work_queues: int, names: Sequence[str]) -> list[Unread]:
    """Return the queues of rooms that are on the list no more, and the work queues above this number that have messages.

    It takes one request, and one for each such queue.
    """
    known = {*topology(work_queues, [rooms(names)]).queues, *poison_of_rooms(names)}
    found = []
    for name in (one.name for one in queues.list_queues()):
        is_of_work = name.removesuffix(POISON_SUFFIX) in _WORK_QUEUES
        if name not in known and (is_of_work or name.startswith(f"{submission_queue()}-")):
            messages = queues.get_queue_client(name).get_queue_properties().approximate_message_count or 0
            if messages or not is_of_work:
                found.append(Unread(name, messages))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Repairs the rooms of an installation. One per process."""

    rooms: tuple[str, ...]
    work_queues: int
    blobs: BlobServiceClient
    queues: QueueServiceClient
    pending: PendingTable
    clock: Clock
    #: Parks what is on a poison queue.
    drain: Callable[[QueueClient], object]

    def follow(self, pointer: Pointer) -> None:
        """Make the container of a pointer, unless its room was taken off the list."""
        if pointer.id not in self._containers or self._is_made(pointer.id):
            self.pending.remove(pointer)

    def _is_time(self) -> bool:
        now = self.clock.now()
        # By the clock, like the sweep of payloads: two requests per day, however many rooms there are.
        return (now.hour, now.minute) == (LOOK_HOUR, 0)

    @property
    def _containers(self) -> list[str]:
        return [payload_container(room) for room in ("", *self.rooms)]

    def look_for_containers(self) -> None:
        """Make the missing containers, at the hour of the check."""
        if not self._is_time():
            return
        with expecting_an_answer("list the containers of payloads"):
            there = {one.name for one in self.blobs.list_containers(name_starts_with=payload_container())}
        for name in self._containers:
            if name not in there and not self._is_made(name):
                self.pending.add(Pointer(ROOM_POINTER, AT_ONCE, name))

    def _is_made(self, container: str) -> bool:
        """Make the container. False: storage is still deleting the old one, which takes at least half a minute."""
        with expecting_an_answer(f"make container {container!r}"):
            try:
                self.blobs.create_container(container)
            except HttpResponseError as refusal:
                code = str(getattr(refusal, "error_code", ""))
                if code not in {_THERE, _GOING}:
                    raise
                return code == _THERE
        tell(events.ROOM_REMADE, container=container)
        return True

    def drain_leftovers(self) -> None:
        """Park what an app of 0.3.0 left on the poison queues of rooms, at the hour of the check."""
        if not (self.rooms and self._is_time()):
            return
        with expecting_an_answer("find the poison queues of rooms"):
            there = {one.name for one in self.queues.list_queues(name_starts_with=f"{submission_queue()}-")}
        for name in poison_of_rooms(self.rooms):
            if name in there:
                self.drain(self.queues.get_queue_client(name))

    def look_for_queues(self) -> None:
        """Log the queues that an earlier setting left behind, at the hour of the check."""
        if not self._is_time():
            return
        with expecting_an_answer("find the queues that no function reads"):
            unread = list_unread(self.queues, self.work_queues, self.rooms)
        for one in unread:
            tell(events.QUEUE_UNREAD, queue=one.queue, messages=one.messages)


#: How long each tick looks at a room where something was found.
WATCHED_FOR: Final = timedelta(days=1)
#: A find is noted anew after so long: a room that is used all the time costs few writes.
NOTED_EVERY: Final = timedelta(hours=1)


def rooms_in_turn(rooms: Sequence[str], now: datetime) -> Sequence[str]:
    """Return the rooms whose turn it is in this minute."""
    first = int(now.timestamp()) // 60 * ROOMS_A_TICK
    return [rooms[(first + number) % len(rooms)] for number in range(min(ROOMS_A_TICK, len(rooms)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """The looks of the tick at the queues of rooms. One per process."""

    rooms: Sequence[str]
    #: Takes what waits on these queues, for so many seconds. Returns those where something was found.
    look: Callable[[Sequence[str], float], Collection[str]]
    pending: Pending
    clock: Clock

    def run(self, watched: Sequence[Pointer], seconds: float) -> None:
        """Look at the rooms whose turn it is and at those of these pointers, and note where something was found."""
        if not self.rooms:
            return
        now, pointers = self.clock.now(), {pointer.id: pointer for pointer in watched}
        known = set(map(submission_queue, self.rooms))
        in_turn = map(submission_queue, rooms_in_turn(self.rooms, now))
        queues = list(dict.fromkeys([*(queue for queue in pointers if queue in known), *in_turn]))
        found = self.look(queues, seconds)
        for queue in found:
            if queue not in pointers or now - _last_find(pointers[queue]) >= NOTED_EVERY:
                self.pending.add(Pointer(NET_POINTER, AT_ONCE, queue, note=now.isoformat()))
        for queue, pointer in pointers.items():
            if queue not in found and (queue not in known or now - _last_find(pointer) >= WATCHED_FOR):
                self.pending.remove(pointer)


def _last_find(pointer: Pointer) -> datetime:
    return datetime.fromisoformat(pointer.note)
