"""Two orders, their processes and the seats of one conference, with messages that double, vanish and overtake each other.

The decisions are the product's own. A state is numbers only: each local state and each message has one, and what follows
from a pair of them is asked once. A crash after the effects of a message is a message that stays, as a double does.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import msgspec

from capabilities.registration import order_messages as to_order, order_messages as to_seats, seats, selling
from capabilities.registration.order import OrderPhase
from capabilities.registration.order_messages import PaymentOutcome
from capabilities.registration.order_process import OrderProcess, OrderProcessState, OrderStage
from capabilities.registration.seats import KnownReservations, ReservationEnding, SeatsBalanceError
from shared.errors import RefusedError
from tests.model.search import replaced, walk

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROCESS = OrderProcess(window=timedelta(minutes=15), buffer=timedelta(minutes=1), most_seats=20)
DUE = NOON + PROCESS.window + PROCESS.buffer
#: The time of each phase: before the end of the window, after it, and when generations may be forgotten.
TIMES = (NOON, DUE, DUE + timedelta(minutes=10))
PRICES = {"x": Decimal("5.00"), "y": Decimal("7.00")}
ORDERS = ("a", "b")
#: The others are stored where they come from, until they are sent.
LOSABLE = ("reserve_seats", "seats_reserved", "reservation_refused", "payment")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The seats of type x, what the orders want, what the first one wants after its update, and what goes wrong."""

    quota: int
    wants: tuple = ({"x": 1}, {"x": 1})
    then: dict | None = None
    doubles: int = 2
    losses: int = 0
    #: Payments of each order.
    payments: tuple = (1, 1)
    #: Whether the seats may get so late that they forget what ended.
    forgets: bool = False


class State(NamedTuple):
    """The numbers of the seats, of both processes and of the messages on their way; the rest counts."""

    #: The processes of both orders, then the seats.
    locals: tuple
    bag: tuple
    doubles: int
    losses: int
    payments: tuple
    may_update: bool
    #: The clocks of the processes and of the seats differ.
    phases: tuple = (0, 0, 0)


