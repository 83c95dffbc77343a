"""The table of an order's states and messages in docs/registration.md: each cell is decided by the code itself."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from capabilities.registration.order import BODIES, PUBLIC, ReservationRefused, SeatsReserved
from capabilities.registration.order_messages import Expire, NewOrder, Pay, PaymentOutcome, StartOrder, Update, incoming
from capabilities.registration.order_process import OrderProcess, OrderProcessState, OrderStage
from shared.errors import RefusedError
from shared.processes import Incoming, ProcessDecision

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
NOON: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROCESS: Final = OrderProcess(window=timedelta(minutes=15), buffer=timedelta(minutes=1), most_seats=20)
DUE: Final = NOON + PROCESS.window + PROCESS.buffer
SEATS: Final = {"full": 2}
PRICES: Final = {"full": Decimal("500.00"), "free": Decimal("0.00")}
TOTAL: Final = Decimal("1000.00")
_NAMES: Final = {OrderStage.AWAITING: "awaiting", OrderStage.RESERVED: "reserved", OrderStage.PAID: "paid"}
_COMMANDS: Final = {"reserve_seats": "reserve", "confirm_seats": "confirm", "cancel_seats": "cancel"}


def place(*, is_held: bool = False, seats: Mapping[str, int] = SEATS) -> Incoming:
    """Return a new order."""
    body = NewOrder(order="a", number=1, conference="c", seats=dict(seats), prices=PRICES, is_held=is_held)
    return incoming(body, NOON)


def start() -> Incoming:
    """Return the release of a held order."""
    return incoming(StartOrder(order="a", number=1, conference="c", seats=SEATS), NOON)


def update(state: OrderProcessState, id_: str = "u1", seats: Mapping[str, int] = SEATS) -> Incoming:
    """Return a change of the order in its current version."""
    version = state.order.version if state.order else 1
    return incoming(Update(version=version, seats=dict(seats), prices=PRICES), NOON, id_)


def reserve(generation: int, granted: Mapping[str, int]) -> Incoming:
    """Return the answer of the seats to a command."""
    body = incoming(SeatsReserved("a", dict(granted), {}, NOON), NOON, "command")
    return Incoming(kind=body.kind, body=body.body, at=NOON, id=body.id, generation=generation)


def refuse(generation: int) -> Incoming:
    """Return the answer that a seat type is unknown."""
    body = incoming(ReservationRefused("a", "unknown_seat_type", ["full"], NOON), NOON, "command")
    return Incoming(kind=body.kind, body=body.body, at=NOON, id=body.id, generation=generation)


def pay(id_: str = "p1", amount: Decimal = TOTAL, outcome: PaymentOutcome = PaymentOutcome.COMPLETED) -> Incoming:
    """Return a payment."""
    return incoming(Pay(outcome=outcome, amount=amount), NOON, id_)


def expire(due: datetime = DUE) -> Incoming:
    """Return the timeout."""
    return incoming(Expire(), due)


def follow(*messages: Incoming, now: datetime = NOON) -> OrderProcessState:
    """Return the state after messages, beginning with no order."""
    state = OrderProcessState()
    for message in messages:
        state = PROCESS.decide(state, message, max(now, message.at) if message.kind == "expire" else now).state
    return state


def states() -> dict[str, OrderProcessState]:
    """Return one state for each column of the table."""
    all_granted = reserve(1, SEATS)
    return {
        "no order": follow(),
        "held": follow(place(is_held=True)),
        "awaiting": follow(place()),
        "reserved": follow(place(), all_granted),
        "paid": follow(place(), pay()),
        "confirmed": follow(place(), all_granted, pay()),
        "rejected": follow(place(), reserve(1, {"full": 0})),
        "expired": follow(place(), expire()),
    }


def messages(state: OrderProcessState) -> dict[str, tuple[Incoming, datetime]]:
    """Return one message for each row of the table, and the time at which it comes."""
    last = max(state.generation, 1)
    return {
        "placed (again)": (place(), NOON),
        "started": (start(), NOON),
        "changed": (update(state), NOON),
        "all seats": (reserve(last, SEATS), NOON),
        "some seats": (reserve(last, {"full": 1}), NOON),
        "no seat": (reserve(last, {"full": 0}), NOON),
        "unknown type": (refuse(last), NOON),
        "paid, the total": (pay("p2"), NOON),
        "paid, another amount": (pay("p2", Decimal("1.00")), NOON),
        "payment rejected": (pay("p2", outcome=PaymentOutcome.REJECTED), NOON),
        "expiry is due": (expire(), DUE),
    }


def describe(before: OrderProcessState, message: Incoming, now: datetime) -> str:
    """Return the cell: the state after the message, the command, and a payment that is left to a person."""
    try:
        decision = PROCESS.decide(before, message, now)
    except RefusedError as refused:
        return f"`{refused.reason}`"
    words = [_state(decision.state)] if decision.state.stage is not before.stage or decision.commands else []
    words += [f"*{_COMMANDS[command.kind]} {command.generation}*" for command in decision.commands]
    words += ["unsettled"] if any(event.kind == "payment_unsettled" for event in decision.own) else []
    return ", ".join(words) or _nothing(decision)


def table() -> Table:
    """Return the whole table."""
    columns = states()
    rows: dict[str, Sequence[str]] = {}
    for name in messages(OrderProcessState()):
        rows[name] = [describe(state, *messages(state)[name]) for state in columns.values()]
    return ("message", *columns), [(name, *cells) for name, cells in rows.items()]


def _state(state: OrderProcessState) -> str:
    if state.stage is OrderStage.COMPLETED and state.order is not None:
        return state.order.phase.value
    return _NAMES[state.stage]


def _nothing(decision: ProcessDecision[OrderProcessState]) -> str:
    if decision.reply is not None:
        return decision.reply.value
    return "noted" if any(not event.is_public for event in decision.own) else "totals anew"


def _order_events() -> Table:
    rows = []
    for kind in PUBLIC:
        said = (BODIES[kind].__doc__ or "").splitlines()[0]
        rows.append((f"`{kind}`", ", ".join(f"`{name}`" for name in BODIES[kind].__struct_fields__), said))
    return ("event", "fields", "meaning"), rows


TABLES = {"order-states": table, "order-events": _order_events}
