"""Runs a chunk in parts of bounded size, one after the other, and adds up what they come to.

Nearly every chunk is one part. What is kept of its parts is their partials, merged, and their rejections as bytes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from shared.ledger.amounts import amounts, plus, texts
from shared.payload.limits import Limits
from shared.pipeline.messages import Outcome, Sums
from shared.workloads.run import Rejection, run
from shared.workloads.workload import AnyWorkload

#: What a rejection says whose text is not kept.
NOT_KEPT: Final = "not kept"
#: Characters of a reason, which a workload may have made of anything.
_LONGEST_REASON: Final = 100


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the transactions of a chunk."""

    accepted: Outcome
    rejected: Outcome
    partial: Any
    #: As they are stored: each on a line of its own.
    rejections: bytes
    #: How many lines were looked at closely; it says nothing of what came out.
    closely: int = field(default=0, compare=False)


def run_in_parts(workload: AnyWorkload, parts: Iterable[list[bytes]], first_number: int, limits: Limits) -> Ran:
    """Run the lines of each part; the first transaction has the id `first_number`."""
    kept = _Kept(limits.rejected_text_most)
    outcomes = _run_each(workload, parts, first_number, kept)
    whole = next(outcomes)
    for part in outcomes:
        whole = _both(workload, whole, part)
    return replace(whole, rejections=b"".join(kept.lines))


def _run_each(workload: AnyWorkload, parts: Iterable[list[bytes]], first_number: int, kept: "_Kept") -> Iterator[Ran]:
    for lines in parts:
        ran = run(workload, lines, first_number)
        first_number += len(lines)
        kept.add(ran.rejections)
        yield Ran(ran.accepted, ran.rejected, ran.partial, b"", ran.closely)


class _Kept:
    """The rejections of a chunk: each with its number and reason, and with its text as long as there is room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.lines: list[bytes] = []

    def add(self, rejections: Iterable[Rejection]) -> None:
        for one in rejections:
            line = msgspec.json.encode(one)
            if len(line) <= self._room:
                self._room -= len(line)
            else:
                line = msgspec.json.encode(Rejection(one.number, one.reason[:_LONGEST_REASON], NOT_KEPT, ""))
            self.lines.append(line + b"\n")


def _both(workload: AnyWorkload, left: Ran, right: Ran) -> Ran:
    accepted, rejected = _added(left.accepted, right.accepted), _added(left.rejected, right.rejected)
    merged = workload.merge(left.partial, right.partial)
    return Ran(accepted, rejected, merged, b"", left.closely + right.closely)


def _added(left: Outcome, right: Outcome) -> Outcome:
    return Outcome(items=left.items + right.items, sums=_sums(left.sums, right.sums))


def _sums(left: Sums | None, right: Sums | None) -> Sums | None:
    if left is None or right is None:
        return None
    found = texts(plus(amounts(left), amounts(right)))
    # What adds up to nothing is left out there.
    return {name: found.get(name, "0") for name in {**left, **right}}
