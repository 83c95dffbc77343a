"""Moments as people read them, in UTC. It imports nothing that draws: an opening of a gate has no time for that."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.gate import Opening


def show_moment(at: datetime) -> str:
    """Return a moment as people read it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def describe_plan(planned: "Opening") -> str:
    """Return when a gate opens as planned."""
    return f"{show_moment(planned.at)}{' once' if planned.once else ''}"
