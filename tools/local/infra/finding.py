"""Findings of a check, each in one line: the place, the fault and the remedy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. A skip is no fault: it names an unchecked part."""

    where: str
    problem: str
    is_skip: bool = False

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return f"{'skipped: ' if self.is_skip else ''}{self.where}: {self.problem}"
