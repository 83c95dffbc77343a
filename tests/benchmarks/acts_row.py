"""A row of the table of acts and stages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, and what it must be."""

    what: str
    found: str
    goal: str
    is_good: bool

    def cells(self) -> tuple[str, str, str, str]:
        """Return its cells."""
        return self.what, self.found, self.goal, "yes" if self.is_good else "NO"
