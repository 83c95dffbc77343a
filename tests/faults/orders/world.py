"""An installation with registration, its customers and publishers, and a process of the app with registration on."""

import asyncio
import json
from contextlib import suppress

from capabilities.registration.entities import CONFERENCES as SHOP, ORDERS, PAYMENTS
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.views import ORDER_MODEL
from shared.app import Stores
from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.capability import DeadLetter
from shared.readmodels import Migration
from shared.settings import Settings
from tests.faults.orders.host import ENTITIES, LANE, SENDERS, OrderHost
from tests.faults.orders.invariants import GATE
from tests.faults.plan import KilledError, Plan
from tests.faults.world import Process, World

SETTINGS = Settings.parse(
    {
        STORAGE_CONNECTION: "this run's",
        BUS_CONNECTION: "this run's",
        "SLUICE_TICK_SCHEDULE": "by hand",
        "SLUICE_CAPABILITIES": "registration",
        "SLUICE_SEAT_LANES": "1",
        # So few that a sale of these runs keeps one.
        "SLUICE_SNAPSHOT_EVENTS": "10",
    }
)
CONFERENCE = "c1"
CODE, KEY = "opensesame", "8e03978e-40d5-43e8-bc93-6894a57f9324"


class OrderWorld(World):
    """One installation that sells seats."""

    settings = SETTINGS
    queues = ("orders", "orders-poison")

    def app(self, plan=None):
        """Return a process of the app."""
        return OrderProcess(self, plan or Plan(note=self.journal.note))

    def own(self):
        """Return the stores of registration without faults."""
        return RegistrationStores(Stores(self.observer(), clock=self.clock))

    def drop(self, kind, **fields):
        """Drop a message into the queue of its kind, as customers, shops and banks do."""
        message = json.dumps({"sluice": {"v": 1, "kind": kind, **fields}})
        if kind in {"place_order", "update_order"}:
            self.observer().queues.get_queue_client(ORDERS).send_message(message, time_to_live=-1)
        else:
            self.bus.send(PAYMENTS if kind == "payment" else SHOP, kind, message)
        self.journal.note("dropped", kind, fields)

    def pay(self, order, number="1", amount="500.00", outcome="completed"):
        """Drop a payment."""
        self.drop("payment", id=f"pay-{number}-{order}", order=order, outcome=outcome, amount=amount)

    def rows(self):
        """Return the keys of all rows of the agenda that lead to work, now or later."""
        table = self.observer().tables.get_table_client("agenda")
        return [row["RowKey"] for row in table.list_entities(select=["RowKey"]) if not row["RowKey"].startswith("~")]

    def unfinished(self):
        """Name everything that still waits for somebody."""
        due = [f"row {key}" for key in self.rows()]
        letters = [f"letter to {entity}" for entity in (*ENTITIES, LANE, *SENDERS) if self.bus.waiting(entity)]
        return super().unfinished() + due + letters


class OrderProcess(Process):
    """One process of the app with registration on, and what people do by it."""

    def host(self, **options):
        """Return the host of this process."""
        return OrderHost(self, **options)

    @property
    def part(self):
        """What the triggers of registration call."""
        (part,) = self.app.parts.built
        return part.verbs

    def post(self, order, seats=1, gate=None, key=None):
        """Send a new order, as a customer does with a code or a key, and note the answer."""
        self.plan.stage = "post"
        fields = {"order": order, "conference": CONFERENCE, "seats": {"a": seats}}
        fields |= ({} if key else {"access_code": CODE}) | ({"gate": gate} if gate else {})
        self.world.journal.note("asked", order)
        answer = asyncio.run(self.part.desk.place(json.dumps(fields).encode(), key))
        self.world.journal.note("answered", order, answer.status, answer.body.decode())
        return answer

    def change(self, order, version, seats):
        """Want other seats, as a customer does, and note the answer."""
        self.plan.stage = "change"
        body = json.dumps({"seats": {"a": seats}}).encode()
        answer = asyncio.run(self.part.desk.change(order, CODE, f'"{version}"', body))
        self.world.journal.note("changed", order, answer.status, answer.body.decode())
        return answer

    def open_gate(self):
        """Open the gate as an operator does."""
        self.plan.stage = "release"
        self.stores.gate_operator.open(GATE, by="ann")

    def migration(self, target=2):
        """Return the migration of the view of orders, whose waits move the clock."""
        self.plan.stage = "migrate"
        stores = RegistrationStores(self.stores).views
        return Migration(ORDER_MODEL, target, stores, pause=lambda seconds: self.world.clock.advance(seconds=seconds))

    def bury(self, entity, letter):
        """Park a message that the bus gave up."""
        self.plan.stage = "park"
        self.part.verbs.park([DeadLetter(entity, letter.id, letter.body.encode(), "MaxDeliveryCountExceeded")])

    def settle_down(self):
        """Remove the rows of the agenda that are done, as the process does some seconds later."""
        self.plan.stage = "later"
        self.part.verbs.close()

    def close(self):
        """End in order, or as a process ends that was killed: with nothing more sent."""
        self.plan.catch_up()
        self.plan.stage = "later"
        with suppress(KilledError):
            self.app.close()
        self.connections.close()
