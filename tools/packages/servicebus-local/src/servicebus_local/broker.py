"""All entities of the namespace by address. The pure half of the broker ends here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from math import inf

from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic
from servicebus_local.intake import Intake
from servicebus_local.parcel import Label, Parcel, labelled
from servicebus_local.queue import MessageQueue
from servicebus_local.record import SCHEDULED, Policy
from servicebus_local.refusal import ALREADY_EXISTS, ARGUMENT, NOT_ALLOWED, NOT_FOUND, Refusal
from servicebus_local.rules import Rules
from servicebus_local.session import SessionLock, Sessions
from servicebus_local.throttle import Allowance

_DEAD = "/$deadletterqueue"
#: Where the service puts messages that it could not forward. Nothing is forwarded here, so it stays empty.
_TRANSFER_DEAD = "/$transfer/$deadletterqueue"


@dataclass(frozen=True, slots=True)
class Outlet:
    """The receivers' side: a queue, and what else belongs to it."""

    queue: MessageQueue
    sessions: Sessions | None = None
    #: The entrance of a queue, where messages may still wait.
    intake: Intake | None = None
    #: What a subscription lets through.
    rules: Rules | None = None
    #: None: as many operations as come.
    allowance: Allowance | None = None

    def peek(self, first: int, limit: int, lane: str | None) -> list[bytes]:
        """Return up to `limit` messages in order, waiting for their time or not, as they would be delivered."""
        found = [
            (record.sequence, labelled(record.parcel, record.label(None)))
            for record in self.queue.peek(first, limit, lane)
        ]
        for scheduled in self.intake.waiting(first) if self.intake else ():
            if lane is None or scheduled.parcel.session_id == lane:
                label = Label(scheduled.sequence, None, 0, state=SCHEDULED)
                found.append((scheduled.sequence, labelled(scheduled.parcel, label)))
        return [encoded for _, encoded in sorted(found)[:limit]]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many messages an entity has, by what they wait for, and their bytes."""

    active: int = 0
    dead: int = 0
    scheduled: int = 0
    #: Those that could not be forwarded.
    lost: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Branch:
    rules: Rules
    queue: MessageQueue
    numbers: Iterator[int]


class _Fan:
    """Copies a topic's message to each subscription that wants it."""

    def __init__(self) -> None:
        #: By the name of the subscription in small letters.
        self.branches: dict[str, _Branch] = {}

    def __call__(self, parcel: Parcel, sequence: int, now: float) -> None:
        for branch in self.branches.values():
            if branch.rules.passes(parcel):
                branch.queue.put(parcel, next(branch.numbers), sequence, now)


def _seconds(span: timedelta | None, none: float) -> float:
    return none if span is None else span.total_seconds()


class _Stirred(set[MessageQueue]):
    """Queues that the dispatcher has to look at. It remembers all that ever had a message."""

    def __init__(self) -> None:
        super().__init__()
        self.woken: dict[MessageQueue, None] = {}

    def add(self, queue: MessageQueue) -> None:
        super().add(queue)
        self.woken[queue] = None


