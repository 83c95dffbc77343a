"""2,000 random histories, a fifth of the messages doubled, in any order: the final state of a small model."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from capabilities.registration.order import OrderPhase
from capabilities.registration.order_messages import (
    Cancel,
    Confirm,
    Expire,
    NewOrder,
    Pay,
    PaymentOutcome,
    Reserve,
    SeatType,
    SetConference,
    Update,
    incoming,
    read_reply,
    read_seat_command,
)
from capabilities.registration.order_process import OrderProcess, OrderProcessState, OrderStage
from capabilities.registration.seats import Seats, check_balance
from capabilities.registration.selling import decide
from shared.errors import RefusedError

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROCESS = OrderProcess(window=timedelta(minutes=15), buffer=timedelta(minutes=1), most_seats=20)
END, DUE = NOON + PROCESS.window, NOON + PROCESS.window + PROCESS.buffer
TYPES = ("full", "half")
PRICES = {"full": Decimal("500.00"), "half": Decimal("0.10")}
#: Histories of seats, and of orders with their seats.
EACH = 1_000


def house(quota):
    """Return a conference with so many seats of each type."""
    state = Seats().initial()
    offer = SetConference(conference="c", id="1", seats={name: SeatType(PRICES[name], quota) for name in TYPES})
    for event in decide(state, offer, NOON).events:
        state = Seats().fold(state, event)
    return state


def sell(state, command):
    """Return the state after a command, and its events."""
    events = decide(state, command, NOON).events
    for event in events:
        state = Seats().fold(state, event)
    return state, events


class SmallHouse:
    """The rules of seats in their shortest form."""

    def __init__(self, quota):
        self.free, self.sold = dict.fromkeys(TYPES, quota), Counter()
        self.last, self.held = {}, {}

    def take(self, command):
        """Obey, if the generation is new."""
        order = command.order
        if self.last.get(order, 0) >= command.generation:
            return
        self.last[order] = command.generation
        former = self.held.pop(order, {})
        if isinstance(command, Confirm):
            self.sold.update(former)
            return
        for name, number in former.items():
            self.free[name] += number
        if isinstance(command, Reserve):
            self.held[order] = {name: min(number, self.free[name]) for name, number in command.seats.items()}
            for name, number in self.held[order].items():
                self.free[name] -= number


def script(chance, order):
    """Return the commands that an order sends, in their order: reserves, and perhaps an end."""
    reserves = [
        Reserve(order=order, generation=number, not_after=END, seats={name: chance.randint(1, 4) for name in picked})
        for number in range(1, chance.randint(2, 4))
        if (picked := chance.sample(TYPES, chance.randint(1, 2)))
    ]
    last = chance.choice((Cancel, Confirm, None))
    return [*reserves, *([last(order=order, generation=len(reserves) + 1, not_after=END)] if last else [])]


def shuffled(chance, messages):
    """Return the messages in any order, a fifth of them twice."""
    mixed = [*messages, *chance.sample(messages, len(messages) // 5)]
    chance.shuffle(mixed)
    return mixed


@pytest.mark.parametrize("part", range(4))
def test_seats_end_as_in_the_small_house(part):
    """With too few seats for all, whatever comes first gets them."""
    for number in range(part * EACH // 4, (part + 1) * EACH // 4):
        chance = random.Random(number)
        quota = chance.randint(0, 12)
        state, small = house(quota), SmallHouse(quota)
        for command in shuffled(chance, [one for order in "abcde" for one in script(chance, order)]):
            state, _ = sell(state, command)
            small.take(command)
        balances = {name: (one.available, one.reserved, one.confirmed) for name, one in state.types.items()}
        held = Counter()
        for seats in small.held.values():
            held.update(seats)
        assert balances == {name: (small.free[name], held[name], small.sold[name]) for name in TYPES}, number
        assert check_balance(state) == []
        known = {order: entry.generation for order, entry in state.reservations.pairs()}
        assert known == small.last, number


class Customer:
    """What one customer does, and how the order must end while there are seats for all."""

    def __init__(self, chance, number):
        self.order, self.state = f"o{number}", OrderProcessState()
        self.wants = {name: chance.randint(1, 3) for name in chance.sample(TYPES, chance.randint(1, 2))}
        self.then = {name: chance.randint(1, 3) for name in chance.sample(TYPES, 1)} if chance.random() < 0.5 else None
        self.pays = chance.choice(("the total", "too little", "late", "never"))
        self.place = incoming(
            NewOrder(order=self.order, number=number, conference="c", seats=self.wants, prices=PRICES), NOON
        )
        self.changes, self.is_changing, self.has_paid = 0, False, False

    def act(self, chance):
        """Yield what the customer sends now: a change while it waits, then a payment once the seats are there."""
        order = self.state.order
        if order is None or chance.random() < 0.3:
            return
        if self._changes_now(order):
            self.changes, self.is_changing = self.changes + 1, True
            body = Update(version=order.version, seats=self.then, prices=PRICES)
            yield incoming(body, NOON, f"change-{self.changes}")
        elif self._pays_now(order):
            self.has_paid = True
            amount = order.total - Decimal("0.01") if self.pays == "too little" else order.total
            yield incoming(Pay(outcome=PaymentOutcome.COMPLETED, amount=amount), NOON, "payment")

    def _changes_now(self, order):
        is_open = order.phase in (OrderPhase.PLACED, OrderPhase.RESERVED)
        return self.then and not self.is_changing and is_open and order.requested != self.then

    def _pays_now(self, order):
        if self.has_paid or self.pays == "never" or (self.then and order.requested != self.then):
            return False
        return order.phase is (OrderPhase.EXPIRED if self.pays == "late" else OrderPhase.RESERVED)

    def check(self, sold):
        """Hold the order to its end."""
        order, wanted = self.state.order, self.then or self.wants
        total = sum(number * PRICES[name] for name, number in wanted.items())
        is_confirmed = self.pays == "the total"
        assert order.phase is (OrderPhase.CONFIRMED if is_confirmed else OrderPhase.EXPIRED)
        assert self.state.stage is OrderStage.COMPLETED
        assert (order.requested, order.reserved) == (wanted, wanted if is_confirmed else {})
        assert order.total == total
        unsettled = {"too little": [total - Decimal("0.01")], "late": [total]}.get(self.pays, [])
        assert [one.amount for one in order.unsettled] == unsettled
        assert (order.paid.amount if order.paid else None) == (total if is_confirmed else None)
        if is_confirmed:
            sold.update(wanted)


class History:
    """Orders and seats, with one bag of messages that are delivered in any order, a fifth of them twice."""

    def __init__(self, number):
        self.chance, self.state = random.Random(number), house(1_000)
        self.customers = {f"order-o{index}": Customer(self.chance, index) for index in range(4)}
        self.bag = [(home, customer.place) for home, customer in self.customers.items()]
        self.doubled = self.delivered = 0

    def run(self, now):
        """Deliver until nothing is on its way and no customer acts."""
        idle = 0
        while self.bag or idle < 30:
            for home, customer in self.customers.items():
                self.bag += [(home, message) for message in customer.act(self.chance)]
            if not self.bag:
                idle += 1
                continue
            idle, place = 0, self.chance.randrange(len(self.bag))
            message = self.bag[place] if self._is_doubled() else self.bag.pop(place)
            self.bag += self._deliver(message, now)

    def expire(self):
        """Deliver the timeouts of the agenda."""
        self.bag += [(home, incoming(Expire(), DUE)) for home in self.customers]

    def _is_doubled(self):
        self.delivered += 1
        self.doubled += (is_doubled := self.chance.random() < 0.2)
        return is_doubled

    def _deliver(self, message, now):
        home, sent = message
        if home is None:
            self.state, events = sell(self.state, sent)
            return [reply for event in events if (reply := read_reply(event))]
        customer = self.customers[home]
        try:
            decision = PROCESS.decide(customer.state, sent, now)
        except RefusedError:
            # An answer came before the change: the customer reads the order again, and changes its new version.
            customer.is_changing = False
            return []
        customer.state = decision.state
        return [(None, read_seat_command(command)) for command in decision.commands]


@pytest.mark.parametrize("part", range(4))
def test_orders_end_as_their_customers_acted(part):
    """Paid in full: confirmed. Too little, late or never: expired, and each payment is kept."""
    doubled = delivered = 0
    for number in range(part * EACH // 4, (part + 1) * EACH // 4):
        history = History(number)
        history.run(NOON)
        history.expire()
        history.run(DUE)
        sold = Counter()
        for customer in history.customers.values():
            customer.check(sold)
        assert {name: one.confirmed for name, one in history.state.types.items()} == {
            name: sold[name] for name in TYPES
        }
        assert not any(one.reserved for one in history.state.types.values())
        doubled, delivered = doubled + history.doubled, delivered + history.delivered
    assert 0.15 < doubled / delivered < 0.25
