"""Plays the Functions host for registration: its queues, its subscriptions, and the sessions of its lane."""

import json
from itertools import groupby

from capabilities.registration.entities import (
    CONFERENCES as SHOP,
    CONFERENCES_VIEW,
    ORDER_EVENTS,
    ORDERS_VIEW,
    PAYMENTS,
    PROCESSES,
    SEATS_EVENTS,
    STARTS_IN_ORDER,
    TIMEOUTS,
    seat_lane_names,
)
from shared.azure import Destination
from shared.messages import Delivery
from tests.faults.host import Host

(LANE,) = seat_lane_names(1)
REPLIES, CONFERENCES, VIEWS = (
    f"{SEATS_EVENTS}/{PROCESSES}",
    f"{SEATS_EVENTS}/{CONFERENCES_VIEW}",
    f"{ORDER_EVENTS}/{ORDERS_VIEW}",
)
#: The stage and the verb of each entity without sessions.
ENTITIES = {
    STARTS_IN_ORDER: ("start", "start"),
    REPLIES: ("hear", "hear"),
    VIEWS: ("project", "project_orders"),
    CONFERENCES: ("project", "project_conferences"),
    TIMEOUTS: ("expire", "expire"),
}
#: The queues whose messages are taken one by one: of shops and banks.
SENDERS = (SHOP, PAYMENTS)
WORK = ("orders", "signals", LANE, *ENTITIES, *SENDERS)
#: Messages of a batch. The first batch of each entity is one message, so that others come again with those after it.
MOST = 8


def only(*names):
    """Return what a host holds back that runs nothing but these."""
    return [name for name in WORK if name not in names]


class OrderHost(Host):
    """Delivers what waits to one process of the app with registration on."""

    queues = ("orders",)
    most_rounds = 80

    def __init__(self, app, **options):
        super().__init__(app, **options)
        self._begun = set()

    def run(self):
        """Deliver until nothing waits that this host does not hold back; then the process does what it put off."""
        super().run()
        self._app.settle_down()

    def _round(self):
        worked = [self._deliver(name, queue) for name, queue in self._queues.items()]
        worked.append(self._signal())
        worked += [self._receive(entity, *entry) for entity, entry in ENTITIES.items()]
        worked += [self._receive(LANE, "sell", "sell"), *map(self._take, SENDERS)]
        return any(worked)

    def _entry(self, name, body):
        """Return the stage of a message of the queue `orders`, and the function."""
        return json.loads(body)["sluice"]["kind"], self._app.part.verbs.take

    def _receive(self, entity, stage, verb):
        letters = [] if entity in self._hold_back else self._waiting(entity)
        if not letters:
            return False
        self._world.bus.deliver(letters)
        self._plan.stage = stage
        try:
            getattr(self._app.part, verb)([letter.body.encode() for letter in letters])
        except Exception as error:  # noqa: BLE001 - the host knows no kinds of failure
            self._world.journal.note("raised", stage, type(error).__name__)
            self._world.clock.advance(seconds=5)
            return True
        self._complete(letters)
        return True

    def _take(self, entity):
        """Deliver what shops and banks sent, message by message."""
        letters = [] if entity in self._hold_back else self._world.bus.waiting(entity)
        for letter in letters:
            self._world.bus.deliver([letter])
            self._plan.stage = letter.kind
            body, queue = letter.body.encode(), str(Destination("bus", entity))
            try:
                self._app.part.verbs.take(
                    Delivery(queue=queue, message_id=letter.id, body=body, count=letter.deliveries)
                )
            except Exception as error:  # noqa: BLE001 - the host knows no kinds of failure
                self._world.journal.note("raised", self._plan.stage, type(error).__name__)
                self._world.clock.advance(seconds=5)
            else:
                self._complete([letter])
        return bool(letters)

    def _waiting(self, entity):
        """Return the next batch: of one session, if they have one."""
        found = self._world.bus.waiting(entity, self._world.clock.now().timestamp())
        batch = (
            list(next(groupby(found, lambda letter: letter.session))[1])
            if entity in {LANE, STARTS_IN_ORDER} and found
            else found
        )
        most = MOST if entity in self._begun else 1
        self._begun.add(entity)
        return batch[:most]
