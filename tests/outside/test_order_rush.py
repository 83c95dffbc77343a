"""200 customers order seats over HTTP while processes are killed: no seat is sold twice, and no code is told to another one."""

import http.client
import json
import os
import random
import signal
import threading
import uuid
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.outside import order_checker, seat_checker
from tests.outside.customer import Customer
from tests.outside.people import Operator
from tests.outside.subscriber import OWN, Subscriber
from tests.waiting import until
from tools.local.stack import StackOptions, running

CUSTOMERS, QUOTA, AT_ONCE = 200, 120, 16
#: A process is killed whenever so many customers more have an answer, have it again, and have their seats.
KILL_AFTER, KILL_AGAIN, KILL_LATER = 20, 50, 150
SETTINGS = {"SLUICE_CAPABILITIES": "registration", "SLUICE_RESERVATION_SECONDS": "7200"}
#: What a connection to a process that is killed ends by.
LOST = (OSError, http.client.HTTPException)


class Kills:
    """Ends a process by SIGKILL as the work goes on, however fast the machine is."""

    def __init__(self, host, every):
        self._host, self._every, self._dice, self._lock = host, every, random.Random(3), threading.Lock()
        self._done, self.number = 0, 0

    def note(self):
        """Count a customer whose part is done, and kill if it is time."""
        with self._lock:
            self._done += 1
            if self._done % self._every == 0:
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(list(self._host.instance_pids().values())), signal.SIGKILL)
                    self.number += 1


class Buyer:
    """A customer with a key, with a code of its own, or with neither."""

    def __init__(self, number, site):
        self.site, self.wanted = site, {"whole": 1 + number % 2}
        self._names = (f"c-{number}-{attempt}" for attempt in count()) if number % 4 == 3 else None
        self.order, self.key, self.own = f"c-{number}", uuid.uuid4().hex, f"canary-{uuid.uuid4().hex}"
        self.by = ("key", "key", "code", "")[number % 4]
        self.answers, self.tried, self.overheard = [], set(), []

    def ask(self, order, *, is_own):
        """Send the order once, or what somebody else makes of it who knows its content. None: the answer was lost."""
        fields, headers = {"order": order, "conference": "pycon", "seats": self.wanted}, {}
        if is_own and self.by == "code":
            fields["access_code"] = self.own
        if is_own and self.by == "key":
            headers["Idempotency-Key"] = self.key
        if not is_own:
            headers = random.choice(({}, {"Idempotency-Key": str(uuid.uuid4())}))
        try:
            answer = self.site.ask("POST", "/api/orders", fields, **headers)
        except LOST:
            return None
        return None if answer.status >= 500 else answer

    def buy(self):
        """Send the order until it is answered. Whoever has neither key nor code takes another id each time."""

        def once():
            self.order = next(self._names) if self._names else self.order
            self.tried.add(self.order)
            return self.ask(self.order, is_own=True)

        self.answers.append(until(once))

    def repeat(self):
        """Send it again, and have somebody else do so."""
        if self.answers[0].status == 202:
            if self.by:
                self.answers.append(until(lambda: self.ask(self.order, is_own=True)))
            self.overheard.append(until(lambda: self.ask(self.order, is_own=False)))

    @property
    def code(self):
        """The code that it was told."""
        return self.answers[0].body["access_code"]