class Broker:
    """Every entity of a namespace, made from its definition."""

    def __init__(
        self, namespace: Namespace, lock_seconds: float | None = None, operations_per_second: int | None = None
    ) -> None:
        self.namespace = namespace
        #: Queues that the dispatcher has to look at.
        self.stirred = _Stirred()
        #: What somebody has used: to the others, of which there may be thousands, time brings nothing.
        self._entered: dict[str, Intake] = {}
        self._held: dict[str, Sessions] = {}
        self._lock_seconds = lock_seconds
        self._operations_per_second = operations_per_second
        self._intakes: dict[str, Intake] = {}
        self._outlets: dict[str, Outlet] = {}
        self._fans: dict[str, _Fan] = {}
        for queue in namespace.queues:
            self._add_queue(queue)
        for topic in namespace.topics:
            self._add_topic(topic)
        self._check_forwarding(namespace)

    def intake(self, address: str) -> Intake:
        """Return where messages for the address go."""
        found = self._intakes.get(address.lower())
        if found is not None:
            self._entered[address.lower()] = found
            return found
        if address.lower() in self._outlets:
            raise Refusal(NOT_ALLOWED, f"{address!r} takes no messages: send to its queue or topic")
        raise _unknown(address)

    def outlet(self, address: str) -> Outlet:
        """Return where messages of the address come from."""
        found = self._outlets.get(address.lower())
        if found is not None:
            if found.sessions is not None:
                self._held[address.lower()] = found.sessions
            return found
        if address.lower() in self._intakes:
            raise Refusal(NOT_ALLOWED, f"topic {address!r} gives no messages: receive from one of its subscriptions")
        raise _unknown(address)

    def demand(self, address: str, audience: str) -> None:
        """Refuse a token for an entity that is not there, in the service's words. The namespace is always there."""
        if address and address.lower() not in self._outlets and address.lower() not in self._intakes:
            raise Refusal(NOT_FOUND, f"The messaging entity {audience!r} could not be found.", 404)

    def allowance(self, address: str) -> Allowance | None:
        """Return what an entity still takes in this second. None where there is no limit, or no such entity."""
        found = self._outlets.get(address.lower()) or self._intakes.get(address.lower())
        return found.allowance if found else None

    def counts(self, address: str) -> Counts:
        """Return how many messages a queue, topic or subscription has."""
        name = address.lower()
        own, dead, lost = (self._outlets.get(name + suffix) for suffix in ("", _DEAD, _TRANSFER_DEAD))
        intake = self._intakes.get(name)
        held = [[record.parcel for record in one.queue.records()] if one else [] for one in (own, dead, lost)]
        held.append([one.parcel for one in intake.waiting(0)] if intake else [])
        sizes = (len(parcel.bare) for parcels in held for parcel in parcels)
        active, dead_ones, lost_ones, scheduled = (len(parcels) for parcels in held)
        return Counts(active, dead_ones, scheduled, lost_ones, sum(sizes))

    def create(self, entity: Queue | Topic) -> None:
        """Make a queue or a topic."""
        if entity.name.lower() in self._intakes:
            raise _known(entity.name)
        if isinstance(entity, Queue):
            changed = replace(self.namespace, queues=(*self.namespace.queues, entity))
            self._add_queue(entity)
        else:
            changed = replace(self.namespace, topics=(*self.namespace.topics, entity))
            self._add_topic(entity)
        try:
            self._check_forwarding(changed)
        except ValueError as error:
            self._forget(entity.name)
            raise Refusal(ARGUMENT, str(error)) from error
        self.namespace = changed

    def create_subscription(self, topic: str, subscription: Subscription) -> None:
        """Make a subscription of a topic."""
        name = f"{topic}/Subscriptions/{subscription.name}"
        fan = self._fans.get(topic.lower())
        if fan is None:
            raise _unknown(topic)
        if name.lower() in self._outlets:
            raise _known(name)
        changed = self._with_subscriptions(topic, lambda known: (*known, subscription))
        try:
            self._check_forwarding(changed)
        except ValueError as error:
            raise Refusal(ARGUMENT, str(error)) from error
        fan.branches[subscription.name.lower()] = self._branch(topic, subscription)
        self.namespace = changed

    def delete(self, name: str) -> None:
        """Remove a queue or a topic with all that it holds. Links that are open stay until their clients close them."""
        if name.lower() not in self._intakes:
            raise _unknown(name)
        self._forget(name)
        queues = tuple(one for one in self.namespace.queues if one.name.lower() != name.lower())
        topics = tuple(one for one in self.namespace.topics if one.name.lower() != name.lower())
        self.namespace = Namespace(queues, topics)

    def delete_subscription(self, topic: str, subscription: str) -> None:
        """Remove a subscription with all that it holds."""
        name, fan = f"{topic}/Subscriptions/{subscription}", self._fans.get(topic.lower())
        if fan is None or name.lower() not in self._outlets:
            raise _unknown(name)
        del fan.branches[subscription.lower()]
        self._forget(name)
        self.namespace = self._with_subscriptions(
            topic, lambda known: tuple(one for one in known if one.name.lower() != subscription.lower())
        )

    def _with_subscriptions(
        self, topic: str, change: Callable[[tuple[Subscription, ...]], tuple[Subscription, ...]]
    ) -> Namespace:
        topics = (
            replace(one, subscriptions=change(one.subscriptions)) if one.name.lower() == topic.lower() else one
            for one in self.namespace.topics
        )
        return replace(self.namespace, topics=tuple(topics))

    def _forget(self, name: str) -> None:
        """Take everything at an address and below it off."""
        below = (name.lower(), f"{name.lower()}/")
        gone = [one for one in self._outlets if one == below[0] or one.startswith(below[1])]
        for address in gone:
            self.stirred.woken.pop(self._outlets[address].queue, None)
        for known in (self._intakes, self._outlets, self._fans, self._entered, self._held):
            for address in [one for one in known if one == below[0] or one.startswith(below[1])]:
                del known[address]

    def advance(self, now: float) -> list[SessionLock]:
        """Do what time alone brings, everywhere. Return the session locks that ended."""
        for intake in self._entered.values():
            intake.advance(now)
        for queue in list(self.stirred.woken):
            queue.advance(now)
        return [lock for sessions in self._held.values() for lock in sessions.advance(now)]

    def _add_outlet(self, name: str, delivery: DeliveryRules) -> Outlet:
        policy = Policy(
            lock=self._lock_seconds or delivery.lock.total_seconds(),
            max_delivery_count=delivery.max_delivery_count,
            sessions=delivery.sessions,
            dead_letter_expired=delivery.dead_letter_expired,
            time_to_live=_seconds(delivery.time_to_live, inf),
        )
        dead = MessageQueue(f"{name}/$DeadLetterQueue", Policy(policy.lock, 0), self.stirred, None)
        queue = MessageQueue(name, policy, self.stirred, dead)
        self._forward(queue, delivery.forward_dead_letters)
        lost = MessageQueue(f"{name}/$Transfer/$DeadLetterQueue", Policy(policy.lock, 0), self.stirred, None)
        allowance = self._allowance(name)
        self._outlets[name.lower() + _DEAD] = Outlet(dead, allowance=allowance)
        self._outlets[name.lower() + _TRANSFER_DEAD] = Outlet(lost, allowance=allowance)
        return Outlet(queue, Sessions(queue) if delivery.sessions else None, allowance=allowance)

    def _allowance(self, name: str) -> Allowance | None:
        return None if self._operations_per_second is None else Allowance(name, self._operations_per_second)

    def _forward(self, queue: MessageQueue, target: str | None) -> None:
        if target is None:
            return

        # Looked up when a letter comes: the target may be made after the entity that names it.
        def take(parcel: Parcel, now: float) -> None:
            self._intakes[target.lower()].accept(parcel, now)

        queue.forward = take

    def _check_forwarding(self, namespace: Namespace) -> None:
        sessions = {queue.name.lower() for queue in namespace.queues if queue.delivery.sessions}
        deliveries = [(queue.name, queue.delivery) for queue in namespace.queues]
        deliveries += [
            (f"{topic.name}/{one.name}", one.delivery) for topic in namespace.topics for one in topic.subscriptions
        ]
        for name, delivery in deliveries:
            target = delivery.forward_dead_letters
            if target is None:
                continue
            if target.lower() not in self._intakes or target.lower() == name.lower():
                raise ValueError(f"{name} forwards its dead letters to {target!r}, which is no other queue or topic")
            if target.lower() in sessions:
                raise ValueError(f"{name} forwards its dead letters to {target!r}: the broker has no sessions for them")

    def _add_queue(self, queue: Queue) -> None:
        outlet = self._add_outlet(queue.name, queue.delivery)

        def deliver(parcel: Parcel, sequence: int, now: float) -> None:
            outlet.queue.put(parcel, sequence, None, now)

        window = None if queue.duplicate_window is None else queue.duplicate_window.total_seconds()
        sessions, allowance = queue.delivery.sessions, outlet.allowance
        intake = Intake(queue.name, deliver, window=window, sessions=sessions, allowance=allowance)
        self._intakes[queue.name.lower()] = intake
        self._outlets[queue.name.lower()] = replace(outlet, intake=intake)

    def _add_topic(self, topic: Topic) -> None:
        self._fans[topic.name.lower()] = fan = _Fan()
        for subscription in topic.subscriptions:
            fan.branches[subscription.name.lower()] = self._branch(topic.name, subscription)
        window = None if topic.duplicate_window is None else topic.duplicate_window.total_seconds()
        self._intakes[topic.name.lower()] = Intake(
            topic.name, fan, window=window, allowance=self._allowance(topic.name)
        )

    def _branch(self, topic: str, subscription: Subscription) -> _Branch:
        name = f"{topic}/Subscriptions/{subscription.name}"
        rules = Rules(name, subscription.rules())
        outlet = replace(self._add_outlet(name, subscription.delivery), rules=rules)
        self._outlets[name.lower()] = outlet
        return _Branch(rules, outlet.queue, count(1))


def _known(address: str) -> Refusal:
    return Refusal(ALREADY_EXISTS, f"the messaging entity {address!r} is there already", 409)


def _unknown(address: str) -> Refusal:
    return Refusal(
        NOT_FOUND, f"the messaging entity {address!r} could not be found: the broker has no such entity", 404
    )
