"""Removes payloads whose submission never came: once a day, and never what anything may still refer to.

A payload needs nobody's leave while its job has a row: retention removes it. What is left is older than any message may
wait, has no row, and is named by nothing that is parked. A publisher who drops it again touches it first, which changes
its ETag, and the removal is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Final, Protocol

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobProperties, ContainerClient
from azure.storage.queue import QueueClient

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.errors import ParkedTamperedError
from shared.ledger.ledger import Ledger
from shared.ledger.records import JobState
from shared.parked.entry import Entry, Stage
from shared.payload.envelope import plain
from shared.payload.names import BLOB
from shared.pending import PendingTable, Pointer
from shared.telemetry import events
from shared.telemetry.event import tell

#: The kind of the pointer that leads to a sweep which has begun; its note says how far it came.
ORPHANS_POINTER: Final = "orphans"
#: Hour of the day, in UTC, at which a sweep begins.
SWEEP_HOUR: Final = 3
#: Blobs of a page of the listing, the most that storage gives at once, and pages that one tick goes through.
PAGE: Final = 5000
PAGES_A_TICK: Final = 20
#: Beyond the retention, so that the jobs which are being buried are not looked up.
MARGIN: Final = timedelta(days=1)
#: A submission that waits for longer says that the app was away: it may name a payload of any age.
LONGEST_WAIT: Final = timedelta(days=1)


class Parked(Protocol):
    """What is parked and still open, with its bytes."""

    def entries(self) -> Iterator[Entry]:
        """Yield every entry that somebody may still replay."""
        ...

    def body(self, entry: Entry) -> bytes:
        """Return the bytes of an entry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What a sweep of the payloads needs."""

    ledger: Ledger
    parked: Parked
    pending: PendingTable
    payloads: ContainerClient
    submissions: QueueClient
    clock: Clock
    #: How long a finished job keeps its bytes; longer than any message waits to be parked.
    retention: timedelta
    page: int = PAGE
    pages_a_tick: int = PAGES_A_TICK

    def run(self, due: Iterable[Pointer]) -> None:
        """Begin a sweep when it is time, or go on with the one that has begun."""
        now, begun = self.clock.now(), [one for one in due if one.kind == ORPHANS_POINTER]
        # By the clock, as the poison queues: whichever instance ticks, and without a row that somebody could lose.
        if not begun and (now.hour, now.minute) == (SWEEP_HOUR, 0):
            begun = [self.pending.add(Pointer(ORPHANS_POINTER, now.replace(second=0, microsecond=0), "payloads"))]
        for pointer in begun:
            self._sweep(pointer, now)

    def _sweep(self, pointer: Pointer, now: datetime) -> None:
        if self._is_behind(now):
            # Tomorrow is early enough.
            tell(events.ORPHANS_POSTPONED)
            self.pending.remove(pointer)
            return
        with expecting_an_answer("list the payloads"):
            pages: Any = self.payloads.list_blobs(results_per_page=self.page).by_page(pointer.note or None)
            for page in islice(pages, self.pages_a_tick):
                self._remove_orphans([blob for blob in page if self._is_old(blob, now)])
        if pages.continuation_token:
            self.pending.add(replace(pointer, note=pages.continuation_token))
        else:
            self.pending.remove(pointer)

    def _is_behind(self, now: datetime) -> bool:
        with expecting_an_answer("look at the oldest submission"):
            return any((one.inserted_on or now) < now - LONGEST_WAIT for one in self.submissions.peek_messages())

    def _is_old(self, blob: BlobProperties, now: datetime) -> bool:
        # A name that no submission can say is somebody else's blob.
        return blob.last_modified < now - self.retention - MARGIN and BLOB.fullmatch(blob.name) is not None

    def _remove_orphans(self, old: Sequence[BlobProperties]) -> None:
        gone = self._without_job({_job_of(blob) for blob in old})
        if not gone:
            return
        parked = _References(self.parked)
        # Looked up again after what is parked was read: a replay closes its entry only when the job has its row.
        unwanted = self._without_job(gone - parked.jobs)
        for blob in old:
            if _job_of(blob) in unwanted and blob.name not in parked.names:
                self._remove(blob)

    def _without_job(self, names: Iterable[str]) -> set[str]:
        """Return those that no job is called which could still need its payload."""
        found = {name: self.ledger.read(name) for name in sorted(names)}
        return {name for name, job in found.items() if job is None or job.state is JobState.BURIED}

    def _remove(self, blob: BlobProperties) -> None:
        try:
            self.payloads.delete_blob(blob.name, etag=blob.etag, match_condition=MatchConditions.IfNotModified)
        except (ResourceModifiedError, ResourceNotFoundError):
            # A publisher drops it again right now, or another tick was faster.
            return
        tell(events.PAYLOAD_REMOVED, blob=blob.name, size=blob.size, written_at=blob.last_modified)


class _References:
    """What the parked submissions name, in whatever form: jobs by their claim, blobs by any text of the message."""

    def __init__(self, parked: Parked) -> None:
        self._parked = parked
        self._submissions = [entry for entry in parked.entries() if entry.stage is Stage.ACCEPT]

    @property
    def jobs(self) -> set[str]:
        return {entry.job for entry in self._submissions}

    @cached_property
    def names(self) -> set[str]:
        return {text for entry in self._submissions for text in self._texts(entry)}

    def _texts(self, entry: Entry) -> Iterator[str]:
        try:
            left = [msgspec.json.decode(plain(self._parked.body(entry).strip()))]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ParkedTamperedError):
            # Nobody can read it, so no replay of it can ask for a blob.
            return
        while left:
            match left.pop():
                case str(text):
                    yield text
                case list(inner):
                    left += inner
                case dict(inner):
                    left += inner.values()


def _job_of(blob: BlobProperties) -> str:
    return str(blob.name).partition("/")[0]
