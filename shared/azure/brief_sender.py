"""Sends for callers that a failing bus must not hold up: a transfer in a thread of its own, and a bounded wait for it."""

from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from typing import Final, Protocol

from shared.closing import Closing

#: Seconds that a caller waits at most. The first transfer opens the connection and logs in.
BRIEF: Final = 2.0
#: Seconds after a failure in which nothing is sent.
QUIET: Final = 30.0


class Transfer(Protocol):
    """One message, always the same, and the connection that it goes over."""

    def connect(self) -> Exception | None:
        """Open the connection ahead, and return the error if that failed. Never raises."""
        ...

    def __call__(self) -> Exception | None:
        """Send the message, and return the error if that failed. Never raises."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class BriefSender(Closing):
    """Sends for callers that must neither fail by it nor wait long. Several threads may send.

    A thread of its own makes the transfers. One serves all calls before it.
    """

    def __init__(
        self,
        transfer: Transfer,
        on_failure: Callable[[Exception], object],
        *,
        patience: float = BRIEF,
        quiet: float = QUIET,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Take the transfer. `on_failure` is called with the first error of an outage."""
        self._transfer, self._on_failure = transfer, on_failure
        self._patience, self._quiet, self._now = patience, quiet, now
        self._changed, self._thread = Condition(), Thread(target=self._run, name="brief-sender", daemon=True)
        #: The calls, and those of them that were served.
        self._wanted = self._done = 0
        self._is_begun = self._is_closed = self._has_failed = False
        self._quiet_until = 0.0

    def prepare(self) -> None:
        """Connect while the caller goes on. Its first message then needs no wait. Returns at once."""
        with self._changed:
            self._begin()

    def send(self) -> bool:
        """Send. Return False if it was not sent in time. Never raises."""
        with self._changed:
            if self._is_closed or (self._has_failed and self._now() < self._quiet_until):
                return False
            self._wanted += 1
            mine = self._wanted
            self._begin()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._done >= mine, self._patience):
                self._note_failure(TimeoutError())
            return not self._has_failed

    def close(self) -> None:
        """End the thread and close the connection. A transfer that hangs is left to the end of the process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._is_begun:
            self._thread.join(self._patience)

    def _begin(self) -> None:
        if not (self._is_begun or self._is_closed):
            self._is_begun = True
            self._thread.start()

    def _run(self) -> None:
        if (error := self._transfer.connect()) is not None:
            with self._changed:
                # A call that waits is answered by this failure, and not by another try.
                self._done = self._wanted
                self._note_failure(error)
                self._changed.notify_all()
        while (wanted := self._next()) is not None:
            error = self._transfer()
            with self._changed:
                self._done, self._has_failed = wanted, self._has_failed and error is not None
                if error is not None:
                    self._note_failure(error)
                self._changed.notify_all()
        self._transfer.close()

    def _next(self) -> int | None:
        """Wait for a call. None: this sender was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wanted > self._done)
            return None if self._is_closed else self._wanted

    def _note_failure(self, error: Exception) -> None:
        if not self._has_failed:
            self._on_failure(error)
        self._has_failed, self._quiet_until = True, self._now() + self._quiet
