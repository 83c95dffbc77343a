"""The links on which clients receive, and the desk that hands a queue's messages to them."""

import time
from collections import deque
from typing import Any

from cproton import (
    PN_ACCEPTED,
    PN_MODIFIED,
    PN_RECEIVED,
    PN_REJECTED,
    PN_RELEASED,
    pn_delivery_remote_state,
    pn_delivery_settled,
    pn_delivery_tag,
    pn_delivery_updated,
    pn_link_credit,
    pn_link_drained,
    pn_link_get_drain,
)

from servicebus_local.broker import Outlet
from servicebus_local.parcel import labelled
from servicebus_local.queue import ONLY
from servicebus_local.record import Record
from servicebus_local.refusal import Refusal, not_implemented
from servicebus_local.session import SessionLock
from servicebus_local.transfer import answer, properties_of, refuse, send, wrapped


class Desk:
    """Hands one queue's messages to the receivers that have credit, in turn."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self._ready: deque[Consumer] = deque()
        #: Whether receivers wait for the entity's next second.
        self._throttled = False

    def enlist(self, consumer: "Consumer") -> None:
        """Serve a receiver that has credit."""
        if not consumer.enlisted:
            consumer.enlisted = True
            self._ready.append(consumer)
        self.outlet.queue.stir()

    def dismiss(self, consumer: "Consumer") -> None:
        """Serve a receiver no more."""
        if consumer.enlisted:
            consumer.enlisted = False
            self._ready.remove(consumer)

    def serve(self, now: float) -> None:
        """Hand out what there is, and what the entity still takes in this second."""
        self._throttled = False
        if self.outlet.sessions is None:
            self._serve_in_turn(now)
        else:
            self._serve_holders(now)

    def _serve_in_turn(self, now: float) -> None:
        while self._ready:
            consumer = self._ready[0]
            if consumer.credit <= 0:
                self.dismiss(consumer)
                continue
            record = self._next(consumer, now)
            if record is None:
                return
            consumer.hand_over(record)
            self._ready.rotate(-1)

    def _serve_holders(self, now: float) -> None:
        for consumer in list(self._ready):
            while consumer.credit > 0 and (record := self._next(consumer, now)) is not None:
                consumer.hand_over(record)
            if consumer.credit <= 0:
                self.dismiss(consumer)

    def advance(self) -> None:
        """Look again for those who wait for the entity's next second."""
        if self._throttled:
            self.outlet.queue.stir()

    def _next(self, consumer: "Consumer", now: float) -> Record | None:
        allowance = self.outlet.allowance
        if allowance is None or not consumer.has_record(now):
            return consumer.next_record(now)
        if allowance.take(now):
            return consumer.next_record(now)
        # Not refused, as a send is: a receiver has asked for nothing that could be answered.
        self._throttled = True
        return None


class Consumer:
    """A client's receiving link from a queue, a subscription or a dead-letter sub-queue."""

    def __init__(self, peer: Any, link: Any, desk: Desk, *, settled: bool, session: SessionLock | None = None) -> None:
        self.peer = peer
        self.link = link
        self.session = session
        #: Receive-and-delete: a message is gone when it is sent.
        self._settled = settled
        self._desk = desk
        self._queue = desk.outlet.queue
        self.credit = 0
        #: Whether the desk knows that this receiver has credit.
        self.enlisted = False
        self._gone = False

    def on_flow(self) -> None:
        """Request as many messages as there is credit. Give the credit back where the client drains the link."""
        self.credit = 0 if self._gone else pn_link_credit(self.link)
        if self.credit > 0:
            self._desk.enlist(self)
        if pn_link_get_drain(self.link):
            self._desk.serve(time.time())
            pn_link_drained(self.link)
            self.credit = 0

    def on_gone(self) -> None:
        """Leave the queue. A session goes free, while message locks live on until they run out, as in the service."""
        self._gone = True
        self._desk.dismiss(self)
        sessions = self._desk.outlet.sessions
        if self.session is not None and sessions is not None:
            sessions.release(self.session, time.time())

    def next_record(self, now: float) -> Record | None:
        """Return the next message that this receiver may have."""
        return (self._queue.remove_next if self._settled else self._queue.take)(self._lane, now)

    def has_record(self, now: float) -> bool:
        """Return true if there is a message for this receiver."""
        return self._queue.has_waiting(self._lane, now)

    @property
    def _lane(self) -> str:
        return ONLY if self.session is None else self.session.session_id

    def hand_over(self, record: Record) -> None:
        """Send a message."""
        until = record.locked_until if self.session is None else self.session.locked_until
        encoded = labelled(record.parcel, record.label(None if self._settled else until))
        send(self.link, record.token or f"{record.sequence:016x}", encoded, settled=self._settled)
        self.credit -= 1
        self.peer.touched()

    def on_delivery(self, delivery: Any) -> None:
        """Settle a message as the client asks, and answer with the outcome that took effect."""
        # A client that finds its link closed asks again by request. It would take an answer on the link as well for
        # the answer to that request, because it does not distinguish the two directions' delivery numbers.
        if self._gone or not pn_delivery_updated(delivery):
            return
        state = pn_delivery_remote_state(delivery)
        if state == PN_RECEIVED or (state == 0 and not pn_delivery_settled(delivery)):
            return
        try:
            self._settle(delivery, pn_delivery_tag(delivery), state)
        except Refusal as refusal:
            refuse(delivery, refusal)
        else:
            answer(delivery, state)

    def _settle(self, delivery: Any, token: str, state: int) -> None:
        now = time.time()
        if state == PN_ACCEPTED:
            self._queue.complete(token, now)
        elif state == PN_REJECTED:
            condition = wrapped(delivery).remote.condition
            self._queue.dead_letter(token, now, properties_of(condition and condition.info))
        elif state == PN_MODIFIED:
            self._modify(wrapped(delivery).remote, token, now)
        elif state in {0, PN_RELEASED}:
            self._queue.release(token, now)
        else:
            raise not_implemented(f"the delivery state 0x{state:x} (transactions)")

    def _modify(self, outcome: Any, token: str, now: float) -> None:
        changes = properties_of(outcome.annotations)
        if outcome.undeliverable:
            self._queue.defer(token, now, changes)
        else:
            # With `delivery-failed` or without: the JavaScript SDK sets none, and the service counts its abandons.
            self._queue.abandon(token, now, changes)
