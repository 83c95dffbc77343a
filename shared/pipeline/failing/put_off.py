"""Decides about a chunk of which transactions are left: which are called again and when, and when that ends. Pure.

A transaction waits if its service did not answer, or said `Later`. Each delivery in which the service answers others
counts, and after so many it is parked. An outage counts none: twenty failures in a row, or a chunk of which none ever ended.
After a day of that the chunk is parked as a whole, and a replay calls only for those that are left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final, NamedTuple

from shared.errors import Later
from shared.parked import Nature, nature_of
from shared.workloads import FIRST_PAUSE, LONGEST_PAUSE, Left, is_uncalled, is_waiting_error, pause_after

#: Seconds after which a chunk in an outage is parked.
LONGEST_OUTAGE: Final = 86_400
#: From this try on, a person is warned.
WARNED_FROM: Final = 6


class Waits(NamedTuple):
    """How often a transaction waited in vain, and the second of Unix time before which it is not called."""

    times: int = 0
    due: int = 0


_NEVER: Final = Waits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """The transactions that are left of a chunk after a delivery."""

    left: Mapping[int, Waits]
    #: Whether some wait, or were not called. Else all that are left failed of themselves.
    waits: bool
    #: Whether those that wait are called no more, once those that failed have had their tries, too.
    is_spent: bool
    #: Whether some failed of themselves.
    has_faults: bool
    #: Whether it was an outage for so long that the chunk is parked as a whole.
    is_endless: bool
    #: Seconds until the next delivery.
    seconds: int


def choose_due(left: Mapping[int, Waits], now: float, most: int) -> frozenset[int]:
    """Return those that are called now: which are due, or all if the others have had their tries. Empty: none is due."""
    due = frozenset(number for number, waits in left.items() if waits.due <= now)
    is_last = all(waits.times >= most for number, waits in left.items() if number not in due)
    return frozenset(left) if is_last else due


def seconds_until(left: Mapping[int, Waits], now: float) -> int:
    """Return the seconds until one of them is due, or those for which a message may be hidden."""
    return ceil(min(LONGEST_PAUSE, max(0.0, min(waits.due for waits in left.values()) - now)))


def judge_left(  # noqa: PLR0913 - a delivery, and what was known before
    failed: Sequence[Left],
    before: Mapping[int, Waits],
    resting: Mapping[int, Waits],
    *,
    ended: int,
    has_called: bool,
    is_outage: bool,
    rest: float,
    since: int,
    now: float,
    most: int,
    put_off: int,
) -> Leftover:
    """Judge a delivery: `failed` are left of those that it could call, `resting` are the others.

    `ended`: the transactions of the chunk that have ended, in any delivery. `has_called`: whether any call of this one began.
    `rest`: the seconds for which the service rests. `since`: when the first was left. `most`: the tries of one that waits.
    `put_off`: how many deliveries were put off before.
    """
    kinds = {one.number: _kind_of(one.error) for one in failed}
    has_waited = _Kind.WAITING in kinds.values()
    is_outage = has_waited and (is_outage or not ended)
    left, pauses = dict(resting), [waits.due - now for waits in resting.values()]
    outage = 0.0
    if is_outage:
        rest = max(rest, pause_after(put_off + 1))
        # Next time those come first that were not called: one that always fails would keep them from it.
        outage = rest + FIRST_PAUSE * (_Kind.UNCALLED in kinds.values())
    for one in failed:
        before_it, kind = before.get(one.number, _NEVER), kinds[one.number]
        left[one.number] = before_it if kind is _Kind.UNCALLED else Waits(before_it.times)
        if kind is _Kind.WAITING:
            left[one.number] = _wait(one.error, before_it.times + (not is_outage), now, outage)
            pauses.append(left[one.number].due - now)
        else:
            # A delivery that called ended because its time was over.
            pauses.append(0 if has_called and kind is _Kind.UNCALLED else FIRST_PAUSE)
    return Leftover(
        left=left,
        waits=bool(resting) or set(kinds.values()) != {_Kind.FAULT},
        is_spent=not (resting or is_outage)
        and _Kind.UNCALLED not in kinds.values()
        and all(left[number].times >= most for number, kind in kinds.items() if kind is _Kind.WAITING),
        has_faults=_Kind.FAULT in kinds.values(),
        is_endless=is_outage and 0 < since <= now - LONGEST_OUTAGE,
        seconds=ceil(min(LONGEST_PAUSE, max(0.0, rest, min(pauses)))),
    )


def rank_failure(error: Exception) -> int:
    """Return how much a failure says of a chunk: one that is for good says most, and a call that did not begin least."""
    return -1 if nature_of(error) is Nature.PERMANENT else _kind_of(error).value


class _Kind(Enum):
    FAULT = 0
    WAITING = 1
    UNCALLED = 2


def _kind_of(error: Exception) -> _Kind:
    if is_uncalled(error):
        return _Kind.UNCALLED
    return _Kind.WAITING if is_waiting_error(error) else _Kind.FAULT


def _wait(error: Exception, times: int, now: float, outage: float) -> Waits:
    said = error.seconds if isinstance(error, Later) else 0.0
    return Waits(times, ceil(now + max(said, outage or pause_after(max(1, times)))))
