"""Takes the messages above the bound at the door: a publisher that floods its queue with refused ones fills no table.

A blob of the container `parked` and a row of the index of causes for each file:

- `~over/<room>/<fingerprint>/<file>`, an append blob with a line of JSON per message. The common room is `-`
- the row of sums `0|<fingerprint>|+<room>+<file>`, by which pages count without reading a file

Each file has one writer, a process. Order: an empty row, the lines, the row. A crash in between leaves the row too low;
a reader of the file finds all lines. A message that is delivered again may stand twice: its key is the same, and it is read once.
"""

import base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any, Final

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobClient, ContainerClient
from msgspec import Struct

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.parked.cause_index import CauseIndex, OverFile
from shared.parked.causes import count_nothing, count_over
from shared.parked.entry import ACCEPT, DOOR, Entry
from shared.telemetry import events, tell
from shared.topology import room_of_queue
from shared.versions import decode_document

#: Open entries at the door: of one room, and of one cause of a room.
MOST_OF_ROOM: Final = 1000
MOST_OF_CAUSE: Final = 100
#: A process that parked fewer at the door within an hour makes no request to learn of the others.
_FREE: Final = 10
_FREE_SECONDS: Final = 3600.0
#: Seconds for which the counts of other processes are believed.
_BELIEVED: Final = 10.0
#: Messages of one file. An append blob takes 50,000 blocks.
_MOST_OF_FILE: Final = 50_000
#: Messages of one block: 64 KiB in Base64 each, below 4 MiB.
_MOST_OF_BLOCK: Final = 40
FOLDER: Final = "~over"


def name_room(room: str) -> str:
    """Return a room as pages and files name it."""
    return room or "-"


class OverLine(Struct, frozen=True, omit_defaults=True):
    """A message in a file. Read back, it is the entry that it would have been."""

    key: str
    queue: str
    fingerprint: str
    message_id: str
    at: datetime
    reason: str
    found: str
    claimed: str = ""
    #: The bytes: as text, or in Base64 where they are not UTF-8.
    text: str = ""
    base64: str | None = None
    v: int = 1

    @property
    def body(self) -> bytes:
        """Return the bytes as the publisher sent them."""
        return self.text.encode() if self.base64 is None else base64.b64decode(self.base64)

    @property
    def entry(self) -> Entry:
        """Return the entry that it would have been."""
        return Entry(
            job=DOOR,
            key=self.key,
            stage=ACCEPT,
            queue=self.queue,
            reason=self.reason,
            found=self.found,
            instead="",
            fingerprint=self.fingerprint,
            attempts=1,
            first_at=self.at,
            last_at=self.at,
            message_id=self.message_id,
            sha256=sha256(self.body).hexdigest(),
            size=len(self.body),
            claimed=self.claimed,
        )


