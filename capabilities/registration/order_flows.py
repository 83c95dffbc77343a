"""The flows that begin with an order: placed, held, started, changed, paid.

The answers of seats on their way to the processes of their orders.

Held orders on their way: from the rows of a gate to the queue `starts-in-order`, fifty in a message, and into their
homes. All of it keeps the order of the gate's roll. The bus, a failure or a death may break it. So each start names the
order before it for its conference, and seats answer that one first.

One note guards the orders of a message, from before it is sent until they are started. So a bus that forgets the message
strands none of them.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from threading import Lock
from typing import Final
from uuid import UUID, uuid5

import msgspec

from capabilities.registration import events as order_events
from capabilities.registration.access_codes import AccessCodes
from capabilities.registration.conference_views import PriceList
from capabilities.registration.order import (
    CONTENT,
    NOTHING,
    NUMBER,
    OrderPhase,
    OrderState,
    OrderTotalsCalculated,
    body_of,
    order_home,
)
from capabilities.registration.order_messages import NewOrder, Pay, StartOrder, Update, incoming, read_reply
from capabilities.registration.order_process import OrderProcess, OrderProcessState, believe_held
from capabilities.registration.parked_orders import ParkedOrders
from capabilities.registration.public_messages import (
    IN_ORDER_QUEUE,
    STARTS_QUEUE,
    Payment,
    PlaceOrder,
    UpdateOrder,
    content_hash,
)
from capabilities.registration.reasons import OrderReason, ReplyReason
from shared.clock import Clock
from shared.errors import DecisionFailedError, LaterFormatError, NewerVersionError, RefusedError
from shared.gate import HeldEntry, HeldWork
from shared.ids import RangeGenerator
from shared.processes import (
    Agenda,
    BusPublisher,
    Case,
    CaseOutcome,
    Command,
    EventRange,
    Handled,
    Head,
    Home,
    Homes,
    Note,
    Removals,
    ReplyClass,
    Runtime,
    begin_in_time,
    bundle_parcel,
    decode_commands,
    decode_events,
    notes_of,
    read_known,
    restore_process,
)
from shared.refusals import Reason, refuse
from shared.telemetry import Telemetry
from shared.versions import convert, make_decoder

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
            raise refuse(OrderReason.ORDER_DIFFERS, f"order {order.order!r} is stored already")
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
            raise refuse(OrderReason.UNKNOWN_ORDER, f"no order is called {asked.order!r} and has this access code")
        self._change(asked.order, home, asked.version, asked.seats, asked.id)

    def _change(self, order: str, home: Home | None, version: int, seats: Mapping[str, int], id_: str) -> int:
        state = restore_process(self._process, home)[0] if home else None
        if home is None or state is None or state.order is None:
            raise refuse(OrderReason.UNKNOWN_ORDER, f"the order is called {order!r}")
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
        message = _encoder.encode(command).decode()
        self._held.hold(gate, order.order, str(STARTS_QUEUE), message, order.number)


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


#: Answers, or starts, between two checks of the clock.
_AT_ONCE: Final = 256


def hear(
    runtime: Runtime[OrderProcessState],
    parked: ParkedOrders,
    telemetry: Telemetry,
    bodies: Sequence[bytes],
    clock: Clock,
) -> None:
    """Give the answers in these messages to their processes. Raises the first error that another try may end."""
    answers, newer = _answers(bodies)
    for some in begin_in_time(answers, _AT_ONCE, clock):
        handled = runtime.handle([case for _, case in some])
        for (alone, _), outcome in zip(some, handled.outcomes, strict=True):
            if (error := _why_parked(outcome)) is not None:
                parked.park_event(alone, error)
            elif outcome.error is not None:
                raise outcome.error
            if outcome.reply is not None:
                telemetry.add(order_events.ORDER_ANSWERS, outcome=_name(outcome.state, outcome.reply))
        if handled.not_sent is not None:
            raise handled.not_sent
    if newer is not None:
        raise newer


def _answers(bodies: Sequence[bytes]) -> tuple[list[tuple[EventRange, Case]], NewerVersionError | None]:
    """Return each answer with the one event that it is, and the error of one that a newer app wrote."""
    found: list[tuple[EventRange, Case]] = []
    known, newer = read_known(decode_events, bodies)
    for one in (one for ranges in known for one in ranges):
        for event in one.events:
            try:
                reply = read_reply(event)
            except LaterFormatError as error:
                newer = error
                continue
            if reply is not None:
                alone = EventRange(one.home, event.version, event.version, (event,))
                found.append((alone, Case(home=reply[0], message=reply[1])))
    return found, newer


def _name(state: OrderProcessState | None, reply: ReplyClass) -> str:
    order = state.order if state else None
    return order.phase.value if order and reply is ReplyClass.CURRENT else reply.value


def _why_parked(outcome: CaseOutcome[OrderProcessState]) -> Exception | None:
    """Return why no further try helps: its order sent no such command, or the process fails at the answer."""
    if outcome.reply is ReplyClass.UNEXPECTED:
        generation = outcome.case.message.generation
        found = f"home {outcome.case.home!r} never sent a command of generation {generation}"
        return refuse(ReplyReason.UNEXPECTED_REPLY, found)
    return outcome.error if isinstance(outcome.error, DecisionFailedError | RefusedError) else None


#: Orders of one message, and of one note.
MOST_STARTS: Final = 50
#: Until a message of starts counts as forgotten by the bus. Before, it waits behind others: sent again, all wait longer.
_FORGOTTEN_AFTER: Final = timedelta(minutes=15)
#: Messages of which this process knows that it has started their orders.
_REMEMBERED: Final = 10_000
_decoder: Final = make_decoder(Command)


class Starts:
    """Sends and takes the starts of held orders."""

    def __init__(  # noqa: PLR0913, PLR0917 - the process, its stores, and the way to the bus
        self,
        runtime: Runtime[OrderProcessState],
        process: OrderProcess,
        homes: Homes,
        agenda: Agenda,
        publisher: BusPublisher,
        removals: Removals,
        clock: Clock,
    ) -> None:
        self._runtime, self._process, self._homes = runtime, process, homes
        self._agenda, self._publisher = agenda, publisher
        self._removals, self._clock = removals, clock
        self._taken: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()
        #: The order that was sent last, and the last one of each conference.
        self._sent: tuple[str, dict[str, str]] = "", {}

    def send(self, entries: Sequence[HeldEntry], before: Sequence[str]) -> None:
        """Send the starts of these rows of one gate, in this order. They may be deleted afterwards. Raises NotPublishedError.

        `before`: the last orders before them on the roll. Their starts were sent.
        """
        commands = [_decoder.decode(entry.message.encode()) for entry in entries]
        conferences = {command.body["start"]["conference"] for command in commands}
        commands, last = _chain(commands, self._find_last(before, conferences))
        parts = [commands[begin : begin + MOST_STARTS] for begin in range(0, len(commands), MOST_STARTS)]
        now = self._clock.now()
        # A note of the part's own, whose key travels with each command.
        notes = [notes_of(0, {command.to: 0 for command in part}, now, after=_FORGOTTEN_AFTER)[0] for part in parts]
        self._agenda.write(notes)
        self._publisher.send(
            [
                bundle_parcel(IN_ORDER_QUEUE, [_add_note(command, note) for command in part], entries[0].gate)
                for part, note in zip(parts, notes, strict=True)
            ]
        )
        self._sent = entries[-1].id, last

    def _find_last(self, before: Sequence[str], conferences: AbstractSet[str]) -> Mapping[str, str]:
        """Return the last of these orders of each conference. Another process sent them: then it reads them, backwards."""
        sent, last = self._sent
        if before and before[-1] == sent:
            return last
        found: dict[str, str] = {}
        for id_ in reversed(before):
            order = restore_process(self._process, self._homes.load(order_home(id_)))[0].order
            if order is not None:
                found.setdefault(order.conference, id_)
            if found.keys() >= conferences:
                break
        return found

    def take(self, bodies: Sequence[bytes]) -> None:
        """Start the orders of these messages, and publish what they ask of seats in this order.

        Raises the first error: then the messages come again. Those that this process has done are passed over then, so
        that a batch which is too large for its time ends nevertheless.
        """
        bundles, newer = read_known(decode_commands, bodies)
        undone = [bundle for bundle in bundles if bundle and bundle[0].body["note"] not in self._taken]
        # One at a time: commands that wait longer than their note are sent by the agenda, ahead of their turn.
        for (bundle,) in begin_in_time(undone, 1, self._clock):
            self._runtime.handle([self._case(command) for command in bundle]).check()
            self._removals([_note_of(bundle[0])])
            self._remember(bundle[0].body["note"])
        if newer is not None:
            raise newer

    def _remember(self, note: str) -> None:
        with self._lock:
            self._taken[note] = None
            if len(self._taken) > _REMEMBERED:
                self._taken.popitem(last=False)

    def _case(self, command: Command) -> Case:
        start, now = convert(command.body["start"], StartOrder), self._clock.now()
        message = incoming(start, now, command.id)
        if not command.body["is_published"]:
            return Case(home=command.to, message=message)
        # All of it is known, and sent: it is written without being read. If it was changed since, that is a conflict.
        return Case(home=command.to, message=message, believed=believe_held(start, now))


def _chain(commands: Sequence[Command], last: Mapping[str, str]) -> tuple[list[Command], dict[str, str]]:
    """Name to each start the order before it for its conference. Return the last ones after them, too."""
    chained, last = [], dict(last)
    for command in commands:
        start = convert(command.body["start"], StartOrder)
        after = msgspec.structs.replace(start, after=last.get(start.conference, ""))
        chained.append(replace(command, body={**command.body, "start": msgspec.to_builtins(after)}))
        last[start.conference] = start.order
    return chained, last


def _add_note(command: Command, note: Note) -> Command:
    return replace(command, body={**command.body, "note": note.id, "due": note.due.isoformat()})


def _note_of(command: Command) -> Note:
    """Return the note of a message, by its key alone."""
    due = datetime.fromisoformat(command.body["due"])
    return Note(0, due, command.body["note"], {}, due)
