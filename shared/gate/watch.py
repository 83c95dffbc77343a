"""One look at a flag for all who wait for it in this process: at an interval, and whenever a bell rings."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from shared.errors import StorageUnavailableError
from shared.gate.flag import Flag, Look
from shared.gate.receipts import SeenBy
from shared.telemetry import events
from shared.telemetry.event import tell


class Sight(NamedTuple):
    """What a look found, or why there is no use in looking again, and what made this process look."""

    found: Look | Exception
    how: SeenBy


Inbox: TypeAlias = Callable[[Sight], None]


class Bell:
    """Wakes one thread: rung by others, or by itself after a while."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung: SeenBy | None = None

    def ring(self, how: SeenBy) -> None:
        """Wake the thread; a push that comes while it is awake wakes it again afterwards."""
        with self._condition:
            self._rung = SeenBy.PUSH if SeenBy.PUSH in {how, self._rung} else how
            self._condition.notify()

    def wait(self, seconds: float | None) -> SeenBy:
        """Return what rang, or POLL after that time."""
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
    """Looks at one flag in a thread of its own, only while somebody waits; close it when done."""

    def __init__(self, flag: Flag, interval: float | None) -> None:
        self._flag, self.interval = flag, interval
        self._inboxes: list[Inbox] = []
        self._lock, self._bell = threading.Lock(), Bell()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def flag(self) -> Flag:
        """What is looked at."""
        return self._flag

    def ring(self) -> None:
        """Look now: somebody says that the flag has changed."""
        self._bell.ring(SeenBy.PUSH)

    @contextmanager
    def watched_by(self, inbox: Inbox) -> Iterator[None]:
        """Send every sight to the inbox; each one sent is of a look that began after it joined."""
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
        """Look once and tell everybody who waited before the look began."""
        with self._lock:
            inboxes = list(self._inboxes)
        if not inboxes:
            return
        found: Look | Exception
        try:
            found = self._flag.look()
        except StorageUnavailableError:
            # An outage of seconds is no reason to end a wait of hours.
            tell(events.FLAG_UNREAD, gate=self._flag.name)
            return
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it: this thread's end would be silence
            found = error
        for inbox in inboxes:
            inbox(Sight(found, how))

    def _run(self) -> None:
        while True:
            how = self._bell.wait(self.interval)
            if self._is_closed:
                return
            self.look(how)
