"""The one error of a broker that does not start."""

from pathlib import Path

#: Lines of the log that the error repeats.
_TAIL_LINES = 5


class StartError(Exception):
    """Raised when the broker does not start, with the last lines of its log."""

    @classmethod
    def with_log(cls, what: str, log: Path) -> "StartError":
        """Return the error with the last lines of the log, which stays."""
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return cls(f"{what}; the log {log} ends: {' | '.join(lines[-_TAIL_LINES:]) or '(empty)'}")
