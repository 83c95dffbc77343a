"""Follows hints: takes what publishers dropped at once, instead of waiting for the host's poll or the tick.

    hint -> its queue is wanted -> passes over the wanted queues, some messages of each, until all are empty

A hint says nothing but where to look, and one without a queue means all. So a hint that comes during a pass only asks
this process for one more, and costs no request. After a pass that found nothing, the next one waits a little, and no
pass looks at more than a few queues. So a flood of hints costs few receives, and delays others by few passes.

Such a hint is done at once, although its pass has not begun: the hint that runs the passes is not done before that pass.
If the process is killed, the bus delivers that one again. It stays until nothing is hidden any more, and then looks at all
queues. So it answers for both.

A pass takes few messages of each queue, and a hint for a queue that no pass is at begins one of its own beside it. So a
room with many hardly delays the others.

A net finds what no hint led to: the host's own trigger on the common queue, and the tick, which looks at the rooms in
turn. A message is received by one of them at a time, and accepting it twice counts once.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from threading import Lock
from typing import Final

from shared.dequeue.work_queue import MOST_DELIVERIES, ReceivedMessage, WorkSource
from shared.gate import TAKES_FOR
from shared.messages import Delivery
from shared.telemetry import events, tell
from shared.topology import GUARD, LOOKS_EVERY

#: Queues of a pass, and messages of each.
MOST_QUEUES, PORTION = 32, 16
#: Passes at once, each over other queues.
MOST_PASSES: Final = 2
#: Seconds between a pass that found nothing and the next.
REST: Final = 0.2


class Followed(StrEnum):
    """The outcome of a hint."""

    #: The queues are empty.
    DONE = "done"
    #: Passes were under way here. Another one follows, before the hint that runs it is done.
    JOINED = "joined"
    #: The time was up. Another hint continues.
    HANDED_OVER = "handed over"


@dataclass(slots=True, kw_only=True)
class HintFollower:
    """Follows the hints of one process."""

    #: The queues of submissions.
    sources: Sequence[WorkSource]
    #: Makes a pass: calls the given function for each message of these until all are empty, or until the given moment.
    sweep: Callable[[Sequence[WorkSource], Callable[[Delivery], object], float], object]
    #: Handles a delivery. After the given moment, by the monotonic clock, it begins no further step of its own.
    handle: Callable[[Delivery, float], object]
    #: Parks a message that was delivered as often as the host allows.
    park: Callable[[Delivery], object]
    #: Sends a hint for a queue, or for all by the empty text, or logs why it could not.
    send_hint: Callable[[str], object]
    monotonic: Callable[[], float]
    pause: Callable[[float], object] = time.sleep
    _lock: Lock = field(default_factory=Lock, init=False)
    #: The queues that hints named, each once, in their turn.
    _wanted: dict[str, None] = field(default_factory=dict, init=False)
    #: The queues of the passes that are under way.
    _visited: set[str] = field(default_factory=set, init=False)
    _passes: int = field(default=0, init=False)
    #: No pass begins before this moment.
    _rests_until: float = field(default=-inf, init=False)

    def on_hint(self, queue: str = "", deliveries: int = 1) -> Followed:
        """Take what waits on this queue, or on all, until they are empty or the time is up.

        A hint that was delivered before had a holder that died, whose messages are still hidden. So it stays for the time
        of GUARD, and looks at all queues after it.
        """
        known = [source.name for source in self.sources]
        # Publishers write hints. One for a queue that is not there leads nowhere.
        names = [name for name in known if name == queue or not queue]
        stays_until = self.monotonic() + (GUARD.total_seconds() if deliveries > 1 else 0.0)
        while True:
            began = self.monotonic()
            followed = self._visit(names)
            if deliveries <= 1:
                return followed
            # The dead process may have had hints for others, which joined this one.
            if followed is Followed.HANDED_OVER:
                return self._hand_over(known)
            if began >= stays_until:
                return self._visit(known)
            self.pause(LOOKS_EVERY)

    def look(self, queues: Collection[str], seconds: float) -> Collection[str]:
        """Take what waits on these queues, for so many seconds. Return those where something was found.

        No hint joins this: nothing would answer for such a hint if the process is killed.
        """
        until, found, left = self.monotonic() + seconds, set[str](), list(queues)
        while left:
            portions = self._portions(left)
            found |= self._sweep(portions, until)
            left = [one.name for one in portions if not one.is_empty]
            if self.monotonic() >= until:
                self._hand_over(left)
                break
        return found

    def _visit(self, names: Sequence[str]) -> Followed:
        with self._lock:
            self._wanted.update(dict.fromkeys(names))
            if self._passes and (self._passes >= MOST_PASSES or self._visited.issuperset(names)):
                return Followed.JOINED
            self._passes += 1
        until = self.monotonic() + TAKES_FOR.total_seconds()
        turn: Sequence[_Portion] = ()
        try:
            while turn := self._take_turn(turn):
                self._pass(turn, until)
                if self.monotonic() >= until:
                    return self._hand_over(self._stop(turn))
        except BaseException:
            self._stop(turn)
            raise
        return Followed.DONE

    def _take_turn(self, visited: Sequence["_Portion"]) -> Sequence["_Portion"]:
        """Return the queues of the next pass, after one over `visited`.

        A queue of another pass waits for that one. Without any, the next hint begins anew.
        """
        with self._lock:
            names = self._leave(visited)[:MOST_QUEUES]
            for name in names:
                del self._wanted[name]
            self._visited.update(names)
            self._passes -= not names
        return self._portions(names)

    def _portions(self, names: Collection[str]) -> Sequence["_Portion"]:
        return [_Portion(source) for source in self.sources if source.name in names]

    def _stop(self, visited: Sequence["_Portion"]) -> Sequence[str]:
        """End after a pass over `visited`. Return the wanted queues that no other pass is at."""
        with self._lock:
            self._passes -= 1
            return self._leave(visited)

    def _leave(self, visited: Sequence["_Portion"]) -> Sequence[str]:
        # Under the lock. Returns the wanted queues that no pass is at.
        self._visited.difference_update(one.name for one in visited)
        return [name for name in self._wanted if name not in self._visited]

    def _hand_over(self, left: Sequence[str]) -> Followed:
        """Have another hint continue with the wanted queues. If it cannot be sent, the net does."""
        if not left:
            return Followed.DONE
        self.send_hint(left[0] if len(left) == 1 else "")
        return Followed.HANDED_OVER

    def _pass(self, portions: Sequence["_Portion"], until: float) -> None:
        """Take a portion of each queue, and want those again that have more."""
        if (rest := self._rests_until - self.monotonic()) > 0:
            self.pause(rest)
        try:
            has_found = self._sweep(portions, until)
        finally:
            with self._lock:
                self._wanted.update({one.name: None for one in portions if not one.is_empty})
        self._rests_until = -inf if has_found else self.monotonic() + REST

    def _sweep(self, portions: Sequence["_Portion"], until: float) -> set[str]:
        self.sweep(portions, lambda delivery: self._handle(delivery, until), until)
        return {one.name for one in portions if one.has_found}

    def _handle(self, delivery: Delivery, until: float) -> None:
        """Return to have the message deleted, raise to have it redelivered."""
        if delivery.count <= MOST_DELIVERIES:
            try:
                self.handle(delivery, until)
            except Exception:
                if delivery.count < MOST_DELIVERIES:
                    raise
            else:
                return
        # Before it is deleted: a crash in between parks it again, as one entry.
        self.park(delivery)
        tell(events.MESSAGE_SPENT, queue=delivery.queue, message_id=delivery.message_id, delivery=delivery.count)


@dataclass(slots=True)
class _Portion:
    """The messages of a queue that one pass may take."""

    source: WorkSource
    left: int = PORTION
    #: Whether the queue has no more, and whether it had some.
    is_empty: bool = False
    has_found: bool = False
    _lock: Lock = field(default_factory=Lock, init=False)

    @property
    def name(self) -> str:
        """Its name."""
        return self.source.name

    def receive(self, most: int) -> Sequence[ReceivedMessage]:
        """Receive up to so many messages. Without a request once the portion is taken."""
        with self._lock:
            size = min(most, self.left)
            self.left -= size
        if not size:
            return ()
        found = self.source.receive(size)
        with self._lock:
            self.left += size - len(found)
            self.is_empty, self.has_found = not found, self.has_found or bool(found)
        return found

    def depth(self) -> int:
        """Return about how many messages the queue has, including the hidden ones. Makes one request."""
        return self.source.depth()

    def peek(self) -> int:
        """Return how many messages of the queue could be received now, at most 32. Makes one request."""
        return self.source.peek()
