"""The error of a host that does not start, or not stop."""

from pathlib import Path

#: Lines of the log that the error repeats.
_TAIL_LINES = 5


class StartError(Exception):
    """Raised when the host does not start or stop, with the last lines of its log where it has one."""

    @classmethod
    def with_log(cls, what: str, log: Path) -> "StartError":
        """Return the error with the last lines of the log, which stays."""
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return cls(f"{what}; the log {log} ends: {' | '.join(lines[-_TAIL_LINES:]) or '(empty)'}")


class UserCodeError(Exception):
    """Raised when a function failed in a worker that hands over the traceback as text."""
