"""The seats of one conference: how many of each type are available, reserved and sold, and who holds them.

A command of an order counts once: its generation must be above the last known one of that reservation. So a doubled,
late or overtaken command changes nothing. After every event, available + reserved + confirmed = quota for each type.

The reservations of one conference, by order: a mapping that is never changed in place, and is cheap to add to.

It is a large dictionary, which many states share, under a small one, which each state copies. From time to time the
small one is laid over the large one, and what may be forgotten is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

from capabilities.registration.order import (
    Body,
    ConferenceSet,
    GenerationKept,
    Offer,
    ReservationCancelled,
    ReservationConfirmed,
    ReservationRefused,
    SeatNumbers,
    SeatsAdded,
    SeatsRemoved,
    SeatsReserved,
    body_of,
)
from shared.errors import SluiceError
from shared.processes import Event
from shared.versions import decode

#: How long the last generation of an ended reservation is kept after its deadline.
KEPT_FOR: Final = timedelta(minutes=10)
_SMALL: Final = 64


class SeatsBalanceError(SluiceError):
    """An event would leave seats of a conference in two places or in no place. Nothing more is decided for it."""


class ReservationEnding(StrEnum):
    """How a reservation ended."""

    CANCELLED = "cancelled"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class KnownReservation:
    """One order's reservation, as its conference knows it."""

    generation: int
    not_after: datetime
    #: SeatNumbers held, by type, without zeros. After a confirmation: seats sold.
    granted: Mapping[str, int] = field(default_factory=dict)
    ending: ReservationEnding | None = None

    @property
    def held(self) -> Mapping[str, int]:
        """The seats that are reserved now, and neither free nor sold."""
        return self.granted if self.ending is None else {}

    @property
    def holds_seats(self) -> bool:
        """True while it must still end."""
        return bool(self.held)

    def may_go(self, now: datetime) -> bool:
        """Check whether no message can come any more that its generation keeps out."""
        return not self.holds_seats and now > self.not_after + KEPT_FOR

    def is_overdue(self, now: datetime) -> bool:
        """Check whether its end should have come."""
        return self.holds_seats and now > self.not_after + KEPT_FOR


