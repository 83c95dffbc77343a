"""A client's receiving link to a session, and the line of those who wait for the next free one."""

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from proton import Condition, Link, symbol

from servicebus_local import wire
from servicebus_local.receiver import Consumer, Desk
from servicebus_local.refusal import ARGUMENT, SESSION_LOCK_LOST, TIMEOUT, Refusal
from servicebus_local.session import SessionLock, Sessions

SESSION_FILTER = "com.microsoft:session-filter"
_TIMEOUT_PROPERTY = "com.microsoft:timeout"
#: How long the service lets a receiver wait for a session when it names no time of its own, in seconds.
_LONGEST_WAIT = 60.0


def refuse_link(link: Any, refusal: Refusal) -> None:
    """Answer a link with nothing at its far end, and close it with the reason."""
    for end in (link.source, link.target):
        end.type = end.UNSPECIFIED
    link.open()
    end_link(link, refusal)


def end_link(link: Any, refusal: Refusal) -> None:
    """Close a link from this side with the reason."""
    link.condition = Condition(refusal.condition, refusal.description)
    link.close()


def opened(peer: Any, link: Any, desk: Desk, session: SessionLock | None = None) -> Consumer:
    """Accept a receiving link."""
    link.snd_settle_mode = link.remote_snd_settle_mode
    link.rcv_settle_mode = link.remote_rcv_settle_mode
    link.open()
    settled = link.remote_snd_settle_mode == Link.SND_SETTLED
    return Consumer(peer, link._impl, desk, settled=settled, session=session)  # noqa: SLF001 - for each message's sake


@dataclass(slots=True, eq=False)
class SessionLink:
    """A link that has a session, or waits for one and is not answered until then. The holder of the session's lock."""

    peer: Any
    link: Any
    line: "Line"
    consumer: Consumer | None = None

    @property
    def deletes(self) -> bool:
        """Return true if its messages are gone when they are sent."""
        return bool(self.link.remote_snd_settle_mode == Link.SND_SETTLED)

    def on_flow(self) -> None:
        """Pass credit on once there is a session."""
        if self.consumer is not None:
            self.consumer.on_flow()

    def on_delivery(self, delivery: Any) -> None:
        """Pass an outcome on. Before there is a session, no outcome exists."""
        if self.consumer is not None:
            self.consumer.on_delivery(delivery)

    def on_gone(self) -> None:
        """Let the session go, or stop waiting for one. Safe to call twice."""
        if self.consumer is not None:
            self.consumer.on_gone()
        self.line.forget(self)

    def admit(self, lock: SessionLock) -> None:
        """Answer the link with the session that it got."""
        self.link.source.filter.put_object(
            # A plain string, as the service answers: the JavaScript SDK compares it with the id that it sent.
            {symbol(SESSION_FILTER): lock.session_id}
        )
        self.link.properties = {symbol("com.microsoft:locked-until-utc"): wire.ticks(lock.locked_until)}
        self.consumer = opened(self.peer, self.link, self.line.desk, lock)
        self.peer.touched()

    def turn_away(self, refusal: Refusal) -> None:
        """Close the link, answered or not, with the reason."""
        if self.consumer is None:
            refuse_link(self.link, refusal)
        else:
            end_link(self.link, refusal)
        self.on_gone()
        self.peer.touched()


class Line:
    """Those who wait for the next free session of one queue, first come first served."""

    def __init__(self, desk: Desk, sessions: Sessions) -> None:
        self.desk = desk
        self._sessions = sessions
        self._waiting: deque[tuple[float, SessionLink]] = deque()

    def ask(self, peer: Any, link: Any, session_id: str | None, properties: dict[str, Any]) -> SessionLink:
        """Give the named session, or put the link in line for the next free one."""
        asking = SessionLink(peer, link, self)
        now = time.time()
        if session_id is not None:
            asking.admit(self._sessions.accept(session_id, asking, now, lasting=asking.deletes))
            return asking
        patience = properties.get(_TIMEOUT_PROPERTY, _LONGEST_WAIT * 1000)
        if not isinstance(patience, int | float):
            raise Refusal(ARGUMENT, f"{_TIMEOUT_PROPERTY} is {patience!r}, expected milliseconds")
        self._waiting.append((now + patience / 1000, asking))
        self.desk.outlet.queue.stir()
        return asking

    def forget(self, asking: SessionLink) -> None:
        """Take a link out of the line. Nothing happens where it is not in it."""
        self._waiting = deque(place for place in self._waiting if place[1] is not asking)

    def serve(self, now: float) -> None:
        """Give the free sessions that have messages to those in line."""
        while self._waiting:
            asking = self._waiting[0][1]
            lock = self._sessions.accept_next(asking, now, lasting=asking.deletes)
            if lock is None:
                return
            self._waiting.popleft()[1].admit(lock)

    def advance(self, now: float) -> None:
        """Turn away those who have waited as long as they wanted."""
        for until, asking in list(self._waiting):
            if until <= now:
                name = self.desk.outlet.queue.name
                asking.turn_away(Refusal(TIMEOUT, f"no session of {name} came free in the time given"))


def lock_lost(lock: SessionLock) -> None:
    """Tell the holder of a session lock that it ran out."""
    if isinstance(lock.holder, SessionLink):
        lock.holder.turn_away(
            Refusal(SESSION_LOCK_LOST, f"the lock on session {lock.session_id!r} ran out: accept the session again")
        )
