"""A timer's past, as the host keeps it in a blob, and what follows from it. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from functions_local_host.schedule import Schedule

#: What .NET writes for "never ran".
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimerStatus:
    """When a timer ran, when it is due next, when this was written."""

    last: datetime | None
    next: datetime | None
    updated: datetime

    def to_json(self) -> str:
        """Return the blob's content."""
        return json.dumps(self.fields())

    def fields(self) -> dict[str, str]:
        """Return the schedule's status as the function sees it."""
        return {"Last": _text(self.last), "Next": _text(self.next), "LastUpdated": _text(self.updated)}

    @classmethod
    def from_json(cls, text: str) -> "TimerStatus | None":
        """Return the status of a blob. One that cannot be read counts as none, as a first start."""
        try:
            fields = json.loads(text)
            last, following, updated = (_moment(fields[name]) for name in ("Last", "Next", "LastUpdated"))
        except (ValueError, KeyError, TypeError):
            return None
        return cls(last, following, updated or _NEVER)


def first_status(schedule: Schedule, now: datetime) -> TimerStatus:
    """Return the first status of a timer that never ran."""
    return TimerStatus(None, schedule.next_after(now), now)


def status_after(schedule: Schedule, before: TimerStatus, ran: datetime, *, was_due: bool) -> TimerStatus:
    """Return the status after a run that began at `ran`.

    A run that fired a little early counts for its due time: the same tick must not come up twice.
    """
    moment = before.next if was_due and before.next and before.next > ran else ran
    return TimerStatus(moment, schedule.next_after(moment), moment)


def is_past_due(schedule: Schedule, status: TimerStatus, now: datetime) -> bool:
    """Return true if a run was missed. A schedule that has changed since has missed nothing."""
    return not is_changed(schedule, status) and status.next is not None and now > status.next


def is_changed(schedule: Schedule, status: TimerStatus) -> bool:
    """Return true if the status was written for another schedule."""
    return schedule.next_after(status.last or status.updated) != status.next


def _text(moment: datetime | None) -> str:
    return (moment or _NEVER).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime | None:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None if moment == _NEVER else moment
