"""Seats and money from outside: a publisher's messages and requests, added up by the events and answers that all may read."""

import json
import random
from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.outside import seat_checker
from tests.outside.customer import Customer
from tests.outside.people import Publisher
from tests.outside.subscriber import OWN, Subscriber
from tests.waiting import until
from tools.local.stack import StackOptions, running

SETTINGS = {
    "SLUICE_CAPABILITIES": "registration",
    "SLUICE_RESERVATION_SECONDS": "40",
    "SLUICE_RESERVATION_BUFFER_SECONDS": "1",
}
SEATS = {
    "whole": {"price": "500.00", "quota": 9},
    "half": {"price": "249.99", "quota": 6},
    "free": {"price": "0.00", "quota": 4},
}
ORDERS = 20
ENDS = {"confirmed", "rejected", "expired"}


def code(order):
    """Return the access code of an order."""
    return f"code-of-{order}"


class Sale:
    """One run: what was sent, and what could be read afterwards."""

    def __init__(self, stack, key, subscriber):
        self.publisher = Publisher(stack.azurite, queue="orders")
        self.customer, self.subscriber = Customer(stack.host.base_url, key), subscriber
        self.bus = ServiceBusClient.from_connection_string(stack.broker.connection_string)
        self.sent, self.dice = [], random.Random(7)

    def drop(self, kind, **fields):
        """Send a message, one in five twice."""
        self.sent.append({"kind": kind, **fields})
        for _ in range(self.dice.choice((1, 1, 1, 1, 2))):
            if kind in {"place_order", "update_order"}:
                self.publisher.send({"sluice": self.sent[-1]})
                continue
            with self.bus.get_queue_sender("payments" if kind == "payment" else "conferences") as sender:
                sender.send_messages(ServiceBusMessage(json.dumps({"sluice": self.sent[-1]})))

    def place(self, number):
        """Place an order, by a message or by HTTP. Return its id, or None if it was refused."""
        wanted = {of: self.dice.randint(1, 2) for of in self.dice.sample(list(SEATS), self.dice.randint(1, 2))}
        order = {"order": f"o-{number}", "conference": "pycon", "seats": wanted, "access_code": code(f"o-{number}")}
        if number % 2:
            self.drop("place_order", **order)
        elif self.customer.ask("POST", "/api/orders", order).status == 202:
            self.sent.append({"kind": "place_order", **order})
        else:
            # The conference shows too few seats: nothing of the order is kept.
            return None
        return order["order"]

    def shown(self, order):
        """Return an order as its customer reads it, or None."""
        answer = self.customer.show(order, code(order))
        return answer.body if answer.status == 200 else None

    def go_on(self, order):
        """Change one order in four, and pay: exactly, too little, twice, or not at all."""
        found = until(lambda: (one := self.shown(order)) and one["state"] not in {"held", "placed"} and one)
        if found["state"] in ENDS:
            return
        number = int(order.removeprefix("o-"))
        if number % 4 == 0:
            before, seats = found["version"], dict.fromkeys(found["requested"], 1)
            self.drop(
                "update_order", id=f"u-{order}", order=order, version=before, seats=seats, access_code=code(order)
            )
            found = until(
                lambda: (one := self.shown(order)) and one["version"] > before and one["state"] != "placed" and one
            )
        total = found["total"]
        self.pay(order, *((total,), ("1.00",), (), (total, total))[number % 7 % 4])

    def pay(self, order, *amounts):
        """Send payments."""
        for amount in amounts:
            self.drop("payment", id=f"p-{len(self.sent)}", order=order, outcome="completed", amount=amount)

    def known(self):
        """Return all that can be read now."""
        self.subscriber.read(1.0)
        names = [one["order"] for one in self.sent if one["kind"] == "place_order"]
        return SimpleNamespace(
            sent=self.sent,
            told=self.subscriber.told,
            answers={name: self.shown(name) for name in names},
            shown={"pycon": self.customer.ask("GET", "/api/conferences/pycon").body},
        )


def breaches(known):
    """Return what is wrong."""
    return list(seat_checker.breaches(seat_checker.Books(known.sent, known.told), known.answers, known.shown))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A sale that ended: more seats were wanted than there are, some were paid, some windows ran out."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    words = ("--auth", "--keys", str(keys))
    with (
        running(StackOptions(instances=2, settings=SETTINGS, words=words, subscriptions=OWN)) as stack,
        Subscriber(stack.broker.connection_string) as subscriber,
    ):
        sale = Sale(stack, json.loads(keys.read_text())["host"], subscriber)
        sale.drop("conference", id="c-1", conference="pycon", seats=SEATS)
        until(lambda: sale.customer.ask("GET", "/api/conferences/pycon").status == 200)
        for begin in range(0, ORDERS, 5):
            some = [name for number in range(begin, begin + 5) if (name := sale.place(number))]
            for name in some:
                sale.go_on(name)
            sale.drop("add_seats", id=f"a-{begin}", conference="pycon", seats={"whole": 1})
        late = until(lambda: [name for name, one in sale.known().answers.items() if one and one["state"] == "expired"])
        sale.pay(late[0], "500.00")

        def ended():
            found = sale.known()
            return found if {one["state"] for one in found.answers.values()} <= ENDS and not breaches(found) else None

        try:
            found = until(ended)
        except AssertionError:
            # The test says what is wrong.
            found = sale.known()
    return found


def test_seats_and_money_add_up(known):
    """For every order, by the publisher's messages, the events, and the answers."""
    assert breaches(known) == []
    states = [one["state"] for one in known.answers.values()]
    assert {"confirmed", "expired"} <= set(states)
    assert len(states) > ORDERS / 2