@dataclass(frozen=True, slots=True)
class KnownReservations:
    """Entries by order."""

    large: Mapping[str, KnownReservation] = field(default_factory=dict)
    small: Mapping[str, KnownReservation] = field(default_factory=dict)

    def get(self, order: str) -> KnownReservation | None:
        """Return the entry of an order."""
        found = self.small.get(order)
        return self.large.get(order) if found is None else found

    def put(self, order: str, entry: KnownReservation, now: datetime) -> "KnownReservations":
        """Return the reservations with this entry. `now` is the time of the event, by which ended ones are forgotten."""
        small = {**self.small, order: entry}
        # So each addition copies about 1/128 of all, and lays over about as many.
        if len(small) < max(_SMALL, len(self.large) // _SMALL):
            return KnownReservations(self.large, small)
        merged = {**self.large, **small}
        return KnownReservations({order: one for order, one in merged.items() if not one.may_go(now)})

    def pairs(self) -> Iterator[tuple[str, KnownReservation]]:
        """Yield every order with its entry."""
        for order, entry in self.large.items():
            if order not in self.small:
                yield order, entry
        yield from self.small.items()


FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class SeatBalance:
    """The seats of one type."""

    price: Decimal
    quota: int
    available: int
    reserved: int = 0
    confirmed: int = 0

    @property
    def is_even(self) -> bool:
        """True if every seat is in exactly one place."""
        parts = (self.available, self.reserved, self.confirmed)
        return min(parts) >= 0 and sum(parts) == self.quota


@dataclass(frozen=True, slots=True)
class SeatsState:
    """One conference after its events. It is never changed in place, however many reservations it has."""

    types: Mapping[str, SeatBalance] = field(default_factory=dict)
    reservations: KnownReservations = field(default_factory=KnownReservations)


class Seats:
    """The aggregate: how the events of a conference make its state, and how the state is kept."""

    name = "seats"
    format = FORMAT

    def initial(self) -> SeatsState:
        """Return a conference without seat types."""
        return SeatsState()

    def fold(self, state: SeatsState, event: Event) -> SeatsState:
        """Return the state after the event. Raises SeatsBalanceError for one that does not add up."""
        return fold(state, event)

    def pack(self, state: SeatsState) -> bytes:
        """Return the state as JSON."""
        return msgspec.json.encode(_Packed(dict(state.types), dict(state.reservations.pairs())))

    def unpack(self, packed: bytes) -> SeatsState:
        """Return the state of such JSON."""
        read = decode(packed, _Packed)
        return SeatsState(read.types, KnownReservations(read.reservations))


class _Packed(msgspec.Struct):
    types: dict[str, SeatBalance]
    reservations: dict[str, KnownReservation]


def fold(state: SeatsState, event: Event) -> SeatsState:
    """Return the state after the event, proven in the types that it touched."""
    match body_of(event):
        case ConferenceSet(seats):
            offers = {name: _offer(state, name, offer) for name, offer in seats.items()}
            return replace(state, types={**state.types, **offers})
        case SeatsAdded(seats):
            return _proven(state, {name: _quota(state.types[name], number) for name, number in seats.items()}, event)
        case SeatsRemoved(seats):
            return _proven(state, {name: _quota(state.types[name], -number) for name, number in seats.items()}, event)
        case body:
            return _fold_reservation(state, body, event)


def _fold_reservation(state: SeatsState, body: Body, event: Event) -> SeatsState:
    match body:
        case SeatsReserved(order, granted, _, not_after):
            held, now_held = _seats_of(state, order), {name: number for name, number in granted.items() if number}
            moved = {name: now_held.get(name, 0) - held.get(name, 0) for name in {*held, *now_held}}
            entry = KnownReservation(event.generation, not_after, now_held)
            touched = {name: _reserve(state.types[name], number) for name, number in moved.items()}
        case ReservationCancelled(order, _, _, not_after):
            entry = KnownReservation(event.generation, not_after, ending=ReservationEnding.CANCELLED)
            touched = {name: _reserve(state.types[name], -number) for name, number in _seats_of(state, order).items()}
        case ReservationConfirmed(order, confirmed, _, not_after):
            entry = KnownReservation(event.generation, not_after, confirmed, ReservationEnding.CONFIRMED)
            touched = {name: _confirm(state.types[name], number) for name, number in confirmed.items()}
        case GenerationKept(order, not_after):
            entry, touched = KnownReservation(event.generation, not_after, ending=ReservationEnding.CANCELLED), {}
        case ReservationRefused(order, _, _, not_after):
            # It keeps the seats that it holds: the order ends it, with the next generation.
            former = state.reservations.get(order) or KnownReservation(0, not_after)
            entry, touched = replace(former, generation=event.generation), {}
        case _:
            raise SeatsBalanceError(f"event {event.version} {event.kind!r} is of no conference: the home is another's")
    proven = _proven(state, touched, event) if touched else state
    return replace(proven, reservations=state.reservations.put(order, entry, event.at))


def overdue(state: SeatsState, now: datetime) -> Iterator[str]:
    """Yield the orders whose reservations should have ended ten minutes ago. Their seats are never freed by themselves."""
    return (order for order, entry in state.reservations.pairs() if entry.is_overdue(now))


def check_balance(state: SeatsState) -> list[str]:
    """Return the types of which the reservations, added up one by one, are not what the balance says."""
    held: Counter[tuple[str, bool]] = Counter()
    for _, entry in state.reservations.pairs():
        for name, number in entry.granted.items():
            held[name, entry.ending is None] += number
    # Sold seats of long ago have no entry any more, so they may only be more than those of the entries.
    return [
        name
        for name, one in state.types.items()
        if not one.is_even or held[name, True] != one.reserved or held[name, False] > one.confirmed
    ]


def contradict(before: SeatsState, after: SeatsState, event: Event) -> Iterator[str]:
    """Yield where an event says other numbers than the events up to it make. A correct writer says the same."""
    body = body_of(event)
    quota, remaining = _numbers_of(body)
    made = [("quota", name, said, after.types.get(name)) for name, said in quota.items()]
    made += [("available", name, said, after.types.get(name)) for name, said in remaining.items()]
    for what, name, said, one in made:
        if one is None or getattr(one, what) != said:
            found = "no such type" if one is None else f"{getattr(one, what)} {what}"
            yield f"event {event.version} {event.kind!r} says {said} {what} of {name!r}, the events make {found}"
    if isinstance(body, ReservationCancelled | ReservationConfirmed):
        said_seats = body.released if isinstance(body, ReservationCancelled) else body.confirmed
        held = dict(_seats_of(before, body.order))
        if {name: number for name, number in said_seats.items() if number} != held:
            yield f"event {event.version} {event.kind!r} ends {said_seats} of order {body.order!r}, which held {held}"


def _numbers_of(body: Body) -> tuple[SeatNumbers, SeatNumbers]:
    """Return the quotas and the available seats that an event says, by type."""
    match body:
        case ConferenceSet(seats):
            return {name: one.quota for name, one in seats.items()}, {
                name: one.remaining for name, one in seats.items()
            }
        case SeatsAdded(_, quota, remaining) | SeatsRemoved(_, quota, remaining):
            return quota, remaining
        case SeatsReserved() | ReservationCancelled() | ReservationConfirmed():
            return {}, body.remaining
    return {}, {}


def _seats_of(state: SeatsState, order: str) -> Mapping[str, int]:
    entry = state.reservations.get(order)
    return entry.held if entry else {}


def _offer(state: SeatsState, name: str, offer: Offer) -> SeatBalance:
    known = state.types.get(name)
    return replace(known, price=offer.price) if known else SeatBalance(offer.price, offer.quota, offer.quota)


def _quota(one: SeatBalance, number: int) -> SeatBalance:
    return replace(one, quota=one.quota + number, available=one.available + number)


def _reserve(one: SeatBalance, number: int) -> SeatBalance:
    return replace(one, available=one.available - number, reserved=one.reserved + number)


def _confirm(one: SeatBalance, number: int) -> SeatBalance:
    return replace(one, reserved=one.reserved - number, confirmed=one.confirmed + number)


def _proven(state: SeatsState, touched: Mapping[str, SeatBalance], event: Event) -> SeatsState:
    for name, one in touched.items():
        if not one.is_even:
            raise SeatsBalanceError(
                f"could not apply event {event.version} {event.kind!r} of command {event.command!r}: seat type {name!r} "
                f"would have {one.available} available, {one.reserved} reserved and {one.confirmed} confirmed of "
                f"{one.quota}; nothing more is decided for this conference. This is a defect of Sluice: report it"
            )
    return replace(state, types={**state.types, **touched})
