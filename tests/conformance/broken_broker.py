"""The broker with one mistake, as a process of its own: python -m tests.conformance.broken_broker MISTAKE OPTIONS."""

import heapq
import sys
from math import inf

from servicebus_local import broker, command, intake, queue, record, session


def _no_memory():
    intake.SeenIds.is_repeat = lambda *_: False


def _last_first():
    def take(self, lane, now):
        if not self.has_waiting(lane, now):
            return None
        last = max(self._lanes[lane])
        self._lanes[lane].remove(last)
        heapq.heapify(self._lanes[lane])
        return self._lock(self._records[last], now)

    queue.MessageQueue.take = take


def _two_holders():
    accept = session.Sessions.accept

    def twice(self, session_id, holder, now, **options):
        self._locks.pop(session_id, None)
        return accept(self, session_id, holder, now, **options)

    session.Sessions.accept = twice


def _endless_locks():
    lock = queue.MessageQueue._lock

    def endless(self, one, now):
        # Not without end: the client is told the time, and a connection ends where that is no number.
        lock(self, one, now).locked_until = now + 86_400.0
        return one

    queue.MessageQueue._lock = endless


def _endless_sessions():
    session.SessionLock.ends_by = lambda *_: False


def _uncounted():
    queue.MessageQueue._fail = queue.MessageQueue._return


def _never_dead():
    def fail(self, one, now):
        one.failures += 1
        self._return(one, now)

    queue.MessageQueue._fail = fail


def _no_reason():
    queue._note = lambda *_: {}


def _late_completes():
    ever, lock = {}, queue.MessageQueue._lock

    def remember(self, one, now):
        lock(self, one, now)
        ever[one.token] = one
        return one

    def complete(self, token, _):
        one = ever[token]
        self._records.pop(one.sequence, None)
        self._locks.pop(one.token, None)

    queue.MessageQueue._lock, queue.MessageQueue.complete = remember, complete


def _given_twice():
    take = queue.MessageQueue.take

    def again(self, lane, now):
        one = take(self, lane, now)
        if one is not None:
            self._offer(one)
        return one

    queue.MessageQueue.take = again


def _at_once():
    accept = intake.Intake.accept

    def now_already(self, parcel, now):
        number = accept(self, parcel, now)
        self._calendar = [(0.0, sequence) for _, sequence in self._calendar]
        return number

    intake.Intake.accept = now_already


def _endless_lives():
    record.Record.expires = property(lambda _: inf)


def _no_filters():
    def all_of_it(self, parcel, sequence, now):
        for branch in self.branches.values():
            branch.queue.put(parcel, next(branch.numbers), sequence, now)

    broker._Fan.__call__ = all_of_it


def _to_the_end():
    back = queue.MessageQueue._return

    def behind(self, one, now):
        self._records.pop(one.sequence)
        one.sequence += 1000
        self._records[one.sequence] = one
        back(self, one, now)

    queue.MessageQueue._return = behind


#: What it does wrong: the property that a run must find broken, and the mistake.
BUS = {
    "duplicates pass": ("bus.duplicates", _no_memory),
    "order is lost in a session": ("bus.fifo", _last_first),
    "a session has two holders": ("bus.holder", _two_holders),
    "a locked message is given twice": ("bus.lock", _given_twice),
    "a lock never ends": ("bus.lock_end", _endless_locks),
    "a session's lock never ends": ("bus.session_end", _endless_sessions),
    "who is late completes": ("bus.late", _late_completes),
    "an attempt is not counted": ("bus.count", _uncounted),
    "a message never becomes a dead letter": ("bus.dead", _never_dead),
    "a dead letter has no reason": ("bus.dead", _no_reason),
    "a scheduled message comes at once": ("bus.schedule", _at_once),
    "messages outlive their lives": ("bus.expiry", _endless_lives),
    "filters are ignored": ("bus.filter", _no_filters),
    "an abandoned message goes to the end": ("bus.again", _to_the_end),
}

if __name__ == "__main__":
    BUS[sys.argv[1]][1]()
    sys.exit(command.main(sys.argv[2:]))
