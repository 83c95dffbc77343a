"""Follows hints: takes what publishers dropped at once, instead of waiting for the host's poll.

    hint -> a pass: tasks receive until each queue of submissions is empty -> one more pass if a hint came meanwhile

A hint says nothing but "look". So a hint that comes during a pass only asks this process for one more, and costs no
request. It is done at once, although its pass has not begun: the hint that runs the passes is not done before that pass.
If the process is killed, the bus delivers that one again, and it stays until nothing is hidden any more. So it answers
both. After a pass that found nothing, the next one waits a little. So a flood of hints costs few receives.

The host's own trigger takes from the same queues. It is the net for every hint that was lost, and receives a message
that was not deleted here. A message is received by one of them at a time, and accepting it twice counts once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from threading import Lock
from typing import Final

from shared.dequeue.work_queue import MOST_DELIVERIES
from shared.gate import TAKES_FOR
from shared.messages import Delivery
from shared.telemetry import describe_error, events, tell
from shared.topology import GUARD, LOOKS_EVERY

#: Seconds between a pass that found nothing and the next.
REST: Final = 0.2


class Followed(StrEnum):
    """The outcome of a hint."""

    #: The queues are empty.
    DONE = "done"
    #: A pass was under way here. It is followed by another one, before the hint that runs them is done.
    JOINED = "joined"
    #: The time was up. Another hint continues.
    HANDED_OVER = "handed over"


@dataclass(slots=True, kw_only=True)
class HintFollower:
    """Follows the hints of one process."""

    #: Makes a pass: calls the given function for each message until every queue is empty, or until the given moment.
    sweep: Callable[[Callable[[Delivery], object], float], object]
    #: Handles a delivery. After the given moment, by the monotonic clock, it begins no further step of its own.
    handle: Callable[[Delivery, float], object]
    #: Puts a copy of a message on the poison queue of its queue.
    put_poison: Callable[[str, bytes], object]
    #: Sends a hint, or returns why it could not.
    send_hint: Callable[[], Exception | None]
    monotonic: Callable[[], float]
    pause: Callable[[float], object] = time.sleep
    _lock: Lock = field(default_factory=Lock, init=False)
    _is_asked: bool = field(default=False, init=False)
    _is_running: bool = field(default=False, init=False)
    #: No pass begins before this moment.
    _rests_until: float = field(default=-inf, init=False)

    def on_hint(self, deliveries: int = 1) -> Followed:
        """Take what waits, until the queues are empty or the time is up.

        A hint that was delivered before had a holder that died, whose messages are still hidden. So it stays for the time
        of GUARD, and looks once more after it.
        """
        stays_until = self.monotonic() + (GUARD.total_seconds() if deliveries > 1 else 0.0)
        while True:
            began = self.monotonic()
            if (followed := self._visit()) is Followed.HANDED_OVER or began >= stays_until:
                return followed
            self.pause(LOOKS_EVERY)

    def _visit(self) -> Followed:
        with self._lock:
            self._is_asked = True
            if self._is_running:
                return Followed.JOINED
            self._is_running = True
        until = self.monotonic() + TAKES_FOR.total_seconds()
        try:
            while self._take_turn():
                self._pass(until)
                if self.monotonic() >= until:
                    self._stop()
                    if (error := self.send_hint()) is not None:
                        tell(events.HINT_UNSENT, error=describe_error(error))
                    return Followed.HANDED_OVER
        except BaseException:
            self._stop()
            raise
        return Followed.DONE

    def _take_turn(self) -> bool:
        """Answer all hints until now by one pass. False: no hint came, so the next one begins anew."""
        with self._lock:
            self._is_running, self._is_asked = self._is_asked, False
            return self._is_running

    def _stop(self) -> None:
        with self._lock:
            self._is_running = False

    def _pass(self, until: float) -> None:
        if (rest := self._rests_until - self.monotonic()) > 0:
            self.pause(rest)
        found = _Found(self.handle, self.put_poison, until)
        self.sweep(found.handle, until)
        self._rests_until = -inf if found.any else self.monotonic() + REST


@dataclass(slots=True)
class _Found:
    """Handles the messages of one pass by the host's rules: one that failed too often goes to the poison queue."""

    work: Callable[[Delivery, float], object]
    put_poison: Callable[[str, bytes], object]
    until: float
    any: bool = False

    def handle(self, delivery: Delivery) -> None:
        """Return to have the message deleted, raise to have it redelivered."""
        self.any = True
        if delivery.count <= MOST_DELIVERIES:
            try:
                self.work(delivery, self.until)
            except Exception:
                if delivery.count < MOST_DELIVERIES:
                    raise
            else:
                return
        # The copy first: a crash in between leaves a message too many, and both are parked as one entry.
        self.put_poison(delivery.queue, delivery.body)
        tell(events.MESSAGE_MOVED, queue=delivery.queue, message_id=delivery.message_id, delivery=delivery.count)
