"""Orders that go on at a steady rate, and readers that judge every answer, while a read model's version changes.

Every read must find its order, as the order's events up to the version of the answer make it, and at least as new as the
last projection that had ended before the read began.
"""

import random
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from capabilities.registration import order as bodies
from capabilities.registration.conference_views import OrderViews
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.order import calculate, event_of, fold_order, order_home
from capabilities.registration.views import ORDER_MODEL
from shared.app import Stores
from shared.azure import Connections
from shared.processes import Commit, EventRange

PRICES = {"a": Decimal("5.00"), "b": Decimal("7.50")}
#: Threads that place orders, each the owner of its own, and threads that read them.
WRITERS, READERS = 8, 3
#: Seconds between two reads of one thread: readers that never rest would take the machine from the orders.
REST = 0.02


class World:
    """The orders of one installation, and how far each is projected."""

    def __init__(self, settings, first):
        self.settings, self.first, self.stop, self.counts = settings, first, threading.Event(), Counter()
        #: The version that every answer must show now. None while a switch becomes known.
        self.shown, self.threads, self.began = 1, [], 0.0
        self.events, self.projected, self.faults = {}, {}, []
        self.stores = [RegistrationStores(Stores(Connections.parse(settings))) for _ in range(2)]
        self.projectors = [one.views.projector(ORDER_MODEL) for one in self.stores]
        for number in range(1, first + 1):
            self.place(number)

    def start(self, rate):
        """Let orders and readers go on until `end`."""
        writers = [threading.Thread(target=self.live, args=[own, rate]) for own in range(WRITERS)]
        self.threads = writers + [threading.Thread(target=self.read) for _ in range(READERS)]
        self.began = time.monotonic()
        for one in self.threads:
            one.start()

    def end(self):
        """Stop all of them, and note the rate that was reached."""
        self.stop.set()
        self.rate = self.counts["placed"] / (time.monotonic() - self.began)
        for one in self.threads:
            one.join()

    def place(self, number):
        """Place an order."""
        body = bodies.OrderPlaced(f"o{number}", number, "c", {"a": 2, "b": 1}, PRICES, datetime.now(UTC))
        self.happen(order_home(f"o{number}"), [body, calculate(body.seats, PRICES)], {"number": number})

    def happen(self, home, bodies_of, fields=None):
        """Have events happen, and be projected by one of two processes."""
        now, expected = datetime.now(UTC), len(self.events.get(home, ()))
        events = tuple(event_of(body, now) for body in bodies_of)
        own = random.choice(self.stores)
        own.homes.commit(Commit(home=home, aggregate="order", expected=expected, events=events, fields=fields))
        stored = tuple(replace(one, version=expected + n + 1) for n, one in enumerate(events))
        self.events[home] = (*self.events.get(home, ()), *stored)
        random.choice(self.projectors).project([EventRange(home, expected + 1, expected + len(stored), stored)])
        self.projected[home] = expected + len(stored)
        self.counts["events"] += len(stored)

    def live(self, own, rate):
        """Place this writer's share of the orders, each at its time, and have the seats of one of them answered."""
        began = time.monotonic()
        for beat in range(1_000_000):
            if self.stop.wait(max(0.0, began + (beat * WRITERS + own) / rate - time.monotonic())):
                return
            try:
                number = self.first + beat * WRITERS + own + 1
                self.place(number)
                earlier = order_home(f"o{random.choice(range(number, 0, -WRITERS))}")
                self.happen(earlier, [bodies.OrderReserved({"a": random.randint(0, 2), "b": 1})])
            except Exception as error:  # noqa: BLE001 - told at the end
                self.faults.append(f"live: {error!r}")
                return
            self.counts["placed"] += 1

    def read(self):
        """Read orders until the end, each by its id or by its number, with stores of its own."""
        own = RegistrationStores(Stores(Connections.parse(self.settings)))
        views = OrderViews(own.views.reader(ORDER_MODEL), own.homes, self, own.clock)
        while not self.stop.wait(REST):
            home, shown = random.choice(list(self.projected)), self.shown
            least, number = self.projected[home], int(home.removeprefix("order-o"))
            try:
                found = views.find(f"o{number}") if random.random() < 0.5 else views.find_numbered(number)
            except Exception as error:  # noqa: BLE001 - told at the end
                self.faults.append(f"{home}: {error!r}")
                continue
            self.counts["reads"] += 1
            version = 1 if found is None or found.placed_at is None else 2
            self.counts[f"reads of version {version}"] += 1
            if shown == self.shown and shown not in (None, version):
                self.faults.append(f"{home}: shows version {version} of the model, it must be {shown}")
            if fault := self.judge(home, found, least):
                self.faults.append(f"{home}: {fault}")

    def find(self, number):
        """Lead from a number to its home, as the agenda does."""
        return order_home(f"o{number}")

    def judge(self, home, found, least):
        """Return the fault of an answer, or nothing."""
        if found is None:
            return "missing"
        if found.order.version < least:
            return f"shows version {found.order.version} after {least} was projected"
        state = None
        for event in self.events[home][: found.order.version]:
            state = fold_order(state, event)
        same = replace(found.order, stream_version=state.stream_version) == state
        return "" if same and found.placed_at in (None, self.events[home][0].at) else "mixed"