class Rush:
    """One run."""

    def __init__(self, stack, function_key, subscriber):
        self.stack, self.subscriber, self.operator = stack, subscriber, Operator(stack.settings)
        self.site, self.sent = Customer(stack.host.base_url, function_key), []
        self.bus = ServiceBusClient.from_connection_string(stack.broker.connection_string)
        self.buyers = [Buyer(number, self.site) for number in range(CUSTOMERS)]
        self.kills, self._sending = [], threading.Lock()

    def send(self, queue, kind, **fields):
        """Send a message of a shop or a bank."""
        message = {"kind": kind, **fields}
        self.sent.append(message)
        with self._sending, self.bus.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(json.dumps({"sluice": message})))

    def run(self):
        """Sell."""
        self.send("conferences", "conference", id="c-1", conference="pycon", seats={"whole": OFFER})
        until(lambda: self.site.ask("GET", "/api/conferences/pycon").status == 200)
        self._each(Buyer.buy, KILL_AFTER)
        self._each(Buyer.repeat, KILL_AGAIN)
        self._each(self._pay, KILL_LATER)
        self._each(Buyer.repeat, CUSTOMERS + 1)
        paid = {one["order"] for one in self.sent if one["kind"] == "payment"}
        until(lambda: all(one["state"] == "confirmed" for one in self.orders().values() if one["order"] in paid))
        until(lambda: not list(self.breaches()))

    def _each(self, act, every):
        kills = Kills(self.stack.host, every)

        def one(buyer):
            act(buyer)
            kills.note()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, self.buyers))
        self.kills.append(kills.number)

    def _pay(self, buyer):
        """Wait for the seats, and pay for two orders of three that have all of them."""
        if buyer.answers[0].status != 202:
            return

        def shown():
            with suppress(*LOST):
                answer = self.site.show(buyer.order, buyer.code, wait=10)
                return answer.body if answer.status == 200 and answer.body["state"] != "placed" else None

        found = until(shown)
        if found["state"] == "reserved" and found["number"] % 3:
            for _ in range(2):
                payment = {"id": f"p-{buyer.order}", "order": buyer.order}
                self.send("payments", "payment", **payment, outcome="completed", amount=found["total"])

    def orders(self):
        """Return every order as its customer reads it."""
        return {one["order"]: one for one in self.operator.asks("orders", "list", "--limit", 1000)["orders"]}

    def breaches(self):
        """Yield what does not add up, by the events and the answers."""
        self.subscriber.read(1.0)
        told = {stream["home"] for message in self.subscriber.told for stream in message["streams"]}
        known = {one.order for one in self.buyers if one.answers[0].status == 202}
        # The answer of others was lost, and some of these orders are stored all the same.
        lost = {name for one in self.buyers for name in one.tried if f"order-{name}" in told}
        sent = [*self.sent, *({"kind": "place_order", "order": name} for name in known | lost)]
        conference = self.site.ask("GET", "/api/conferences/pycon").body
        yield from seat_checker.breaches(
            seat_checker.Books(sent, self.subscriber.told), defaultdict(dict, self.orders()), {"pycon": conference}
        )


OFFER = {"price": "500.00", "quota": QUOTA}


@pytest.fixture(scope="module")
def rush(tmp_path_factory):
    """A run that ended."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    words = ("--auth", "--keys", str(keys), "--longest-pause", "1")
    with (
        running(StackOptions(instances=2, settings=SETTINGS, words=words, subscriptions=OWN)) as stack,
        Subscriber(stack.broker.connection_string) as subscriber,
    ):
        made = Rush(stack, json.loads(keys.read_text())["host"], subscriber)
        with suppress(AssertionError):
            # The tests say what is wrong.
            made.run()
        yield made


def test_no_seat_is_sold_twice(rush):
    """By the independent checker, and by the sum of all orders. Processes were killed meanwhile."""
    assert list(rush.breaches()) == []
    orders = rush.orders().values()
    taken = sum(one["reserved"].get("whole", 0) for one in orders)
    assert taken <= QUOTA
    assert Counter(one["state"] for one in orders)["confirmed"] > CUSTOMERS / 8
    assert sum(rush.kills) >= CUSTOMERS / KILL_AFTER


def test_whoever_made_a_code_gets_it_again_and_nobody_else_does(rush):
    """After every kill the same key, and the same code, get the same answer: number, total and code."""
    told = [one for one in rush.buyers if one.answers[0].status == 202]
    assert len(told) > CUSTOMERS / 4
    for one in told:
        assert {(answer.status, json.dumps(answer.body)) for answer in one.answers} == {
            (202, json.dumps(one.answers[0].body))
        }
        assert len(one.answers) == (3 if one.by else 1)
    assert {answer.body["reason"] for one in told for answer in one.overheard} <= {"order_differs", "sold_out"}
    assert {one.answers[0].body["reason"] for one in rush.buyers if one not in told} <= {"sold_out"}


def test_no_code_and_no_key_is_anywhere_else(rush):
    """In no answer to others, in no event and in no log."""
    secrets = {one.code for one in rush.buyers if one.answers[0].status == 202} | {one.key for one in rush.buyers}
    shown = {
        "answers to others": b"".join(answer.content for one in rush.buyers for answer in one.overheard),
        "events": json.dumps(rush.subscriber.told).encode(),
        "the log": rush.stack.host.log.read_bytes(),
        "what is parked": json.dumps(rush.operator.asks("parked", "list")).encode(),
    }
    assert [where for where, content in shown.items() if list(order_checker.leaks(secrets, content))] == []
