"""What a check found, in one line that says where, what is wrong and what to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; a skip is not wrong, it says what was not looked at."""

    where: str
    problem: str
    is_skip: bool = False

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return f"{'skipped: ' if self.is_skip else ''}{self.where}: {self.problem}"
