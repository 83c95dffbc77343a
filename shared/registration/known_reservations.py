"""The reservations of one conference, by order: a mapping that is never changed in place, and is cheap to add to.

It is a large dictionary, which many states share, under a small one, which each state copies. From time to time the
small one is laid over the large one, and what may be forgotten is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

#: How long the last generation of an ended reservation is kept after its deadline.
KEPT_FOR: Final = timedelta(minutes=10)
_SMALL: Final = 64


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
