"""The decisions about one conference's seats: each command against the state, to an event or to nothing."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from capabilities.registration.order import (
    Body,
    ConferenceSet,
    GenerationKept,
    Offer,
    ReservationCancelled,
    ReservationConfirmed,
    ReservationRefused,
    SeatsAdded,
    SeatsRemoved,
    SeatsReserved,
    event_of,
)
from capabilities.registration.order_messages import (
    AddSeats,
    CloseConference,
    Confirm,
    Management,
    OrderCommand,
    RemoveSeats,
    Reserve,
    SeatCommand,
    SetConference,
    hash_content,
)
from capabilities.registration.reasons import OrderReason
from capabilities.registration.seats import KEPT_FOR, KnownReservation, ReservationEnding, SeatsState
from shared.errors import SluiceError
from shared.processes import Verdict
from shared.refusals import refuse


class OutOfTurnError(SluiceError):
    """An order with an earlier place on the roll has no answer yet: the bus, or a failure, let this one come first."""


class Skip(StrEnum):
    """Why a command of an order changes nothing."""

    #: Its generation is not above the last known one: it came twice, or was overtaken.
    KNOWN = "known"
    #: A reserve came after the end of its window.
    LATE = "late"
    #: An end came for a reservation that is unknown, or forgotten long ago.
    FORGOTTEN = "forgotten"


def decide(state: SeatsState, command: SeatCommand, now: datetime) -> Verdict:
    """Return the event that the command makes. Raises RefusedError for one of a publisher that the state does not allow."""
    if not isinstance(command, OrderCommand):
        body = _manage(state, command)
        return Verdict((event_of(body, now, command=command.id),), dict([make_seats_entry(command)]))
    if skip_reason(state, command, now):
        return Verdict()
    body = _answer(state, command, _find(state, command, now))
    return Verdict((event_of(body, now, command=command.id, generation=command.generation),))


def skip_reason(state: SeatsState, command: OrderCommand, now: datetime) -> Skip | None:
    """Return why the command of an order changes nothing, or None if it does change something."""
    entry = _find(state, command, now)
    is_late = isinstance(command, Reserve) and now > command.not_after
    if entry is None:
        is_forgotten = not isinstance(command, Reserve) and now > command.not_after + KEPT_FOR
        return Skip.LATE if is_late else Skip.FORGOTTEN if is_forgotten else None
    # A sold seat stays sold, and a command above the confirmation cannot be: that was the order's last one.
    if entry.generation >= command.generation or entry.ending is ReservationEnding.CONFIRMED:
        return Skip.KNOWN
    return Skip.LATE if is_late else None


def is_out_of_turn(state: SeatsState, command: OrderCommand) -> bool:
    """Check whether the order before this one on the roll has no answer yet."""
    return isinstance(command, Reserve) and bool(command.after) and state.reservations.get(command.after) is None


def make_seats_entry(command: SeatCommand) -> tuple[str, str]:
    """Return the key of a publisher's command in the inbox of its conference, and the hash of its content."""
    return f"seats:{command.id}", hash_content(command)


def _find(state: SeatsState, command: OrderCommand, now: datetime) -> KnownReservation | None:
    """Return the entry of the order. One that may go is gone, wherever a state was folded, packed and unpacked."""
    entry = state.reservations.get(command.order)
    return None if entry is None or entry.may_go(now) else entry


def _answer(state: SeatsState, command: OrderCommand, entry: KnownReservation | None) -> Body:
    held = entry.held if entry else {}
    if isinstance(command, Reserve):
        return _reserve(state, command, held)
    if entry is None:
        return GenerationKept(command.order, command.not_after)
    if isinstance(command, Confirm):
        remaining = {name: state.types[name].available for name in held}
        return ReservationConfirmed(command.order, dict(held), remaining, command.not_after)
    remaining = {name: state.types[name].available + number for name, number in held.items()}
    return ReservationCancelled(command.order, dict(held), remaining, command.not_after)


def _reserve(state: SeatsState, command: Reserve, held: Mapping[str, int]) -> Body:
    unknown = sorted(command.seats.keys() - state.types.keys())
    if unknown:
        reason = OrderReason.UNKNOWN_SEAT_TYPE if state.types else OrderReason.UNKNOWN_CONFERENCE
        return ReservationRefused(command.order, reason.value, unknown, command.not_after)
    free = {name: state.types[name].available + held.get(name, 0) for name in {*held, *command.seats}}
    granted = {name: min(number, free[name]) for name, number in command.seats.items()}
    remaining = {name: free[name] - granted.get(name, 0) for name in free}
    return SeatsReserved(command.order, granted, remaining, command.not_after)


def _manage(state: SeatsState, command: Management) -> Body:
    if isinstance(command, SetConference):
        return _set(state, command)
    if not state.types:
        raise refuse(OrderReason.UNKNOWN_CONFERENCE, f"the conference is called {command.conference!r}")
    if isinstance(command, CloseConference):
        free = {name: one.available for name, one in state.types.items() if one.available}
        command = RemoveSeats(conference=command.conference, seats=free, id=command.id)
    return _resize(state, command)


def _set(state: SeatsState, command: SetConference) -> Body:
    offers = {}
    for name, one in command.seats.items():
        known = state.types.get(name)
        if known and known.quota != one.quota:
            found = f"seat type {name!r} of conference {command.conference!r} has the quota {known.quota}"
            raise refuse(OrderReason.QUOTA_DIFFERS, f"{found}, the message says {one.quota}")
        offers[name] = Offer(one.price, one.quota, known.available if known else one.quota)
    return ConferenceSet(offers)


def _resize(state: SeatsState, command: AddSeats | RemoveSeats) -> Body:
    if unknown := sorted(command.seats.keys() - state.types.keys()):
        raise refuse(OrderReason.UNKNOWN_SEAT_TYPE, f"conference {command.conference!r} has no {unknown[0]!r}")
    sign = 1 if isinstance(command, AddSeats) else -1
    quota = {name: state.types[name].quota + sign * number for name, number in command.seats.items()}
    remaining = {name: state.types[name].available + sign * number for name, number in command.seats.items()}
    for name, number in remaining.items():
        if number < 0:
            free = state.types[name].available
            raise refuse(OrderReason.SEATS_TAKEN, f"{command.seats[name]} of {name!r} would go, {free} are available")
    made = SeatsAdded if sign > 0 else SeatsRemoved
    return made(command.seats, quota, remaining)
