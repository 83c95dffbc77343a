"""The columns of orders and of those that run, for the command and the pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from capabilities.registration.order import order_home
from shared.operating import Aside, ListColumn, StateMark, describe_duration
from shared.processes import STUCK_AFTER, TimeoutRow

_Order = Mapping[str, Any]


def _read_moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


#: Of an order as its customer reads it.
ORDERS: Final = (
    ListColumn[_Order]("order", lambda row, _: row["order"], page="order", parts=lambda row: {"order": row["order"]}),
    ListColumn[_Order]("state", lambda row, _: StateMark(row["state"])),
    ListColumn[_Order]("number", lambda row, _: str(row["number"] or ""), is_number=True),
    ListColumn[_Order](
        "conference",
        lambda row, _: row["conference"],
        page="conference",
        parts=lambda row: {"conference": row["conference"]},
    ),
    ListColumn[_Order]("total", lambda row, _: row["total"], is_number=True),
    ListColumn[_Order]("paid", lambda row, _: row["paid"], is_number=True),
    ListColumn[_Order]("unsettled", lambda row, _: len(row["unsettled"]) or "", is_number=True),
    ListColumn[_Order]("expires", lambda row, _: _read_moment(row["expires_at"]), is_time=True),
)


@dataclass(frozen=True, slots=True)
class RunningOrder:
    """An order that waits for something, at most until it expires."""

    order: str
    expires: datetime

    def count_late(self, now: datetime) -> int:
        """Return the seconds since it should have ended."""
        return int(max(timedelta(), now - self.expires).total_seconds())

    def is_stuck(self, now: datetime) -> bool:
        """Return whether two ticks should have ended it."""
        return now - self.expires >= STUCK_AFTER


def running_order(row: TimeoutRow) -> RunningOrder:
    """Return an order as the agenda has it."""
    return RunningOrder(row.home.removeprefix(order_home("")), row.due)


def _note_late(row: RunningOrder, now: datetime) -> Iterator[Aside]:
    if late := row.count_late(now):
        yield Aside(f"{describe_duration(late)} late")


RUNNING_ORDERS: Final = (
    ListColumn[RunningOrder]("order", lambda row, _: row.order, page="order", parts=lambda row: {"order": row.order}),
    ListColumn[RunningOrder]("state", lambda row, now: StateMark("stuck" if row.is_stuck(now) else "running")),
    ListColumn[RunningOrder]("expires", lambda row, _: row.expires, _note_late, is_time=True),
)
