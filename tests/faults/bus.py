"""A stand-in of the bus at the seam of its client: queues and topics that deliver at least once and survive processes."""

import json
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from azure.servicebus.exceptions import ServiceBusConnectionError

from capabilities.registration.entities import registration
from shared.azure.connections import Connections
from shared.pipeline import LOOKS_PROPERTY

#: The topics whose messages are copied to subscriptions; of the others nobody here has one.
_SUBSCRIPTIONS = {topic.name: topic.subscriptions for topic in registration().bus.topics}


@dataclass(frozen=True)
class Letter:
    """One message on the bus."""

    id: str
    entity: str
    kind: str
    body: str
    subject: str
    session: str
    #: How often a settler put it off.
    looks: int
    #: It arrived at this second of the clock, and nobody gets it before.
    due: float
    deliveries: int


class Bus:
    """What was sent, delivered and completed, all of it in the journal."""

    def __init__(self, journal, now=datetime.now):
        self._journal, self._now = journal, now
        #: Sends of results that are still to be refused.
        self.refusals = 0

    def send(self, entity, kind, body, subject="", *, session="", looks=0, due=0.0):
        """Take a message, which arrives when it is due, and now at the earliest."""
        due = max(due, self._now().timestamp())
        self._journal.note("sent", uuid.uuid4().hex, entity, kind, body, subject, session, looks, due)

    def refuses(self, entity):
        """Say whether it refuses what is sent to an entity, and count that."""
        if entity != "results" or not self.refusals:
            return False
        self.refusals -= 1
        return True

    def waiting(self, entity, now=float("inf")):
        """Return what was not completed and is due, the oldest first."""
        done = {name for (name,) in self._journal.entries("completed")}
        counts = Counter(name for (name,) in self._journal.entries("delivered"))
        return [
            Letter(*sent, counts[sent[0]] + 1)
            for sent in self._journal.entries("sent")
            if sent[1] == entity and sent[0] not in done and sent[-1] <= now
        ]

    def sent(self, entity):
        """Return everything that was ever sent there, the oldest first."""
        return [Letter(*sent, 1) for sent in self._journal.entries("sent") if sent[1] == entity]

    def deliver(self, letters):
        """Note that these are being delivered."""
        for letter in letters:
            self._journal.note("delivered", letter.id)

    def complete(self, letters):
        """Forget what was worked on."""
        for letter in letters:
            self._journal.note("completed", letter.id)

    def told(self, kind):
        """Return the bodies of every message of a kind that was ever sent."""
        return [body for _, _, found, body, *_ in self._journal.entries("sent") if found == kind]

    def repeat(self):
        """Send everything again that was ever sent, as a bus may."""
        for _, entity, kind, body, subject, session, looks, due in self._journal.entries("sent"):
            self.send(entity, kind, body, subject, session=session, looks=looks, due=due)

    def lose(self):
        """Lose everything that is waiting."""
        for entity in {entry[1] for entry in self._journal.entries("sent")}:
            self.complete(self.waiting(entity))


class BusConnections(Connections):
    """Connections whose bus is the stand-in, with the faults of a plan."""

    def __init__(self, storage, bus, plan, transport):
        super().__init__(storage, "in this process", transport=transport)
        self._stand_in, self._plan = bus, plan

    def bus_client(self):
        """Return a client of the stand-in."""
        return _Client(self._stand_in, self._plan)


class _Closing:
    def close(self):
        """Nothing to close."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class _Client(_Closing):
    def __init__(self, bus, plan):
        self._bus, self._plan = bus, plan

    def get_queue_receiver(self, queue, *, session_id=None):
        """Return a receiver that looks at a queue."""
        return _Receiver(self._bus, self._plan, queue)

    def get_queue_sender(self, queue):
        """Return a sender to a queue."""
        return _Sender(self._bus, self._plan, queue)

    def get_topic_sender(self, topic):
        """Return a sender to a topic."""
        return _Sender(self._bus, self._plan, topic)


class _Receiver(_Closing):
    def __init__(self, bus, plan, entity):
        self._bus, self._plan, self._entity = bus, plan, entity

    def peek_messages(self, max_message_count):
        """Return the oldest messages that nobody completed."""
        seen = []
        self._plan.around(f"PEEK {self._entity}", lambda: seen.extend(self._bus.waiting(self._entity)))
        return [Seen(datetime.fromtimestamp(letter.due, UTC)) for letter in seen[:max_message_count]]


@dataclass(frozen=True)
class Seen:
    """What is looked at of a message."""

    enqueued_time_utc: datetime


class _Sender(_Closing):
    def __init__(self, bus, plan, entity):
        self._bus, self._plan, self._entity = bus, plan, entity

    def send_messages(self, message):
        """Send one message of the real library, or several, which arrive together or not at all."""
        letters = [_letter(one) for one in (message if isinstance(message, list) else [message])]
        kinds = "+".join(sorted({kind for kind, *_ in letters}))
        self._plan.around(f"SEND {self._entity} {kinds}", lambda: self._take(letters))

    def _take(self, letters):
        if self._bus.refuses(self._entity):
            raise ServiceBusConnectionError(message="the bus is away")
        for kind, body, subject, session, due, marks in letters:
            for entity in copies(self._entity, marks):
                self._bus.send(
                    entity, kind, body, subject, session=session, looks=marks.get(LOOKS_PROPERTY, 0), due=due
                )


def _letter(message):
    # As Azure does; the library looks at the message's id alone.
    for text in (message.message_id, message.subject, message.correlation_id, message.session_id):
        if text and len(text) > 128:
            raise ValueError(f"Service Bus takes 128 characters, this has {len(text)}: {text!r}")
    marks, body = message.application_properties or {}, b"".join(message.body).decode()
    kind = str(marks.get("kind") or json.loads(body)["sluice"]["kind"])
    due = message.scheduled_enqueue_time_utc
    return kind, body, message.subject or "", message.session_id or "", due.timestamp() if due else 0.0, marks


def copies(entity, marks):
    """Return where a message to this entity goes: to the entity itself, or to each subscription that wants it."""
    if entity not in _SUBSCRIPTIONS:
        return [entity]
    return [
        f"{entity}/{one.name}"
        for one in _SUBSCRIPTIONS[entity]
        if not one.filters or any(each.properties.items() <= marks.items() for each in one.filters)
    ]