@dataclass(slots=True)
class _Open:
    """A file that this process writes."""

    file: OverFile
    blob: BlobClient
    size: int = 0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A message that waits to be written, with those of other threads."""

    entry: Entry
    line: bytes
    is_kept: bool = False


@dataclass(slots=True)
class _Lane:
    """The messages of one room and cause. Threads that park at once share a block."""

    waiting: list[_Waiting] = field(default_factory=list)
    #: None: the next message begins a file, with the next number.
    open: _Open | None = None
    next_number: int = 0
    lock: Lock = field(default_factory=Lock)


class Overflow:
    """The files, and whether the next message goes to one. Safe to call from several threads."""

    def __init__(
        self,
        container: ContainerClient,
        index: CauseIndex,
        clock: Clock,
        note: Callable[[str], object] = lambda _room: None,
    ) -> None:
        """Take the container `parked`. `note` hears of the room of each new file."""
        self._container, self._index, self._clock, self._note = container, index, clock, note
        self._lock = Lock()
        self._parked_at = deque[float](maxlen=_FREE)
        self._seen_at = -_BELIEVED
        self._others: dict[tuple[str, str], int] = {}
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def is_full(self, entry: Entry) -> bool:
        """Return whether an entry is above the bound at the door. One request in ten seconds, in a flood alone."""
        if entry.job != DOOR:
            return False
        room = room_of_queue(entry.queue)
        with self._lock:
            now = self._clock.monotonic()
            is_flood = len(self._parked_at) == _FREE and now - self._parked_at[0] < _FREE_SECONDS
            self._parked_at.append(now)
            if not is_flood:
                return False
            if now - self._seen_at >= _BELIEVED:
                self._others = self._index.count_others_at_the_door()
                self._seen_at = now
            own = self._index.count_own_at_the_door()
            of_cause = sum(counts.get((room, entry.fingerprint), 0) for counts in (self._others, own))
            of_room = sum(n for counts in (self._others, own) for (one, _), n in counts.items() if one == room)
        return of_cause >= MOST_OF_CAUSE or of_room >= MOST_OF_ROOM

    def keep(self, entry: Entry, body: bytes) -> None:
        """Write a message to the file of its room and cause. Two requests, for those of all threads together."""
        with self._lock:
            lane = self._lanes.setdefault((room_of_queue(entry.queue), entry.fingerprint), _Lane())
            mine = _Waiting(entry, _line(entry, body))
            lane.waiting.append(mine)
        with lane.lock:
            if not mine.is_kept:
                self._write(lane, mine)

    def _write(self, lane: _Lane, mine: _Waiting) -> None:
        with self._lock:
            others = [one for one in lane.waiting if one is not mine][: _MOST_OF_BLOCK - 1]
            together = [mine, *others]
            # If this fails, each of them is tried again by its own thread, or its message is delivered again.
            lane.waiting = [one for one in lane.waiting if one not in together]
        try:
            file = self._append(lane, mine.entry, b"".join(one.line for one in together), len(together))
        except BaseException:
            with self._lock:
                lane.waiting = others + lane.waiting
            raise
        for one in together:
            one.is_kept = True
        self._index.note_file(file)

    def _append(self, lane: _Lane, entry: Entry, lines: bytes, number: int) -> OverFile:
        known = lane.open
        day = f"{entry.last_at:%Y-%m-%d}"
        if known is None or not known.file.name.startswith(day) or known.file.sums.over >= _MOST_OF_FILE:
            known = self._begin(entry, f"{day}-{self._index.process}-{lane.next_number}")
            lane.next_number += 1
        # If the append fails, the end of the file is unknown: the next message begins another one.
        lane.open = None
        _append_once(known, lines)
        known.file = replace(known.file, sums=count_over(known.file.sums, entry, number))
        lane.open = known
        return known.file

    def _begin(self, entry: Entry, name: str) -> _Open:
        room = room_of_queue(entry.queue)
        file = OverFile(room, name, count_over(count_nothing(entry.fingerprint), entry, 0))
        # The row first: no reader would find a file without one.
        self._index.note_file(file)
        blob = self._container.get_blob_client(blob_name(file))
        # There already: its name is this process's own, so the reply to the first try was lost.
        with expecting_an_answer(f"begin the file {file.name!r} of parked messages"), suppress(ResourceExistsError):
            blob.create_append_blob(if_none_match="*")
        self._note(room)
        tell(events.PARKED_OVER, room=room, fingerprint=entry.fingerprint, reason=entry.reason, file=file.name)
        return _Open(file, blob)

    def read(self, file: OverFile) -> "OverRead":
        """Return the messages of a file at this moment."""
        with expecting_an_answer(f"read the file {file.name!r} of parked messages"):
            try:
                found = self._container.download_blob(blob_name(file))
            except ResourceNotFoundError:
                return OverRead(file, [], "")
            # At most 50,000 messages, a few kilobytes each.
            return OverRead(file, found.readall().splitlines(), str(found.properties.etag))

    def remove(self, read: "OverRead") -> bool:
        """Remove a file as it was read, then its row. Return False if its process wrote more since, and leave it.

        A row without a file is removed by the next call.
        """
        if not read.etag:
            self._index.forget_file(read.file)
            return True
        return self._remove(read.file, etag=read.etag, match_condition=MatchConditions.IfNotModified)

    def discard(self, file: OverFile) -> None:
        """Remove a file with all that its process has written to it, then its row."""
        self._remove(file)

    def leave_out(self, job: str, room: str) -> None:
        """Write each file of a room that has messages claiming this job anew without them, then remove it.

        A request, and one for each file. A process that fills such a file finds it gone, and begins another one.
        """
        for file in self._index.list_files():
            if file.room != room:
                continue
            read = self.read(file)
            kept = [one for one in read.messages() if one.claimed != job]
            if len(kept) < sum(1 for _ in read.messages()):
                copy = self._put_copy(file, kept)
                # If its process wrote more to it since, the next call goes on.
                if not self.remove(read) and copy is not None:
                    self.discard(copy)

    def count_of(self, job: str, room: str) -> int:
        """Return how many messages in the files of a room claim this job."""
        files = (file for file in self._index.list_files() if file.room == room)
        return sum(one.claimed == job for file in files for one in self.read(file).messages())

    def _put_copy(self, file: OverFile, kept: Sequence[OverLine]) -> OverFile | None:
        """Store these messages as a file of their own, whose name follows from them: once, however often it is repeated."""
        if not kept:
            return None
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in kept)
        sums = count_over(count_nothing(file.sums.fingerprint), kept[-1].entry, len(kept))
        copy = OverFile(file.room, f"{file.name.partition('.')[0]}.{sha256(lines).hexdigest()[:12]}", sums)
        self._index.note_file(copy)
        blob = self._container.get_blob_client(blob_name(copy))
        with expecting_an_answer(f"copy the file {file.name!r} of parked messages"):
            blob.upload_blob(lines, overwrite=True)
        return copy

    def remove_old(self, files: Iterable[OverFile], before: datetime) -> None:
        """Remove the files to which nothing was written since a moment."""
        for file in files:
            if file.sums.last_at is not None and file.sums.last_at < before:
                self.discard(file)

    def _remove(self, file: OverFile, **condition: Any) -> bool:
        with expecting_an_answer(f"remove the file {file.name!r} of parked messages"):
            try:
                self._container.delete_blob(blob_name(file), **condition)
            except ResourceModifiedError:
                return False
            except ResourceNotFoundError:
                pass
            self._index.forget_file(file)
        return True


@dataclass(frozen=True, slots=True)
class OverRead:
    """A file as it was read."""

    file: OverFile
    lines: list[bytes]
    #: Empty: there is no file.
    etag: str

    def messages(self) -> Iterator[OverLine]:
        """Yield the messages, each once."""
        seen = set[str]()
        for line in self.lines:
            found: OverLine = decode_document(line, OverLine, "parked line", f"file {self.file.name!r}")
            if found.key not in seen:
                seen.add(found.key)
                yield found


def blob_name(file: OverFile) -> str:
    """Return the name of the blob of a file."""
    return f"{FOLDER}/{name_room(file.room)}/{file.sums.fingerprint}/{file.name}"


def _append_once(known: _Open, lines: bytes) -> None:
    with expecting_an_answer(f"append to the file {known.file.name!r} of parked messages"):
        try:
            known.blob.append_block(lines, appendpos_condition=known.size)
        except HttpResponseError as refusal:
            # 412: the library sent it again after a lost reply. This process alone appends, so the size tells.
            if refusal.status_code != 412 or known.blob.get_blob_properties().size != known.size + len(lines):
                raise
        except AzureError:
            if known.blob.get_blob_properties().size != known.size + len(lines):
                raise
    known.size += len(lines)


def _line(entry: Entry, body: bytes) -> bytes:
    try:
        text, coded = body.decode(), None
    except UnicodeDecodeError:
        text, coded = "", base64.b64encode(body).decode()
    line = OverLine(
        key=entry.key,
        queue=entry.queue,
        fingerprint=entry.fingerprint,
        message_id=entry.message_id,
        at=entry.last_at,
        reason=entry.reason,
        found=entry.found.encode(errors="replace").decode(),
        claimed=entry.claimed,
        text=text,
        base64=coded,
    )
    return msgspec.json.encode(line) + b"\n"
