"""Removes payloads whose submission never came, once a day. It keeps every blob that anything may still refer to.

A blob is removed when it is older than any message may wait and no parked message names it. A blob `<job>/<sha256>`
belongs to that job and stays while the job has a row: retention removes it. A blob of any other name belongs to no job,
even in a folder named after one: its bytes were framed again into a blob of the app. A publisher who drops the payload
again touches the blob first. That changes its ETag, and storage refuses the removal.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Final

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobProperties, ContainerClient
from azure.storage.queue import QueueClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ParkedTamperedError
from shared.grammar import BLOB, owner_of, room_job
from shared.ledger import JobState, Ledger
from shared.messages import unwrap
from shared.parked import ACCEPT, Entry, ParkedTable
from shared.pending import ORPHANS_POINTER, PendingTable, Pointer
from shared.telemetry import events, tell
from shared.topology import PLANS, payload_container, submission_queue

#: Hour of the day, in UTC, at which a sweep begins.
SWEEP_HOUR: Final = 3
#: Blobs per page of the listing, the most that storage returns at once, and pages per tick.
PAGE: Final = 5000
PAGES_A_TICK: Final = 20
#: Added to the retention, so that jobs which are being buried are not looked up.
MARGIN: Final = timedelta(days=1)
#: A submission that waits for longer means that the app was stopped: it may name a payload of any age.
LONGEST_WAIT: Final = timedelta(days=1)


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
        if self._is_behind(now):
            # The next day's sweep is early enough.
            tell(events.ORPHANS_POSTPONED)
            self.pending.remove(pointer)
            return
        rooms = {payload_container(room): room for room in ("", *self.rooms)}
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

    def _is_behind(self, now: datetime) -> bool:
        with expecting_an_answer("read the oldest submissions"):
            return any(
                (one.inserted_on or now) < now - LONGEST_WAIT
                for room in ("", *self.rooms)
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
        return {name for name, job in found.items() if job is None or job.state is JobState.BURIED}


def _remove_orphan(container: ContainerClient, blob: BlobProperties) -> None:
    try:
        container.delete_blob(blob.name, etag=blob.etag, match_condition=MatchConditions.IfNotModified)
    except (ResourceModifiedError, ResourceNotFoundError, ResourceExistsError):
        # A publisher drops it again right now, leased it or made a snapshot of it; or another tick removed it.
        return
    tell(events.PAYLOAD_REMOVED, blob=blob.name, size=blob.size, written_at=blob.last_modified)


def _owner(room: str, name: str) -> str | None:
    """Return the internal id of the only job that may own a blob. In the app's container the name has it whole."""
    owner = owner_of(name)
    return None if owner is None else room_job(room, owner)


class _References:
    """Jobs and blobs that parked submissions name: jobs by their claim, blobs by any text in the message."""

    def __init__(self, parked: ParkedTable) -> None:
        self._parked = parked
        self._submissions = [entry for entry in parked.entries() if entry.stage == ACCEPT]

    @property
    def jobs(self) -> set[str]:
        return {entry.about for entry in self._submissions}

    @cached_property
    def names(self) -> set[str]:
        return {text for entry in self._submissions for text in self._texts(entry)}

    def _texts(self, entry: Entry) -> Iterator[str]:
        try:
            left = [msgspec.json.decode(unwrap(self._parked.body(entry)))]
        except (ValueError, RecursionError, ParkedTamperedError):
            # It is unreadable for the app too, so no replay of it can read a blob.
            return
        while left:
            match left.pop():
                case str(text):
                    yield text
                case list(inner):
                    left += inner
                case dict(inner):
                    left += inner.values()
