"""Flags, and one read of a flag for all waits of this process: at an interval, and whenever a bell rings.

A flag is a gate's blob, or a blob whose mere presence is the flag.

Waits for a flag, by polling and by signals alike.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeAlias

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ReleaseExpiredError, StorageUnavailableError
from shared.gate import Gates, Reading, Receipt, SeenBy, check_name, is_released
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


#: Called with each receipt, when the wait is over already: it must not raise.
Record = Callable[[Receipt], None]
_FOREVER: Final = threading.TIMEOUT_MAX


class Waiting:
    """A repeated wait: each epoch releases it once.

    `served` is the epoch that was served last. With None, a flag that is open when the first wait begins releases it. A
    pulse that opened and closed while it waited releases it too. Several threads may wait on it.
    """

    def __init__(
        self,
        watch: Watch,
        clock: Clock,
        node: str,
        *,
        served: int | None = None,
        record: Record | None = None,
    ) -> None:
        self._watch, self._clock, self._node = watch, clock, node
        self._served, self._record = served, record

    @property
    def served(self) -> int | None:
        """The last epoch that released a wait here."""
        return self._served

    def wait(self, timeout: float | None = None) -> Receipt:
        """Return when the flag releases, or raise ReleaseExpiredError after that many seconds.

        The flag is read at once, so a timeout of 0 checks whether it is released now.
        """
        inbox: queue.SimpleQueue[Sight] = queue.SimpleQueue()
        end = time.monotonic() + (_FOREVER if timeout is None else timeout)
        with self._watch.watch_for(inbox.put):
            judge = _Judge(self._served, self._first_reading())
            while (verdict := judge.verdict) is None:
                try:
                    judge.hear(inbox.get(timeout=max(0.0, min(end - time.monotonic(), _FOREVER))))
                except queue.Empty:
                    raise self._expired_error(timeout) from None
        return self._release_now(*verdict)

    async def wait_async(self, timeout: float | None = None) -> Receipt:  # noqa: ASYNC109 - the twin of `wait`
        """Do what `wait` does without blocking the event loop."""
        loop, inbox = asyncio.get_running_loop(), asyncio.Queue[Sight]()
        with self._watch.watch_for(lambda sight: _hand_over(loop, inbox, sight)):
            judge = _Judge(self._served, await asyncio.to_thread(self._first_reading))
            try:
                async with asyncio.timeout(timeout):
                    while judge.verdict is None:
                        judge.hear(await inbox.get())
            except TimeoutError:
                raise self._expired_error(timeout) from None
        return await asyncio.to_thread(self._release_now, *judge.verdict)

    def _first_reading(self) -> FlagReading | None:
        try:
            return self._watch.flag.look()
        except StorageUnavailableError:
            return None

    def _release_now(self, found: FlagReading, how: SeenBy) -> Receipt:
        # A flag without epochs leaves nothing to remember: if it is still set, it releases again.
        self._served = found.reading.epoch or None
        now = self._clock.now()
        receipt = Receipt(
            gate=self._watch.flag.name,
            epoch=found.reading.epoch,
            node=self._node,
            how=how,
            seen_at=now,
            lag=max(timedelta(), now - (found.at or now)),
            interval=timedelta(seconds=self._watch.interval or 0),
        )
        if self._record is not None:
            self._record(receipt)
        return receipt

    def _expired_error(self, timeout: float | None) -> ReleaseExpiredError:
        return ReleaseExpiredError(
            f"gate {self._watch.flag.name!r} was not opened within {timeout:g} s (served so far: epoch "
            f"{self._served or 0}); check it with `sluice gate status {self._watch.flag.name}`"
        )


class _Judge:
    """Judges one sight after the other until one of them releases."""

    def __init__(self, served: int | None, first: FlagReading | None) -> None:
        self._served = served
        self.verdict: tuple[FlagReading, SeenBy] | None = None
        if first is not None:
            self._weigh(first, SeenBy.START_UP)

    def hear(self, sight: Sight) -> None:
        """Judge a sight. Raise its error: the watch passes on only errors that no later read can mend."""
        if isinstance(sight.found, Exception):
            raise sight.found
        self._weigh(sight.found, sight.how)

    def _weigh(self, found: FlagReading, how: SeenBy) -> None:
        if is_released(found.reading, self._served):
            self.verdict = found, how
        elif self._served is None:
            # From now on the epoch counts: an opening that is closed again before the next read is not missed.
            self._served = found.reading.epoch


def _hand_over(loop: asyncio.AbstractEventLoop, inbox: "asyncio.Queue[Sight]", sight: Sight) -> None:
    try:
        loop.call_soon_threadsafe(inbox.put_nowait, sight)
    except RuntimeError:
        # The loop was closed with this wait in it: no coroutine is left to receive the sight.
        return
