"""The flows that begin with an order: placed, held, started, changed, paid."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Final
from uuid import UUID, uuid5

import msgspec

from shared.clock import Clock
from shared.eventsourcing import Head, Home, Homes
from shared.gate import HeldWork
from shared.ids import RangeGenerator
from shared.messaging import Command
from shared.processes import Case, CaseOutcome, Handled, Runtime, restore_process
from shared.refusals import Reason, refuse
from shared.registration.access_codes import AccessCodes
from shared.registration.bodies import OrderTotalsCalculated
from shared.registration.order import CONTENT, NOTHING, NUMBER, OrderPhase, OrderState, order_home
from shared.registration.order_messages import NewOrder, Pay, StartOrder, Update, incoming
from shared.registration.order_process import OrderProcess
from shared.registration.order_turn import OrderProcessState
from shared.registration.price_list import PriceList
from shared.registration.public_messages import Payment, PlaceOrder, UpdateOrder, content_hash
from shared.registration.routes import STARTS_QUEUE
from shared.registration.stored_events import body_of

#: A field of an order's head: the gate that it waits for.
GATE: Final = "gate"
#: The version of a held order that was never changed: placed, and its totals.
_VERSION_OF_HELD: Final = 2
_IDS: Final = UUID("0d9c5a34-6a0b-58a9-a6a5-40e4a1c7c0de")
#: The kind of the event that follows each placing and each change.
TOTALS: Final = "order_totals_calculated"
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Placed:
    """The answer to an order that is stored. The same order gets it again."""

    order: str
    number: int
    #: Not in its text: errors and logs may show this object.
    access_code: str = field(repr=False)
    total: Decimal
    #: The order, if this call stored it. Not a part of the answer.
    made: OrderState | None = field(default=None, compare=False, repr=False)


class OrderFlows:
    """The flows that begin with an order."""

    def __init__(  # noqa: PLR0913 - the process, and what an order needs beside it
        self,
        runtime: Runtime[OrderProcessState],
        process: OrderProcess,
        homes: Homes,
        *,
        numbers: RangeGenerator,
        codes: AccessCodes,
        prices: PriceList,
        held: HeldWork,
        clock: Clock,
        note_wrong: Callable[[], object],
    ) -> None:
        """Take what orders need. `note_wrong` counts a wrong access code."""
        self._runtime, self._process, self._homes = runtime, process, homes
        self._numbers, self._codes, self._prices = numbers, codes, prices
        self._held, self._clock, self._note_wrong = held, clock, note_wrong

    def place(self, order: PlaceOrder) -> Placed:
        """Store an order, or find it, and send what follows. Raises RefusedError.

        The answer stands when the order is stored: what could not be sent then is sent by the tick.
        """
        content, home = content_hash(order), order_home(order.order)
        is_held = order.gate is not None and not self._held.reading(order.gate).is_open
        number, code = self._numbers.next_id(), self._codes.make(order.order, content, order.access_code)
        prices = self._prices.find(order.conference)
        body = NewOrder(
            order=order.order,
            number=number,
            conference=order.conference,
            seats=order.seats,
            prices=dict(prices),
            is_held=is_held,
        )
        fields = {**code.fields, NUMBER: number, CONTENT: content, **({GATE: order.gate} if order.gate else {})}
        message = incoming(body, self._clock.now())
        case = Case(home=home, message=message, believed=None, fields=fields, number=number)
        # Held before its note goes: if this fails, the tick holds it.
        (outcome,) = self._runtime.handle([case], partial(self._hold_new, order.gate)).outcomes
        if outcome.error is not None:
            raise outcome.error
        made = outcome.state.order if outcome.state and outcome.home is None else None
        placed = Placed(order.order, number, code.code, _first_total(outcome), made)
        return placed if outcome.home is None else self._repeat(order, content, outcome.home, placed)

    def _hold_new(self, gate: str | None, handled: Handled[OrderProcessState]) -> None:
        if gate is not None:
            self._hold_if_held(gate, handled.outcomes[0].state, is_sent=handled.not_sent is None)

    def _repeat(self, order: PlaceOrder, content: str, home: Home, placed: Placed) -> Placed:
        """Return the answer of the order that is stored, or refuse another one of the same id."""
        fields = home.head.fields
        code = self._codes.repeat(order.order, content, order.access_code, fields)
        if fields[CONTENT] != content or code is None:
            # One answer: it must not say that only the code is wrong.
            raise refuse(Reason.ORDER_DIFFERS, f"order {order.order!r} is stored already")
        return Placed(order.order, int(fields[NUMBER]), code, placed.total)

    def resume(self, key: str, head: Head) -> None:
        """Hold an order again that waits for a gate: its writer may have ended before it held it."""
        home = self._homes.load(key) if GATE in head.fields else None
        if home is None:
            return
        state, _ = restore_process(self._process, home)
        self._hold_if_held(str(home.head.fields[GATE]), state, is_sent=False)

    def change(self, order: str, version: int, seats: Mapping[str, int]) -> int:
        """Want other seats in place of those of this version. Return the version of the change, also of one made before."""
        return self._change(order, self._homes.load(order_home(order)), version, seats, "")

    def update(self, asked: UpdateOrder) -> None:
        """Change an order as a message asks, by the order's access code. A wrong code and an unknown order are refused alike."""
        if asked.access_code is None:
            raise refuse(Reason.MISSING_FIELD, f"it changes order {asked.order!r} without its access_code")
        home = self._homes.load(order_home(asked.order))
        if not self._codes.verify(asked.order, asked.access_code, lambda: home.head.fields if home else None):
            self._note_wrong()
            raise refuse(Reason.UNKNOWN_ORDER, f"no order is called {asked.order!r} and has this access code")
        self._change(asked.order, home, asked.version, asked.seats, asked.id)

    def _change(self, order: str, home: Home | None, version: int, seats: Mapping[str, int], id_: str) -> int:
        state = restore_process(self._process, home)[0] if home else None
        if home is None or state is None or state.order is None:
            raise refuse(Reason.UNKNOWN_ORDER, f"the order is called {order!r}")
        id_ = id_ or str(uuid5(_IDS, f"{order} {version} {_encoder.encode(dict(sorted(seats.items()))).decode()}"))
        body = Update(version=version, seats=dict(seats), prices=dict(self._prices.find(state.order.conference)))
        case = Case(home=home.key, message=incoming(body, self._clock.now(), id_), believed=home)
        # What could not be sent, the tick sends: the change is stored, and this is its answer.
        (outcome,) = self._runtime.handle([case]).outcomes
        if outcome.error is not None:
            raise outcome.error
        return _version_of(outcome, id_)

    def pay(self, payment: Payment) -> None:
        """Take a payment, each id once."""
        body = Pay(outcome=payment.outcome, amount=payment.amount)
        message = incoming(body, self._clock.now(), payment.id)
        handled = self._runtime.handle([Case(home=order_home(payment.order), message=message)])
        handled.check()

    def _hold_if_held(self, gate: str, state: OrderProcessState | None, *, is_sent: bool) -> None:
        """Have the gate start an order that is held. Its row waits until then, and names all that the start needs."""
        order = state.order if state else None
        if order is None or order.phase is not OrderPhase.HELD:
            return
        start = StartOrder(
            order=order.order, number=order.number, conference=order.conference, seats=dict(order.requested)
        )
        # Only then may the start be written without reading the order: what is unsent would never be sent.
        is_published = is_sent and order.stream_version == _VERSION_OF_HELD
        body = {"start": msgspec.to_builtins(start), "is_published": is_published}
        command = Command(kind="start", to=order_home(order.order), body=body, id=order.order)
        self._held.hold(gate, order.order, str(STARTS_QUEUE), _encoder.encode(command).decode())


def _first_total(outcome: CaseOutcome[OrderProcessState]) -> Decimal:
    """Return the total of the order as it was placed. Changes have totals of their own."""
    if outcome.home is None:
        return outcome.state.order.total if outcome.state and outcome.state.order else NOTHING
    totals = (body_of(event) for event in outcome.home.events if event.kind == TOTALS)
    return next((body.total for body in totals if isinstance(body, OrderTotalsCalculated)), NOTHING)


def _version_of(outcome: CaseOutcome[OrderProcessState], id_: str) -> int:
    """Return the version after the change with this id: its event, and the totals that follow it."""
    if outcome.is_written or outcome.home is None:
        return outcome.state.order.version if outcome.state and outcome.state.order else 0
    return 1 + max(event.version for event in outcome.home.events if event.command == id_ and event.kind != TOTALS)
