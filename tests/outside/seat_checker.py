"""Adds up seats and money from outside: what publishers sent, against the events and the answers that anybody may read.

It knows docs/formats.md and imports nothing of the project, so that it cannot share a mistake with it.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

#: The states of an order that holds seats.
HOLDING = ("reserved", "partially_reserved")


@dataclass
class Conference:
    """The seats of one conference, added up from its events: numbers by type, or by order and type."""

    name: str
    quota: dict = field(default_factory=dict)
    price: dict = field(default_factory=dict)
    held: dict = field(default_factory=dict)
    sold: dict = field(default_factory=dict)

    def free(self, name):
        """Return how many seats of a type nobody has."""
        taken = sum(seats.get(name, 0) for book in (self.held, self.sold) for seats in book.values())
        return self.quota.get(name, 0) - taken

    def read(self, event):
        """Take an event, and yield what is wrong with it."""
        body, where = event["body"], f"conference {self.name}, version {event['version']}"
        how = {"conference_set": self._set, "seats_added": self._resize, "seats_removed": self._resize}
        for problem in how.get(event["kind"], self._move)(event["kind"], body):
            yield f"{where}: {problem}"
        said = body.get("remaining") or {of: offer["remaining"] for of, offer in body.get("seats", {}).items()}
        for of, remaining in said.items() if event["kind"] != "reservation_refused" else ():
            if self.free(of) != remaining or remaining < 0:
                yield f"{where}: {remaining} of {of} are said to remain, {self.free(of)} do"

    def _set(self, _, body):
        for of, offer in body["seats"].items():
            if self.quota.setdefault(of, offer["quota"]) != offer["quota"]:
                yield f"the quota of {of} became {offer['quota']} without a word"
            self.price[of] = offer["price"]

    def _resize(self, kind, body):
        for of, number in body["seats"].items():
            self.quota[of] += number if kind == "seats_added" else -number
            if self.quota[of] != body["quota"][of]:
                yield f"the quota of {of} is said to be {body['quota'][of]}, it is {self.quota[of]}"

    def _move(self, kind, body):
        order = body["order"]
        if kind == "seats_reserved":
            self.held[order] = some(body["granted"])
        elif kind in {"reservation_cancelled", "reservation_confirmed"}:
            had = self.held.pop(order, {})
            if some(body["released" if kind == "reservation_cancelled" else "confirmed"]) != had:
                yield f"{kind} of {body}, order {order} held {had}"
            if kind == "reservation_confirmed":
                self.sold[order] = had


@dataclass
class Order:
    """One order, added up from its events."""

    name: str
    number: int = 0
    conference: str = ""
    state: str = ""
    wanted: dict = field(default_factory=dict)
    prices: dict = field(default_factory=dict)
    seats: dict = field(default_factory=dict)
    total: Decimal = Decimal()
    paid: tuple | None = None
    unsettled: list = field(default_factory=list)
    reason: str | None = None
    version: int = 0

    def read(self, event):
        """Take an event, and yield what is wrong with it."""
        self.version, body = event["version"], event["body"]
        yield from getattr(self, f"_{event['kind'].removeprefix('order_')}")(body) or ()

    def _placed(self, body):
        self.number, self.conference, self.wanted = body["number"], body["conference"], body["seats"]
        self.prices, self.state = dict(body["prices"]), "placed" if body.get("expires_at") else "held"
        if body["order"] != self.name:
            yield f"order {self.name}: its first event is that of {body['order']}"

    def _started(self, _):
        self.state = "placed"

    def _updated(self, body):
        self.wanted, self.prices = body["seats"], {**self.prices, **body["prices"]}
        self.state = "held" if self.state == "held" else "placed"

    def _totals_calculated(self, body):
        self.total = Decimal(body["total"])
        for of, line in body["lines"].items():
            if Decimal(line["amount"]) != line["seats"] * Decimal(self.prices[of]) or line["price"] != self.prices[of]:
                yield f"order {self.name}: {line['seats']} of {of} at {self.prices[of]} are not {line['amount']}"
        if self.total != sum((Decimal(line["amount"]) for line in body["lines"].values()), Decimal()):
            yield f"order {self.name}: its lines are not {self.total} together"

    def _reserved(self, body):
        yield from self._got("reserved", some(body["granted"]))

    def _partially_reserved(self, body):
        yield from self._got("partially_reserved", some(body["granted"]))

    def _got(self, state, seats):
        self.state, self.seats = state, seats
        if any(number > self.wanted.get(of, 0) for of, number in seats.items()):
            yield f"order {self.name}: it got {seats}, it wants {self.wanted}"
        if (seats == self.wanted) != (state == "reserved"):
            yield f"order {self.name}: it is {state} with {seats} of {self.wanted}"

    def _rejected(self, body):
        self.state, self.seats, self.reason = "rejected", {}, body["reason"]

    def _expired(self, _):
        self.state, self.seats = "expired", {}

    def _confirmed(self, body):
        self.state = "confirmed"
        if (some(body["seats"]), Decimal(body["total"])) != (self.seats, self.total):
            yield f"order {self.name}: it is confirmed with {body}, it had {self.seats} for {self.total}"

    def _payment_received(self, body):
        self.paid = body["id"], body["amount"]

    def _payment_unsettled(self, body):
        self.unsettled.append((body["id"], body["amount"], body["reason"]))
        # One that was to confirm the order, and could not, counts no longer.
        self.paid = None if self.paid and self.paid[0] == body["id"] else self.paid

    def differs(self, answer):
        """Yield where the answer to a GET is not what the events make."""
        if not answer:
            yield f"order {self.name} is in the events, and is not shown"
            return
        paid, told = (
            self.paid and self.paid[1],
            [(one["id"], one["amount"], one["reason"]) for one in answer["unsettled"]],
        )
        added = [
            self.name,
            self.number,
            self.conference,
            self.state,
            self.wanted,
            self.seats,
            f"{self.total:.2f}",
            paid,
        ]
        added += [self.reason, self.version, self.unsettled]
        names = [
            "order",
            "number",
            "conference",
            "state",
            "requested",
            "reserved",
            "total",
            "paid",
            "reason",
            "version",
        ]
        for name, shown, wanted in zip([*names, "unsettled"], [*map(answer.get, names), told], added, strict=True):
            if shown != wanted:
                yield f"order {self.name}: it shows {name} {shown}, its events make {wanted}"

    def unlike(self, conference):
        """Yield where its seats and its money are not those of its conference."""
        held, sold = (book.get(self.name, {}) for book in (conference.held, conference.sold))
        wanted = (self.seats if self.state in HOLDING else {}), (self.seats if self.state == "confirmed" else {})
        if (held, sold) != wanted:
            yield f"order {self.name}: it is {self.state} with {self.seats}, held are {held}, sold are {sold}"
        owed = sum((number * Decimal(self.prices[of]) for of, number in self.seats.items()), Decimal())
        if self.seats and self.total != owed:
            yield f"order {self.name}: its seats are {owed} together, its total is {self.total}"
        if self.state == "confirmed" and Decimal(self.paid[1] if self.paid else 0) != owed:
            yield f"order {self.name}: its seats are sold for {owed}, {self.paid} was paid"


class Books:
    """All that is known: what was sent, each event once, and what is wrong with the telling itself."""

    def __init__(self, sent, told):
        """Read what was sent, and what subscribers were told. A copy must be the same, and no version may be missing."""
        sent, self.problems = list(sent), []
        self.orders = {one["order"] for one in sent if one["kind"] == "place_order"}
        paid = (one for one in sent if one["kind"] == "payment" and one["outcome"] == "completed")
        self.payments = {one["id"]: (one["order"], Decimal(one["amount"])) for one in paid}
        events, ranges = defaultdict(dict), defaultdict(set)
        for stream in (stream for message in told for stream in message["streams"]):
            ranges[stream["home"]].add((stream["first"], stream["last"]))
            for event in stream["events"]:
                if not stream["first"] <= event["version"] <= stream["last"]:
                    self.problems += [f"{stream['home']}: version {event['version']} is outside of its range"]
                if events[stream["home"]].setdefault(event["version"], event) != event:
                    self.problems += [f"{stream['home']}: version {event['version']} was told in two ways"]
        self.streams = {home: [known[version] for version in sorted(known)] for home, known in events.items()}
        for home, found in ranges.items():
            reached = 0
            for first, last in sorted(found):
                if first > reached + 1:
                    self.problems += [f"{home}: nothing was told of versions {reached + 1} to {first - 1}"]
                reached = max(reached, last)

    def events(self, kind):
        """Return the events by the id of a kind of stream."""
        return {home.removeprefix(kind): found for home, found in self.streams.items() if home.startswith(kind)}


def breaches(books, answers, shown):
    """Yield what is wrong. `answers` are those of GET by order, `shown` those by conference; nothing is under way."""
    yield from books.problems
    conferences, orders, told = {}, {}, books.events("order-")
    for name, events in books.events("seats-").items():
        conferences[name] = seats = Conference(name)
        yield from (problem for event in events for problem in seats.read(event))
        added = {
            of: {"price": seats.price[of], "quota": seats.quota[of], "remaining": seats.free(of)} for of in seats.quota
        }
        if shown[name]["seats"] != added:
            yield f"conference {name}: it shows {shown[name]['seats']}, its events make {added}"
    for name in sorted(books.orders ^ told.keys()):
        yield f"order {name}: {'nothing tells of it' if name in books.orders else 'nobody sent it'}"
    for name in sorted(books.orders & told.keys()):
        orders[name] = order = Order(name)
        yield from (problem for event in told[name] for problem in order.read(event))
        yield from order.differs(answers[name])
        yield from order.unlike(conferences.get(order.conference, Conference("")))
    numbers = Counter(order.number for order in orders.values())
    yield from (f"number {number}: {times} orders have it" for number, times in numbers.items() if times > 1)
    for one in conferences.values():
        yield from (
            f"conference {one.name}: {name} has seats" for name in sorted({*one.held, *one.sold} - orders.keys())
        )
    yield from _money(books.payments, orders)


def _money(payments, orders):
    kept = Counter()
    for name, order in orders.items():
        for id_, amount in [*([order.paid] if order.paid else []), *(one[:2] for one in order.unsettled)]:
            kept[id_] += 1
            if payments.get(id_) != (name, Decimal(amount)):
                yield f"payment {id_}: order {name} has {amount} of it, which nobody sent"
    yield from (f"payment {id_}: it is kept {kept[id_]} times" for id_ in payments if kept[id_] != 1)


def some(seats):
    """Return the types of which there are some."""
    return {of: number for of, number in seats.items() if number}