class World:
    """The local states and messages that were met, by number, and all that follows from each pair of them."""

    def __init__(self, case):
        self.case, self.things, self.numbers = case, [], {}
        self.known, self.dead, self.addresses, self.asked, self.harms = {}, {}, {}, {}, {}
        #: How often each rule was used.
        self.counts = Counter()

    def number(self, thing):
        """Return the number of a local state or a message."""
        key = msgspec.json.encode(thing, order="deterministic")
        if key not in self.numbers:
            self.numbers[key] = len(self.things)
            self.things.append(thing)
        return self.numbers[key]

    def start(self):
        """Return the first state: a conference, and two orders on their way to it."""
        offer = to_seats.SetConference(
            conference="c", id="1", seats={"x": to_seats.SeatType(PRICES["x"], self.case.quota)}
        )
        state = seats.Seats().initial()
        for event in selling.decide(state, offer, NOON).events:
            state = seats.fold(state, event)
        first, second = (self._place(index) for index in (0, 1))
        # The second order is there already: which of them comes first is of no meaning.
        waiting, sent = self._decide(OrderProcessState(), self.things[second], NOON)
        return State(
            locals=(self.number(OrderProcessState()), waiting, self.number(state)),
            bag=tuple(sorted((first, *sent))),
            doubles=self.case.doubles,
            losses=self.case.losses,
            payments=self.case.payments,
            may_update=self.case.then is not None,
        )

    def _place(self, index):
        order, wanted = ORDERS[index], self.case.wants[index]
        body = to_order.NewOrder(order=order, number=index, conference="c", seats=wanted, prices=PRICES)
        return self.to_order(index, body)

    def to_order(self, index, body, at=NOON, id_=""):
        """Return the number of a message to an order."""
        return self.number((index, to_order.incoming(body, at, id_)))

    def follow(self, state):
        """Yield every state that one step of anyone leads to."""
        bag = state.bag
        for place, message in enumerate(bag):
            if not place or message != bag[place - 1]:
                yield from self._deliver(state, message, bag[:place] + bag[place + 1 :])
        yield from self._ask(state)
        mine, _, of_seats = state.phases
        if not mine:
            yield state._replace(phases=(1, 1, of_seats))
        if not of_seats or (self.case.forgets and mine and of_seats == 1):
            yield state._replace(phases=(mine, mine, of_seats + 1))

    def _deliver(self, state, message, rest):
        target, kind = self.addressed(message)
        if kind == "expire" and not state.phases[0]:
            return
        places, bag, doubles, *others = state
        local = places[target]
        found, sent = self._act(target, local, message, state.phases[target])
        if found != local:
            places = replaced(places, target, found)
        # Built whole: to replace the parts by their names takes a good part of a search.
        yield State(places, tuple(sorted(rest + sent)) if sent else rest, doubles, *others)
        if doubles and (sent or found != local):
            yield State(places, tuple(sorted(bag + sent)) if sent else bag, doubles - 1, *others)
        if state.losses and kind in LOSABLE:
            yield state._replace(bag=rest, losses=state.losses - 1)

    def without_dead(self, state):
        """Return the state without messages that change nothing for a process or a reservation that has ended."""
        dead, places, phases = self.dead, state.locals, state.phases
        kept = []
        for message in state.bag:
            target, _ = self.addressed(message)
            key = (places[target], message, phases[target])
            if key not in dead:
                dead[key] = self._is_dead(target, *key)
            if not dead[key]:
                kept.append(message)
        return state if len(kept) == len(state.bag) else state._replace(bag=tuple(kept))

    def _is_dead(self, target, local, message, phase):
        has_ended = self._has_ended(self.things[local], self.things[message])
        return has_ended and self._act(target, local, message, phase) == (local, ())

    def _has_ended(self, local, message):
        if isinstance(local, OrderProcessState):
            return local.stage is OrderStage.COMPLETED
        entry = local.reservations.get(message.body["order"])
        return entry is not None and not entry.holds_seats

    def addressed(self, message):
        """Return the place of the one that takes a message, and the message's kind."""
        if message not in self.addresses:
            thing = self.things[message]
            self.addresses[message] = (thing[0], thing[1].kind) if isinstance(thing, tuple) else (2, thing.kind)
        return self.addresses[message]

    def _act(self, target, local, message, phase):
        key = (local, message, phase)
        if key not in self.known:
            act = self._sell if target == 2 else self._decide
            self.known[key] = act(self.things[local], self.things[message], TIMES[phase])
        return self.known[key]

    def _sell(self, state, command, now):
        """Return the seats after a command, and the answers."""
        typed = to_seats.read_seat_command(command)
        skip = selling.skip_reason(state, typed, now)
        entry = state.reservations.get(typed.order)
        self.counts[f"seats: {skip}"] += 1
        self.counts["tombstone used"] += skip is selling.Skip.KNOWN and not entry.holds_seats
        sent = []
        for event in selling.decide(state, typed, now).events:
            state = seats.fold(state, event)
            self.counts[event.kind] += 1
            if reply := to_order.read_reply(event):
                index = ORDERS.index(reply[0].removeprefix("order-"))
                sent.append(self.number((index, replace(reply[1], at=NOON))))
        # It is of no meaning which of its two mappings has an entry.
        merged = KnownReservations(dict(sorted(state.reservations.pairs())))
        return self.number(replace(state, reservations=merged)), tuple(sent)

    def _decide(self, state, message, now):
        """Return the process after a message, and what it sent."""
        index, incoming = message
        try:
            decision = PROCESS.decide(state, incoming, now)
        except RefusedError as error:
            self.counts[f"refused: {error.reason}"] += 1
            return self.number(state), ()
        self.counts[f"reply: {decision.reply}"] += 1
        sent = [self.number(command) for command in decision.commands]
        sent += [self.to_order(index, to_order.Expire(), timeout.due) for timeout in decision.timeouts]
        return self.number(_without_versions(decision.state)), tuple(sent)

    def _ask(self, state):
        """Yield what customers may do: change the first order, and pay what they see."""
        for index in (0, 1):
            left, may_update = state.payments[index], index == 0 and state.may_update and not state.phases[0]
            update, payment = self._asked(index, state.locals[index], left, may_update)
            if update is not None:
                yield _sent(state, update)._replace(may_update=False)
            if payment is not None:
                yield _sent(state, payment)._replace(payments=replaced(state.payments, index, left - 1))

    def _asked(self, index, local, left, may_update):
        """Return the numbers of the change and of the payment that a customer sends to an order as it is, or None."""
        key = (index, local, left, may_update)
        if key not in self.asked:
            process, update, payment = self.things[local], None, None
            if process.order is not None and process.stage is not OrderStage.COMPLETED:
                if may_update:
                    body = to_order.Update(version=0, seats=self.case.then, prices=PRICES)
                    update = self.to_order(index, body, id_="u")
                if left:
                    body = to_order.Pay(outcome=PaymentOutcome.COMPLETED, amount=process.order.total)
                    payment = self.to_order(index, body, id_=f"p{left}")
            self.asked[key] = update, payment
        return self.asked[key]

    def harm(self, state):
        """Say what is wrong, or nothing."""
        # Timeouts are stored: where nothing is on its way any more, they were delivered.
        key = (state.locals, bool(state.phases[0] and not state.bag), state.phases[2] == len(TIMES) - 1)
        if key not in self.harms:
            self.harms[key] = self._harm(*key)
        return self.harms[key]

    def _harm(self, places, is_at_rest, may_forget):
        *processes, sold = (self.things[number] for number in places)
        wrong = [_harm_of(process, sold, may_forget=may_forget) for process in processes]
        return next(filter(None, wrong), _harm_at_rest(processes, sold) if is_at_rest else "")


