"""What a part of the registration benchmark found, beside its goals."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal, and what was measured."""

    name: str
    wanted: str
    found: str
    is_reached: bool

    @classmethod
    def least(cls, name: str, value: float, least: float, unit: str = "") -> Self:
        """Return a goal that is reached from this value on."""
        return cls(name, f"at least {least:g}{unit}", f"{value:.1f}{unit}", value >= least)

    @classmethod
    def most(cls, name: str, value: float, most: float, unit: str = "") -> Self:
        """Return a goal that is reached up to this value."""
        return cls(name, f"at most {most:g}{unit}", f"{value:.2f}{unit}", value <= most)


class Finding(NamedTuple):
    """What one part found."""

    part: str
    #: The head first.
    table: Sequence[Sequence[str]]
    goals: Sequence[Goal]
    #: A sentence about the run.
    note: str = ""

    def text(self) -> str:
        """Return it for the page."""
        judged = [("goal", "wanted", "found", ""), *map(_judged, self.goals)]
        return "\n\n".join(filter(None, (self.note, markdown(self.table), markdown(judged) if self.goals else "")))


def _judged(goal: Goal) -> tuple[str, ...]:
    return goal.name, goal.wanted, goal.found, "reached" if goal.is_reached else "missed"


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def say(text: str) -> None:
    """Print a line at once: a run takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
