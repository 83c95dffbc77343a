"""Flags, and one read of a flag for all waits of this process: at an interval, and whenever a bell rings.

A flag is a gate's blob, or a blob whose mere presence is the flag.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.errors import StorageUnavailableError
from shared.gate import Gates, Reading, SeenBy, check_name
from shared.telemetry import events, tell


class FlagReading(NamedTuple):
    """The result of one read of a flag, and the time of its last opening."""

    reading: Reading
    at: datetime | None


class Flag(Protocol):
    """A flag for which processes wait."""

    @property
    def name(self) -> str:
        """Its name in logs, receipts and errors."""
        ...

    def look(self) -> FlagReading:
        """Read the flag."""
        ...


class GateFlag:
    """A gate as a flag: with epochs, so that a pulse between two reads is not missed."""

    def __init__(self, gates: Gates, name: str) -> None:
        self._gates, self._name = gates, check_name(name)

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    def look(self) -> FlagReading:
        """Read the gate."""
        state = self._gates.read(self._name)
        return FlagReading(state.reading, state.at)


class BlobGlobalFlag:
    """A flag that is set while its blob exists, with any content.

    It has no epochs. A process that reads it twice, with a reset and a new setting in between, finds no change. A gate
    shows both.
    """

    def __init__(self, container: ContainerClient, name: str) -> None:
        self._container, self._name = container, check_name(name, "flag")
        self._blob = container.get_blob_client(name)

    @property
    def name(self) -> str:
        """The blob's name."""
        return self._name

    def set_flag(self, status: bool) -> None:  # noqa: FBT001 - Twist's signature (docs/origins.md), one flag and nothing else
        """Set or reset the flag. Setting a set flag or resetting a reset one changes nothing."""
        with expecting_an_answer(f"{'set' if status else 'reset'} flag {self._name!r}"):
            if status:
                self._set()
            else:
                self._reset()

    def get_flag(self) -> bool:
        """Return True if the flag is set."""
        return self.look().reading.is_open

    def look(self) -> FlagReading:
        """Read the flag. Its epoch is always 0."""
        with expecting_an_answer(f"read flag {self._name!r}"):
            try:
                found = self._blob.get_blob_properties()
            except ResourceNotFoundError:
                return FlagReading(Reading(0, is_open=False), None)
            return FlagReading(Reading(0, is_open=True), found.last_modified)

    def _set(self) -> None:
        try:
            self._blob.upload_blob(b"Set", overwrite=True)
        except ResourceNotFoundError:
            # Another process may create the container between the two requests.
            with suppress(ResourceExistsError):
                self._container.create_container()
            self._blob.upload_blob(b"Set", overwrite=True)

    def _reset(self) -> None:
        try:
            self._blob.delete_blob()
        except ResourceNotFoundError:
            return


class Sight(NamedTuple):
    """The result of a read, or the error that makes further reads useless, and the cause of the read."""

    found: FlagReading | Exception
    how: SeenBy


Inbox: TypeAlias = Callable[[Sight], None]


class Bell:
    """Wakes one thread: rung by others, or by itself after a while."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung: SeenBy | None = None

    def ring(self, how: SeenBy) -> None:
        """Wake the thread. A push that comes while it is awake wakes it again afterwards."""
        with self._condition:
            self._rung = SeenBy.PUSH if SeenBy.PUSH in {how, self._rung} else how
            self._condition.notify()

    def wait(self, seconds: float | None) -> SeenBy:
        """Wait for a ring, and return its cause, or POLL after that time."""
        end = None if seconds is None else time.monotonic() + seconds
        with self._condition:
            while self._rung is None:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return SeenBy.POLL
                self._condition.wait(left)
            rung, self._rung = self._rung, None
            return rung


class Watch:
    """Reads one flag in a thread of its own, only while a wait is under way. Close it when done."""

    def __init__(self, flag: Flag, interval: float | None) -> None:
        self._flag, self.interval = flag, interval
        self._inboxes: list[Inbox] = []
        self._lock, self._bell = threading.Lock(), Bell()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def flag(self) -> Flag:
        """The flag that is read."""
        return self._flag

    def ring(self) -> None:
        """Read now: a signal says that the flag has changed."""
        self._bell.ring(SeenBy.PUSH)

    @contextmanager
    def watch_for(self, inbox: Inbox) -> Iterator[None]:
        """Send every sight to the inbox. Each is of a read that began after the inbox joined."""
        with self._lock:
            self._inboxes.append(inbox)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"watch-{self._flag.name}", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._inboxes.remove(inbox)

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._bell.ring(SeenBy.POLL)
        if self._thread is not None:
            self._thread.join()

    def look(self, how: SeenBy) -> None:
        """Read once, and send the sight to every inbox that joined before the read began."""
        with self._lock:
            inboxes = list(self._inboxes)
        if not inboxes:
            return
        found: FlagReading | Exception
        try:
            found = self._flag.look()
        except StorageUnavailableError:
            # An outage of seconds is no reason to end a wait of hours.
            tell(events.FLAG_UNREAD, gate=self._flag.name)
            return
        except Exception as error:  # noqa: BLE001 - the waits must receive it: if this thread ended, they would hang
            found = error
        for inbox in inboxes:
            inbox(Sight(found, how))

    def _run(self) -> None:
        while True:
            how = self._bell.wait(self.interval)
            if self._is_closed:
                return
            self.look(how)
