"""Sessions of one queue or subscription: one holder each, a lock that ends by itself, and a little state.

Pure, like the queue: a holder is any object, and `now` comes from outside.
"""

from dataclasses import dataclass

from servicebus_local.queue import MessageQueue
from servicebus_local.refusal import ARGUMENT, SESSION_LOCK_LOST, SESSION_TAKEN, Refusal

#: What the real service takes for one session on Standard: as much as one message.
LONGEST_STATE = 256 * 1024


@dataclass(slots=True, eq=False)
class SessionLock:
    """The holder of a session, and the end of the lock."""

    session_id: str
    holder: object
    locked_until: float
    #: Does not end by itself: who receives and deletes has nothing to lose by waiting.
    lasting: bool = False

    def ends_by(self, now: float) -> bool:
        """Return true if the lock has run out."""
        return not self.lasting and self.locked_until <= now


class Sessions:
    """The sessions of one queue."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self._locks: dict[str, SessionLock] = {}
        self._states: dict[str, bytes] = {}
        #: When each state was last kept.
        self._kept: dict[str, float] = {}

    def accept(self, session_id: str, holder: object, now: float, *, lasting: bool = False) -> SessionLock:
        """Lock a session by its name. It need not have a message."""
        taken = self._locks.get(session_id)
        if taken is not None and not taken.ends_by(now):
            raise Refusal(
                SESSION_TAKEN, f"session {session_id!r} of {self.queue.name} is locked by another receiver", 410
            )
        if taken is not None:
            self._end(taken, now, failed=True)
        lock = SessionLock(session_id, holder, now + self.queue.policy.lock, lasting)
        self._locks[session_id] = lock
        return lock

    def accept_next(self, holder: object, now: float, *, lasting: bool = False) -> SessionLock | None:
        """Lock the session that has waited longest with a message, if there is one that is free."""
        for lane in self.queue.waiting_lanes(now):
            if lane not in self._locks:
                return self.accept(lane, holder, now, lasting=lasting)
        return None

    def renew(self, session_id: str, holder: object, now: float) -> float:
        """Lengthen a session's lock to a whole lock from now."""
        lock = self.held(session_id, holder, now)
        lock.locked_until = now + self.queue.policy.lock
        return lock.locked_until

    def release(self, lock: SessionLock, now: float) -> None:
        """End a lock because its holder left. Nothing that it had is counted as an attempt."""
        if self._locks.get(lock.session_id) is lock:
            self._end(lock, now, failed=False)

    def state(self, session_id: str, holder: object, now: float) -> bytes | None:
        """Return the bytes that the session's holder last kept there."""
        self.held(session_id, holder, now)
        return self._states.get(session_id)

    def keep_state(self, session_id: str, holder: object, now: float, state: bytes | None) -> None:
        """Keep a few bytes with the session. None clears them."""
        self.held(session_id, holder, now)
        if state is None:
            self._states.pop(session_id, None)
            self._kept.pop(session_id, None)
        elif len(state) > LONGEST_STATE:
            raise Refusal(ARGUMENT, f"a session state of {len(state)} bytes is over the limit of {LONGEST_STATE}")
        else:
            self._states[session_id] = state
            self._kept[session_id] = now

    def known(self) -> list[str]:
        """Return the ids of the sessions that have messages or state, in order."""
        return sorted({record.lane for record in self.queue.records()} | set(self._states))

    def changed_since(self, moment: float) -> list[str]:
        """Return the ids of the sessions whose state was kept after a time, in order."""
        return sorted(session_id for session_id, kept in self._kept.items() if kept > moment)

    def advance(self, now: float) -> list[SessionLock]:
        """End the locks that ran out and return them."""
        ended = [lock for lock in self._locks.values() if lock.ends_by(now)]
        for lock in ended:
            self._end(lock, now, failed=True)
        return ended

    def held(self, session_id: str, holder: object, now: float) -> SessionLock:
        """Return the holder's lock on the session, or refuse."""
        lock = self._locks.get(session_id)
        if lock is None or lock.holder is not holder or lock.ends_by(now):
            raise Refusal(
                SESSION_LOCK_LOST, f"the lock on session {session_id!r} of {self.queue.name} is lost or never was", 410
            )
        return lock

    def _end(self, lock: SessionLock, now: float, *, failed: bool) -> None:
        del self._locks[lock.session_id]
        self.queue.release_lane(lock.session_id, now, failed=failed)
        # A receiver may be waiting for just this session to come free, even where nothing of it was handed out.
        self.queue.stir()
