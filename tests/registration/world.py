"""Registration in one process without a host: what the bus holds is given to the verbs until it holds nothing."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusMessage, ServiceBusReceiver

from capabilities.registration.entities import (
    CONFERENCES_VIEW,
    DEAD,
    ORDER_EVENTS,
    ORDERS,
    ORDERS_VIEW,
    PROCESSES,
    SEATS_EVENTS,
    STARTS_IN_ORDER,
    seat_lane_names,
)
from capabilities.registration.flows import RegistrationPart, RegistrationStores
from capabilities.registration.order_messages import seats_home
from capabilities.registration.public_messages import CONFERENCES_QUEUE, PAYMENTS_QUEUE
from capabilities.registration.seats import Seats
from shared.app.app import BuildSite
from shared.app.stores import Stores
from shared.azure import Connections, Destination
from shared.gate import Batches, Opening, Outflow, open_gate
from shared.messages import Delivery
from shared.operating import ReplayPace, Selection
from shared.processes import Mementos
from shared.signals import Hint
from tests.gate.conftest import NoJobs
from tests.parked.replaying import fates_of, replay_all
from tests.waiting import take

#: The queue of each kind of message, as docs/formats.md has them.
QUEUE_OF = {
    "payment": str(PAYMENTS_QUEUE),
    **dict.fromkeys(("conference", "add_seats", "remove_seats", "close_conference"), str(CONFERENCES_QUEUE)),
}
(LANE,) = seat_lane_names(1)
#: The gate of these tests.
GATE = "sale"


class HandClock:
    """A clock that the test moves."""

    def __init__(self):
        self.moment = datetime.now(UTC)

    def now(self):
        """Return the moment."""
        return self.moment

    def monotonic(self):
        """Return the same in seconds."""
        return self.moment.timestamp()

    def of_reply(self, named):
        """Return the moment."""
        return self.moment


class World(ExitStack):
    """One process of the app."""

    def __init__(self, settings, environ):
        super().__init__()
        self.settings, self.environ, self.clock, self._numbers = settings, environ, HandClock(), iter(range(1000))
        self.connections = self.enter_context(Connections.parse(environ))
        self.choice = settings.capability("registration").choice
        self.restart()
        client = self.enter_context(self.connections.bus_client())
        self._receivers = [
            (self.enter_context(made), verb)
            for made, verb in (
                (client.get_subscription_receiver(SEATS_EVENTS, PROCESSES), "hear"),
                (client.get_subscription_receiver(ORDER_EVENTS, ORDERS_VIEW), "project_orders"),
                (client.get_subscription_receiver(SEATS_EVENTS, CONFERENCES_VIEW), "project_conferences"),
            )
        ]
        self._dead = self.enter_context(client.get_queue_receiver(DEAD))
        self._client = client

    def restart(self):
        """Begin a process that remembers nothing."""
        self.stores = self.enter_context(Stores(self.connections, clock=self.clock))
        self.own = RegistrationStores(self.stores)
        self.part = self.enter_context(RegistrationPart(BuildSite(self.stores, self.settings, self.choice)))
        self.verbs = self.part.verbs

    def take(self, kind, *, queue=None, **fields):
        """Have a message taken, from the queue of its kind or from another one."""
        body = json.dumps({"sluice": {"v": 1, "kind": kind, **fields}}).encode()
        self._take(queue or QUEUE_OF.get(kind, ORDERS), body)

    def _take(self, queue, body):
        self.verbs.take(Delivery(queue=queue, message_id=f"m{next(self._numbers)}", body=body, count=1))

    def drop(self, queue, body):
        """Put bytes on a queue, as their sender does."""
        to = Destination.parse(queue)
        if to.kind == "queue":
            self.connections.queues.get_queue_client(to.name).send_message(body.decode())
        else:
            with self._client.get_queue_sender(to.name) as sender:
                sender.send_messages(ServiceBusMessage(body))

    def take_dropped(self, count=1):
        """Have the messages taken that are on the queues of customers, shops and banks, at this delivery. Return their number."""
        queue = self.connections.queues.get_queue_client(ORDERS)
        messages = list(queue.receive_messages())
        for message in messages:
            self.verbs.take(Delivery(queue=ORDERS, message_id=message.id, body=message.content.encode(), count=count))
            queue.delete_message(message)
        return len(messages) + sum(map(self._take_letters, (PAYMENTS_QUEUE, CONFERENCES_QUEUE)))

    def _take_letters(self, queue):
        with self._client.get_queue_receiver(queue.name) as receiver:
            letters = take(receiver)
            for letter in letters:
                self._take(str(queue), b"".join(letter.body))
                receiver.complete_message(letter)
        return len(letters)

    def replay(self, reason):
        """Have an operator replay what is parked for a reason, while the app works. Return the fates, and what it sent."""
        sent = []

        def work(seconds):
            self.clock.moment += timedelta(seconds=seconds)
            sent.append(self.take_dropped() + self.pump())

        operator = self.stores.build_parked_operator(work)
        waves = replay_all(operator, Selection(reason=reason), ReplayPace(patience=3))
        return [fate.value for fate in fates_of(waves)], sum(sent)

    def pump(self):
        """Give the verbs what the bus holds, until it holds nothing. Return how many messages these were."""
        total = 0
        while number := self.deliver():
            total += number
        return total

    def deliver(self, *, is_marked=True):
        """Give each verb once what the bus holds. Unless it is marked as processed, it comes again."""
        mark = ServiceBusReceiver.complete_message if is_marked else ServiceBusReceiver.abandon_message
        others = sum(self._receive(receiver, verb, mark) for receiver, verb in self._receivers)
        return self._take_session(STARTS_IN_ORDER, GATE, "start", mark) + others + self.sell(mark)

    def show(self):
        """Bring the view of orders up to date, and nothing else."""
        ((receiver, verb),) = [each for each in self._receivers if each[1] == "project_orders"]
        self._receive(receiver, verb, ServiceBusReceiver.complete_message)

    def lose(self, verb):
        """Have the bus lose what it holds for a verb. Return how many messages these were."""
        ((receiver, _),) = [each for each in self._receivers if each[1] == verb]
        lost = take(receiver)
        for message in lost:
            receiver.complete_message(message)
        return len(lost)

    def _receive(self, receiver, verb, mark):
        messages = take(receiver)
        try:
            if messages:
                getattr(self.part, verb)([b"".join(message.body) for message in messages])
        except BaseException:
            # The lock of a process that ended runs out.
            mark = ServiceBusReceiver.abandon_message
            raise
        finally:
            for message in messages:
                mark(receiver, message)
        return len(messages)

    def sell(self, mark=ServiceBusReceiver.complete_message):
        """Give the seats the commands that the bus holds."""
        return self._take_session(LANE, seats_home("c1"), "sell", mark)

    def peek_session(self, queue, session):
        """Return the bodies of what a session of a queue holds, and leave it there."""
        with self._client.get_queue_receiver(queue, session_id=session) as receiver:
            return [b"".join(message.body) for message in receiver.peek_messages(100)]

    def _take_session(self, queue, session, verb, mark):
        # Of the one conference and the one gate of these tests: the next session with a message would be waited for.
        with self._client.get_queue_receiver(queue, session_id=session) as receiver:
            return self._receive(receiver, verb, mark)

    def tick(self, **later):
        """Let time pass, and follow the agenda."""
        self.clock.moment += timedelta(**later)
        self.part.follow(float("inf"))

    def order(self, order):
        """Return an order as its customer sees it."""
        return self.own.orders.find(order).order

    def seats(self, conference):
        """Return the types of a conference by its home."""
        return Mementos(self.own.homes, Seats(), 500).read(seats_home(conference)).state

    def release(self, gate):
        """Open a gate, and release what it holds."""
        now = self.clock.now()
        opening = Opening(at=now, by="test", why="noon")
        self.stores.gates.change(gate, lambda state: open_gate(state, opening, now))
        return self.let_out(gate)

    def let_out(self, gate):
        """Release what an open gate holds."""
        opened = self.stores.gates.read(gate)
        batches = Batches(self.stores.held_work, NoJobs(), self.clock)
        outflow = Outflow(self.stores.held_work, batches, self.stores.slices, self.stores.rolls, self.clock)
        done = outflow.run(opened, Hint(gate), float("inf"), lambda _hints: None)
        assert done.is_whole
        return done.put

    def parked(self):
        """Return the reasons of all that is parked."""
        rows = self.connections.tables.get_table_client("parked").list_entities()
        return [row["reason"] for row in rows if "reason" in row]

    def rows(self):
        """Return the keys of all rows of the agenda that lead to work, now or later."""
        self.verbs.close()
        rows = self.connections.tables.get_table_client("agenda").list_entities(select=["RowKey"])
        return [row["RowKey"] for row in rows if not row["RowKey"].startswith("~")]