def _harm_of(process, sold, *, may_forget):
    order = process.order
    if order is None or process.stage is not OrderStage.COMPLETED:
        return ""
    settled = {one.id for one in order.unsettled} | ({order.paid.id} if order.paid else set())
    if {key.removeprefix("payment:") for key in process.inbox if key.startswith("payment:")} - settled:
        return "a payment is nowhere"
    if order.phase is not OrderPhase.CONFIRMED:
        return "a payment counts for nothing" if order.paid else ""
    if order.total and (order.paid is None or order.paid.amount != order.total):
        return "confirmed for another amount"
    entry = sold.reservations.get(order.order)
    if entry is None:
        return "" if may_forget else "a confirmed order has no seats"
    is_its = entry.granted == order.reserved and entry.ending is not ReservationEnding.CANCELLED
    return "" if is_its else "a confirmed order has not its seats"


def _harm_at_rest(processes, sold):
    if any(process.order and process.stage is not OrderStage.COMPLETED for process in processes):
        return "open for good"
    if seats.check_balance(sold) or any(balance.reserved for balance in sold.types.values()):
        return "seats leaked"
    confirmed = sum(
        sum(process.order.reserved.values()) for process in processes if process.order.phase is OrderPhase.CONFIRMED
    )
    return "" if confirmed == sold.types["x"].confirmed else "sold seats of no order"


def _sent(state, message):
    return state._replace(bag=tuple(sorted((*state.bag, message))))


def _without_versions(state):
    """Return the process without what only counts events."""
    if state.order is None:
        return state
    unsettled = tuple(replace(one, at=NOON) for one in state.order.unsettled)
    order = replace(state.order, stream_version=0, version=0, skipped=0, unsettled=unsettled)
    return replace(state, order=order)


def search(case):
    """Search every state for harm. Returns what was found, and how often each rule was used."""
    world = World(case)

    def look(state):
        try:
            return world.harm(state), list(world.follow(state))
        except SeatsBalanceError as error:
            return f"balance: {error}", []

    return walk(world.start(), world.without_dead, look), world.counts
