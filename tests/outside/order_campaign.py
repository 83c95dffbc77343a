"""Sells seats to honest people, has everybody try what is not theirs, and writes down all that came of it for the checker."""

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.outside import order_cases, order_messages, order_strangers
from tests.outside.customer import Customer
from tests.outside.order_cases import CONFERENCE, OWN, SEATS, VICTIMS
from tests.outside.people import Operator, Publisher
from tests.outside.subscriber import OWN as SUBSCRIPTIONS, Subscriber
from tests.waiting import until
from tools.local.stack import StackOptions, running

#: Keys and codes of honest people: nothing else of the run has these words.
KEY, CODE, OWN_CODE = "{}-Kx7Qm2Vb9Wz4Rt6Ypz", "canary-{}-5c0ffee", "the-code-of-m-own"
#: What the attacker's own order wants.
OWN_SEATS = {"half": 1}
#: Requests at a time, and guesses of one burst.
AT_ONCE, BURST = 8, 150
SETTINGS = {
    "SLUICE_CAPABILITIES": "registration,console",
    # No window ends during the run.
    "SLUICE_RESERVATION_SECONDS": "7200",
    # Azure's login, of which the requests have the header.
    "WEBSITE_AUTH_ENABLED": "True",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.5",
}


@contextmanager
def everybody(folder):
    """Start the stack with function keys, kept in this folder, and yield the campaign around it."""
    keys = folder / "keys.json"
    words = ("--auth", "--keys", str(keys))
    with (
        running(StackOptions(instances=1, settings=SETTINGS, words=words, subscriptions=SUBSCRIPTIONS)) as stack,
        Subscriber(stack.broker.connection_string) as subscriber,
        OrderCampaign(stack, json.loads(keys.read_text())["host"], subscriber) as campaign,
    ):
        yield campaign


