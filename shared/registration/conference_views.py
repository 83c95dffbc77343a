"""Reading conferences: an answer is kept for as long as the ladder allows, by the scarcest type of seats."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec

from shared.readmodels import SEATS_LADDER, Answer, KeptAnswers, View, ViewReader
from shared.registration.seat_commands import seats_home
from shared.registration.views import Conferences


@dataclass(frozen=True, slots=True)
class SeatTypeView:
    """The seats of one type."""

    price: Decimal
    quota: int
    remaining: int


@dataclass(frozen=True, slots=True)
class ConferenceView:
    """A conference as customers read it."""

    conference: str
    seats: Mapping[str, SeatTypeView]
    #: The highest version of its home that this view shows. Events may come in any order, so it may lack earlier ones.
    version: int

    @property
    def keep(self) -> timedelta:
        """How long this answer may be kept."""
        return SEATS_LADDER.keep(one.remaining for one in self.seats.values())


class ConferenceViews:
    """Reads conferences. One per process. Several threads may use it."""

    def __init__(self, reader: ViewReader, answers: KeptAnswers[ConferenceView]) -> None:
        self._reader, self._answers = reader, answers

    def find(self, conference: str, within: timedelta) -> Answer[ConferenceView]:
        """Return a conference, kept for no longer than `within` and than the ladder allows. One request, or none."""
        return self._answers.get(conference, within, lambda: self._read(conference))

    def _read(self, conference: str) -> ConferenceView | None:
        key = Conferences().key(seats_home(conference), ())
        found = self._reader.find(lambda _version: key)
        return view_of(conference, found.view) if found and found.view else None


def view_of(conference: str, view: View) -> ConferenceView:
    """Return the conference of a row, without types of which the price has not arrived yet."""
    seats: Mapping[str, Mapping[str, Any]] = view["seats"]
    whole = {name: one for name, one in seats.items() if {"price", "quota", "remaining"} <= one.keys()}
    return ConferenceView(conference, msgspec.convert(whole, dict[str, SeatTypeView]), int(view["version"]))
