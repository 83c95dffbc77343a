"""Messages of one queue, subscription or dead-letter sub-queue: who may have which, and until when.

Pure: every method takes `now`; nothing here knows of links. Messages wait in lanes, one per session id, and one lane
for all where there are no sessions; who may take from a lane is not decided here.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from math import inf
from secrets import token_hex

from servicebus_local import wire
from servicebus_local.amend import forwarded, with_properties
from servicebus_local.parcel import Parcel
from servicebus_local.record import Policy, Record
from servicebus_local.refusal import MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND, NOT_ALLOWED, SESSION_LOCK_LOST, Refusal

#: The lane of a queue without sessions.
ONLY = ""
#: Makes a lock token of an earlier run of the broker strange to this one: after a restart every lock is lost.
_RUN = token_hex(3)
_TOKENS = count()


class MessageQueue:
    """Messages in order of arrival, with locks that end by themselves."""

    def __init__(self, name: str, policy: Policy, stirred: "set[MessageQueue]", dead: "MessageQueue | None") -> None:
        self.name = name
        self.policy = policy
        #: None for a dead-letter sub-queue itself.
        self.dead = dead
        #: Takes the dead letters to another entity. None: they wait in the dead-letter sub-queue.
        self.forward: Callable[[Parcel, float], None] | None = None
        #: Queues where a message became available since the dispatcher last looked; shared by the whole broker.
        self._stirred = stirred
        self._records: dict[int, Record] = {}
        self._lanes: dict[str, list[int]] = {}
        #: In the order in which the locks end, because a queue's locks are all of one length.
        self._locks: OrderedDict[str, Record] = OrderedDict()
        self._expiries: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> Iterable[Record]:
        """Return every message, locked or not."""
        return self._records.values()

    def stir(self) -> None:
        """Have the dispatcher look at this queue."""
        self._stirred.add(self)

    def put(self, parcel: Parcel, sequence: int, origin: int | None, now: float) -> None:
        """Take a message in."""
        lane = parcel.session_id if self.policy.sessions else ONLY
        life = min(self.policy.time_to_live, inf if parcel.time_to_live is None else parcel.time_to_live)
        record = Record(sequence, origin, parcel, now, lane or ONLY, life)
        if lane is None:
            # Only a topic gets here: it cannot know which of its subscriptions has sessions.
            why = "an entity with sessions takes no message without a session id"
            self._bury(record, _note("Session id is null.", why), now)
            return
        self._records[sequence] = record
        if life != inf:
            heapq.heappush(self._expiries, (record.expires, sequence))
        self._offer(record)

    def waiting_lanes(self, now: float) -> list[str]:
        """Return the lanes that have a message to give, the one that has waited longest first."""
        return [lane for lane in list(self._lanes) if self.has_waiting(lane, now)]

    def has_waiting(self, lane: str, now: float) -> bool:
        """Return true if the lane has a message to give."""
        waiting = self._lanes.get(lane, [])
        while waiting:
            record = self._records.get(waiting[0])
            if record is not None and record.expires > now:
                return True
            heapq.heappop(waiting)
            if record is not None:
                self._expire(record, now)
        self._lanes.pop(lane, None)
        return False

    def take(self, lane: str, now: float) -> Record | None:
        """Lock the next message of the lane."""
        if not self.has_waiting(lane, now):
            return None
        return self._lock(self._records[heapq.heappop(self._lanes[lane])], now)

    def take_deferred(self, sequences: Iterable[int], lane: str, now: float, *, settled: bool) -> list[Record]:
        """Lock the deferred messages of these numbers, or take them out for good: all, or none with a refusal."""
        found = []
        for sequence in sequences:
            record = self._records.get(sequence)
            if record is None or not record.deferred or record.token is not None or record.lane != lane:
                raise Refusal(MESSAGE_NOT_FOUND, f"{self.name} has no deferred message {sequence} to give", 404)
            found.append(record)
        for record in found:
            if settled:
                del self._records[record.sequence]
            else:
                self._lock(record, now)
        return found

    def _lock(self, record: Record, now: float) -> Record:
        # 16 ASCII characters, because the delivery tag is the token and proton reads tags as text.
        record.token = f"{_RUN}{next(_TOKENS):010x}"
        # In a session the session's lock holds the messages.
        record.locked_until = inf if self.policy.sessions else now + self.policy.lock
        self._locks[record.token] = record
        return record

    def remove_next(self, lane: str, now: float) -> Record | None:
        """Take the next message of the lane out for good."""
        if not self.has_waiting(lane, now):
            return None
        return self._records.pop(heapq.heappop(self._lanes[lane]))

    def complete(self, token: str, now: float) -> None:
        """Remove a locked message: it is done."""
        del self._records[self._unlocked(token, now).sequence]

    def abandon(self, token: str, now: float, changes: Mapping[str, bytes] | None = None) -> None:
        """Give a locked message back after a failed attempt, with changed properties if there are any."""
        self._fail(self._changed(self._unlocked(token, now), changes), now)

    def defer(self, token: str, now: float, changes: Mapping[str, bytes] | None = None) -> None:
        """Set a locked message aside."""
        self._changed(self._unlocked(token, now), changes).deferred = True

    def release(self, token: str, now: float) -> None:
        """Give a locked message back as if it had never been handed out."""
        self._return(self._unlocked(token, now), now)

    def dead_letter(self, token: str, now: float, note: Mapping[str, bytes]) -> None:
        """Move a locked message to the dead-letter sub-queue, with a note among its properties."""
        if self.dead is None:
            raise Refusal(NOT_ALLOWED, f"{self.name} is a dead-letter sub-queue: its messages cannot be dead-lettered")
        self._bury(self._unlocked(token, now), note, now)

    def renew(self, token: str, now: float) -> float:
        """Lengthen a message's lock to a whole lock from now."""
        record = self._locked(token, now)
        record.locked_until = now + self.policy.lock
        self._locks.move_to_end(token)
        return record.locked_until

    def release_lane(self, lane: str, now: float, *, failed: bool) -> None:
        """Give back each message of the lane that is handed out. An attempt is counted only where the lock ran out."""
        for token in [token for token, record in self._locks.items() if record.lane == lane]:
            record = self._locks.pop(token)
            record.token = None
            (self._fail if failed else self._return)(record, now)

    def advance(self, now: float) -> None:
        """Do what time alone brings: end locks and lives."""
        while self._locks:
            token, record = next(iter(self._locks.items()))
            if record.locked_until > now:
                break
            del self._locks[token]
            record.token = None
            self._fail(record, now)
        while self._expiries and self._expiries[0][0] <= now:
            record_or_none = self._records.get(heapq.heappop(self._expiries)[1])
            # A locked message is its receiver's; it is looked at again when it comes back.
            # A deferred one stays until a receiver requests it, as in the service.
            if record_or_none is not None and record_or_none.token is None and not record_or_none.deferred:
                self._expire(record_or_none, now)

    def peek(self, first: int, limit: int, lane: str | None = None) -> list[Record]:
        """Return up to `limit` messages from sequence number `first` on, locked or not, without taking them."""
        found = []
        for sequence in sorted(number for number in self._records if number >= first):
            record = self._records[sequence]
            if lane is None or record.lane == lane:
                found.append(record)
            if len(found) == limit:
                break
        return found

    def _offer(self, record: Record) -> None:
        heapq.heappush(self._lanes.setdefault(record.lane, []), record.sequence)
        self.stir()

    def _locked(self, token: str, now: float) -> Record:
        record = self._locks.get(token)
        if record is None or record.locked_until <= now:
            condition = SESSION_LOCK_LOST if self.policy.sessions else MESSAGE_LOCK_LOST
            raise Refusal(
                condition,
                f"the lock {token} on a message of {self.name} is lost: it ran out, or the message was settled",
                410,
            )
        return record

    def _unlocked(self, token: str, now: float) -> Record:
        record = self._locked(token, now)
        del self._locks[token]
        record.token = None
        return record

    @staticmethod
    def _changed(record: Record, changes: Mapping[str, bytes] | None) -> Record:
        if changes:
            record.parcel = with_properties(record.parcel, changes)
        return record

    def _return(self, record: Record, now: float) -> None:
        if record.deferred:
            return
        if record.expires <= now:
            self._expire(record, now)
        else:
            self._offer(record)

    def _fail(self, record: Record, now: float) -> None:
        record.failures += 1
        if self.dead is not None and record.failures >= self.policy.max_delivery_count:
            attempts = f"the message could not be consumed after {record.failures} delivery attempts"
            self._bury(record, _note("MaxDeliveryCountExceeded", attempts), now)
        else:
            self._return(record, now)

    def _expire(self, record: Record, now: float) -> None:
        if self.policy.dead_letter_expired:
            self._bury(record, _note("TTLExpiredException", "the message expired and was dead-lettered"), now)
        else:
            self._records.pop(record.sequence, None)

    def _bury(self, record: Record, note: Mapping[str, bytes], now: float) -> None:
        self._records.pop(record.sequence, None)
        if self.dead is None:
            return
        parcel = with_properties(record.parcel, note)
        if self.forward is not None:
            self.forward(forwarded(parcel, self.name), now)
            return
        buried = Record(record.sequence, record.origin, parcel, record.enqueued, ONLY, failures=record.failures)
        self.dead._records[record.sequence] = buried  # noqa: SLF001 - the same class; a message keeps its number
        self.dead._offer(buried)  # noqa: SLF001 - as above


def _note(reason: str, description: str) -> dict[str, bytes]:
    return {"DeadLetterReason": wire.string(reason), "DeadLetterErrorDescription": wire.string(description)}
