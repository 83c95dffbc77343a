"""Errors of the local stack, each in one line that names the fix.

StackError
├── StartError    a part of the stack did not come up
└── SetupError    something that `make` needs is not on this machine
"""

from pathlib import Path

#: Lines of a part's log that are worth repeating in its error.
TAIL_LINES = 5


class StackError(Exception):
    """Raised when the local stack cannot run a command. The text is for the person at the terminal."""


class StartError(StackError):
    """Raised when a part of the stack did not come up."""

    @classmethod
    def with_log(cls, what: str, log: Path) -> "StartError":
        """Return the error with the last lines of the part's log, which stays where it is."""
        return cls(f"{what}; the log {log} ends: {tail(log)}")


class SetupError(StackError):
    """Raised when something that `make` needs is not on this machine."""


def tail(log: Path) -> str:
    """Return the last lines of a log on one line."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    kept = [line.strip() for line in lines if line.strip()][-TAIL_LINES:]
    return " | ".join(kept) or "(empty)"
