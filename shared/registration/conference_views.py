"""Reading conferences: an answer is kept for as long as the ladder allows, by the scarcest type of seats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import random
from typing import Any, Final, TypeVar

from shared.decoding import convert
from shared.readmodels import SEATS_LADDER, Answer, KeptAnswers, View, ViewReader
from shared.registration.seat_commands import seats_home
from shared.registration.views import Conferences
from shared.telemetry import SILENT, Telemetry, metrics

#: The share of the decisions by kept answers that are checked with a fresh one.
CHECKED: Final = 0.05
_Decision = TypeVar("_Decision")


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
    #: A number that grows with every change of the values that it shows: its ETag.
    version: int

    @property
    def keep(self) -> timedelta:
        """How long this answer may be kept."""
        return SEATS_LADDER.keep(one.remaining for one in self.seats.values())

    def short_of(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return the numbers of these seats that are left, if they are too few. Else nothing, also for unknown types."""
        left = {name: self.seats[name].remaining for name in wanted if name in self.seats}
        is_short = len(left) == len(wanted) and any(left[name] < number for name, number in wanted.items())
        return left if is_short else {}


class ConferenceViews:
    """Reads conferences. One per process. Several threads may use it."""

    def __init__(
        self,
        reader: ViewReader,
        answers: KeptAnswers[ConferenceView],
        telemetry: Telemetry = SILENT,
        draw: Callable[[], float] = random,
    ) -> None:
        self._reader, self._answers, self._telemetry, self._draw = reader, answers, telemetry, draw

    def find(self, conference: str, within: timedelta) -> Answer[ConferenceView]:
        """Return a conference, kept for no longer than `within` and than the ladder allows. One request, or none."""
        return self._answers.get(conference, within, lambda: self._read(conference))

    def decide(self, conference: str, judge: Callable[[ConferenceView | None], _Decision]) -> _Decision:
        """Return a decision by an answer that is kept for as long as the ladder allows.

        One of 20 decisions by a kept answer is made again by a fresh one. That one holds, and a metric counts both
        kinds: how often the ladder decides wrongly.
        """
        answer = self.find(conference, timedelta.max)
        decision = judge(answer.value)
        if not answer.is_kept or self._draw() >= CHECKED:
            return decision
        fresh = judge(self.find(conference, timedelta()).value)
        self._telemetry.add(metrics.KEPT_ANSWERS, outcome="same" if bool(fresh) == bool(decision) else "stale")
        return fresh

    def _read(self, conference: str) -> ConferenceView | None:
        key = Conferences().key(seats_home(conference), ())
        found = self._reader.find(lambda _version: key)
        return view_of(conference, found.view) if found and found.view else None


def view_of(conference: str, view: View) -> ConferenceView:
    """Return the conference of a row, without types of which the price has not arrived yet."""
    seats: Mapping[str, Mapping[str, Any]] = view["seats"]
    whole = {name: one for name, one in seats.items() if {"price", "quota", "remaining"} <= one.keys()}
    # Events may come in any order, so the newest version that it shows is no ETag: an older event may change it still.
    # Each value has the version of the event that said it, and that only grows.
    version = sum(number for one in whole.values() for name, number in one.items() if name.endswith("_at"))
    return ConferenceView(conference, convert(whole, dict[str, SeatTypeView]), version)
