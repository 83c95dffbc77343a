"""How the seats of a conference went to the orders of a roll: who was answered as the how-manyth, and what got out of order.

An order is answered when its conference has decided on its first reserve. It overtakes if an order with an earlier place
was answered after it, or was not answered. It makes an inversion if an order with an earlier place got no seats of
a type, and it got some. It overtook that one, or seats came back in between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any

from capabilities.registration.order import ReservationRefused, SeatNumbers, SeatsReserved, body_of
from capabilities.registration.order_messages import REPLIES
from shared.gate import Roll
from shared.processes import Event


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The first answer of a conference to an order: its version among the events, and the seats."""

    version: int
    granted: SeatNumbers


@dataclass(frozen=True, slots=True)
class RollOutcome:
    """The answers of one conference to the orders of a roll."""

    #: The orders of the roll that were answered, the first one first.
    answered: Sequence[str]
    #: Orders that overtook another one.
    overtaking: Sequence[str] = ()
    #: Orders that made an inversion by overtaking, and those that got seats which came back.
    inverted: Sequence[str] = ()
    came_back: Sequence[str] = ()
    answers: dict[str, FirstAnswer] = field(default_factory=dict)


def first_answers(events: Iterable[Event]) -> dict[str, FirstAnswer]:
    """Return the first answer to each order, from the events of a conference."""
    found: dict[str, FirstAnswer] = {}
    for event in events:
        if event.kind not in REPLIES:
            continue
        match body_of(event):
            case SeatsReserved(order, granted):
                found.setdefault(order, FirstAnswer(event.version, granted))
            case ReservationRefused(order):
                found.setdefault(order, FirstAnswer(event.version, {}))
    return found


def check_roll(ids: Sequence[str], answers: dict[str, FirstAnswer]) -> RollOutcome:
    """Compare the order of a roll with that of the answers."""
    placed = [id_ for id_ in ids if id_ in answers]
    versions = [answers[id_].version for id_ in placed]
    last = list(accumulate(versions, max, initial=0))
    overtaking = [id_ for id_, version, before in zip(placed, versions, last, strict=False) if before > version]
    inverted, came_back = dict[str, None](), dict[str, None]()
    for name in sorted({name for id_ in placed for name in answers[id_].granted}):
        last_refused = -inf
        for id_ in placed:
            one = answers[id_]
            if name not in one.granted:
                continue
            if not one.granted[name]:
                last_refused = max(last_refused, one.version)
            elif last_refused > one.version:
                inverted[id_] = None
            elif last_refused > 0:
                came_back[id_] = None
    return RollOutcome(
        answered=sorted(placed, key=lambda id_: answers[id_].version),
        overtaking=overtaking,
        inverted=list(inverted),
        came_back=[id_ for id_ in came_back if id_ not in inverted],
        answers=answers,
    )


def tell_place(order: str, roll: Roll, outcome: RollOutcome) -> dict[str, Any]:
    """Return the place of an order on the roll of its gate, and how its answer came out."""
    ids = [place.id for place in roll.places]
    place = ids.index(order)
    answer = outcome.answers.get(order)
    earlier = set(ids[:place])
    overtook = [] if answer is None else outcome.answered[: outcome.answered.index(order)]
    return {
        "gate": roll.gate,
        "epoch": roll.epoch,
        "by": roll.order,
        "sha256": roll.sha256,
        "place": place + 1,
        "places": len(ids),
        "answered_as": outcome.answered.index(order) + 1 if answer else None,
        "granted": dict(answer.granted) if answer else None,
        "overtaken_by": [id_ for id_ in overtook if id_ not in earlier],
        "overtaking": len(outcome.overtaking),
        "inversions": len(outcome.inverted),
        "came_back": len(outcome.came_back),
    }
