"""Waits for a flag, by polling and by signals alike."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import ReleaseExpiredError, StorageUnavailableError
from shared.gate import Receipt, SeenBy, is_released
from shared.waiting.watch import FlagReading, Sight, Watch

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