class OrderCampaign(ExitStack):
    """Everybody, around one stack with function keys and the console."""

    def __init__(self, stack, function_key, subscriber):
        super().__init__()
        self.stack, self.subscriber = stack, subscriber
        self.site, self.operator = Customer(stack.host.base_url, function_key), Operator(stack.settings)
        self._orders = Publisher(stack.azurite, queue="orders")
        self._bus = self.enter_context(ServiceBusClient.from_connection_string(stack.broker.connection_string))
        #: What honest people sent, each secret with the words for it, and what attackers know.
        self.sent, self.secrets = [], {function_key: "the function key"}
        self._known = {"base": stack.host.base_url, "own code": OWN_CODE, "function key": function_key}
        self._first = {}

    def send(self, queue, message, name=""):
        """Drop a message, and return the id by which an operator finds it."""
        if queue == "orders":
            return self._orders.send(message).lower()
        with self._bus.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(json.dumps(message), message_id=name or None))
        return name

    def honest(self, kind, **fields):
        """Send a message as somebody who may."""
        self.sent.append({"kind": kind, **fields})
        self.send(order_messages.QUEUES[kind], {"sluice": self.sent[-1]})

    def open(self):
        """Open the sale, and let honest people order and pay."""
        self.honest("conference", id="c-1", conference=CONFERENCE, seats=SEATS)
        until(lambda: self.site.ask("GET", f"/api/conferences/{CONFERENCE}").status == 200)
        for victim in VICTIMS:
            self._place(victim)
        self._first[OWN] = self.site.place(OWN, OWN_SEATS, access_code=OWN_CODE)
        self.sent.append({"kind": "place_order", "order": OWN})
        until(lambda: all(one["state"] not in {"", "placed"} for one in self._orders_now().values()))
        for victim in VICTIMS:
            if victim.is_paid:
                total = self._orders_now()[victim.name]["total"]
                payment = {"id": f"p-{victim.name}", "order": victim.name}
                self.honest("payment", **payment, outcome="completed", amount=total)
                until(lambda name=victim.name: self._orders_now()[name]["state"] == "confirmed")
        # The conference's page follows after the orders' own: an order may be reserved that it does not have yet.
        taken = sum((Counter(victim.seats) for victim in VICTIMS if not victim.gate), Counter(OWN_SEATS))
        left = {of: offer["quota"] - taken[of] for of, offer in SEATS.items()}
        until(lambda: {of: one["remaining"] for of, one in self._seats_now().items()} == left)
        self._known |= {name: str(one["number"]) for name, one in self._orders_now().items()}

    def _place(self, victim):
        code = CODE.format(victim.name)
        given = {"access_code": code} if victim.by == "access_code" else {}
        if given:
            self.secrets[code] = f"the code of {victim.name}"
            self._known[f"code of {victim.name}"] = code
        if victim.is_message:
            self.honest("place_order", **victim.fields, **given)
            return
        first = self._first[victim.name] = self._post(victim)
        assert first.status == 202, first.body
        self.secrets[first.body["access_code"]] = f"the code of {victim.name}"
        self.sent.append({"kind": "place_order", **victim.fields})

    def _post(self, victim):
        key, code = KEY.format(victim.name), CODE.format(victim.name)
        headers = {"Idempotency-Key": key} if victim.by == "key" else {}
        self.secrets |= {key: f"the key of {victim.name}"} if headers else {}
        given = {"access_code": code} if victim.by == "access_code" else {}
        return self.site.ask("POST", "/api/orders", {**victim.fields, **given}, **headers)

    def _seats_now(self):
        return self.site.ask("GET", f"/api/conferences/{CONFERENCE}").body["seats"]

    def _orders_now(self):
        """Return each order as its customer reads it. One that is not there yet has no state."""
        names = [*(victim.name for victim in VICTIMS), OWN]
        found = {one["order"]: one for one in self.operator.asks("orders", "list", "--limit", 1000)["orders"]}
        return {name: found.get(name, {"state": ""}) for name in names}

    def run(self):
        """Have everybody try everything among each other, and return the record for the checker."""
        drops = order_messages.drops()
        asks = [*order_cases.asks(), *order_strangers.asks()]
        before = {**self._orders_now(), "the conference": self._seats_now()}
        names = {self.send(one.queue, self._fill(one.message), one.name): one.name for one in drops}
        random.Random(1).shuffle(asks)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = list(pool.map(self._ask, asks))
        wanted = {one.name for one in drops if one.reason}
        until(lambda: {name for name, _ in self._parked(names)} >= wanted)
        after = {**self._orders_now(), "the conference": self._seats_now()}
        kept = {name: (one, after[name]) for name, one in before.items()}
        kept |= {f"the answer to {one.name}": self._again(one) for one in VICTIMS if one.by and not one.is_message}
        self.subscriber.read_all()
        return {
            "asked": asked,
            "dropped": {one.name: one.reason for one in drops},
            "senders": Counter((one.who, one.reason) for one in drops),
            "parked": self._parked(names),
            "kept": kept,
            "shown": {"the log": self.stack.host.log.read_bytes(), "what is parked": self._parked_bodies()},
            "told": self.subscriber.told,
            "born": [*(victim.name for victim in VICTIMS), OWN],
            "secrets": self.secrets,
        }

    def _again(self, victim):
        """Return the first answer to an order, and that to the same request now."""
        first, again = self._first[victim.name], self._post(victim)
        return (first.status, first.body), (again.status, again.body)

    def _fill(self, value):
        text = json.dumps(value)
        for name, known in self._known.items():
            text = text.replace(f"{{{name}}}", known)
        return json.loads(text)

    def _ask(self, case):
        method, path = self._fill(case.line).split(" ", 1)
        headers = self._fill(dict(case.headers))
        body = case.body if isinstance(case.body, bytes) else self._fill(case.body)
        answer = self.site.ask(method, path, body, key=case.has_key or None, **headers)
        return {
            "who": case.who,
            "name": f"{case.who}, {case.name}",
            "sent": f"{path} {headers} {body}" + (self.site.key if case.has_key else ""),
            "status": answer.status,
            "headers": dict(answer.headers),
            "body": answer.content,
            "seconds": answer.seconds,
            **{name: getattr(case, name) for name in ("wanted", "alike", "order", "is_slow")},
        }

    def _entries(self):
        groups = self.operator.asks("parked", "list")["groups"]
        return [
            one for group in groups for one in self.operator.asks("parked", "list", group["fingerprint"])["entries"]
        ]

    def _parked(self, names):
        return [(names.get(one["message_id"], one["message_id"]), one["reason"]) for one in self._entries()]

    def _parked_bodies(self):
        bodies = (self.operator.types("parked", "show", one["job"], one["key"], "--body") for one in self._entries())
        return "\n".join(bodies).encode()

    def guess(self):
        """Try many codes at three doors, and return whether an operator was told so by now."""

        def one(number):
            code = f"guess-number-{number}"
            (
                lambda: self.site.show("v-own", code),
                lambda: self.site.place("v-own", {"whole": 2}, access_code=code),
                lambda: self.site.ask(
                    "PATCH", "/api/orders/v-own", {"seats": {"half": 1}}, X_Access_Code=code, If_Match='"2"'
                ),
            )[number % 3]()

        with ThreadPoolExecutor(2 * AT_ONCE) as pool:
            list(pool.map(one, range(BURST)))
        return b"sluice.codes.tried" in self.stack.host.log.read_bytes()


def rows(record):
    """Yield a row of each sender: who, how many requests or messages, and how they were answered or parked."""
    tried = Counter()
    for one in record["asked"]:
        said = json.loads(one["body"]) if one["body"][:1] == b"{" else {}
        tried[one["who"], f"{one['status']} {said.get('reason', '')}".strip()] += 1
    tried += record["senders"]
    for who in dict.fromkeys(who for who, _ in tried):
        ends = sorted((end or "changed nothing", number) for (sender, end), number in tried.items() if sender == who)
        yield who, str(sum(number for _, number in ends)), ", ".join(f"{number} `{end}`" for end, number in ends)
