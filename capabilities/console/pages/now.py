"""Now: what needs a person, the last hours, open jobs, and what the last tick saw.

On demand what is decided and why, the processes, the queues and the gates. And a moment of the past.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from werkzeug.exceptions import BadRequest

from capabilities.console.alerts import find_alerts
from capabilities.console.day_strip import DAY, MOST_ROWS, SPANS, draw_strip
from capabilities.console.render import show_duration, show_number
from capabilities.console.visit import Page, Visit
from shared.operating import GATES, JOBS, row_of_job
from shared.watch import KEPT, Hour, Point, list_points

#: Seconds for which a page that was opened takes a part that another page has read.
_OPENED: Final = 2.0
#: And one that looks again, each five to ten seconds, while something moves.
_LOOKED: Final = 1.0
#: Seconds for which it takes the queues. They cost two requests each, and say nothing about how far a job is.
_QUEUES: Final = 30.0
#: Seconds for which one that looks again takes gates and parked entries, while something moves and while nothing does.
_MOVING, _IDLE = 60.0, 1200.0
_DAY_HOURS: Final = 24
_FOREVER: Final = float("inf")
#: Points of the plot: a reading each half minute, for 75 minutes.
_MOST_POINTS: Final = 150


def show_now(visit: Visit) -> Page:
    """Show the installation. While nothing moves, a page that looks again costs one request."""
    if visit.query.get("at"):
        return _show_then(visit, _read_moment(visit.query["at"]))
    span = _read_span(visit.query.get("hours", ""))
    snapshot = visit.view.snapshot
    is_moving = not visit.is_look or snapshot.is_moving()
    age = (_LOOKED if is_moving else _FOREVER) if visit.is_look else _OPENED
    slow = (_MOVING if is_moving else _IDLE) if visit.is_look else _OPENED
    standing, work = snapshot.needs(age), snapshot.open_work(age)
    parked = snapshot.count_parked(slow)
    hours = _read_hours(visit, standing.hours, span)
    before = _read_yesterday(visit, span) if visit.query.get("beside") else None
    strip = draw_strip(hours, None if standing.more else standing.needs, standing.named or visit.now, span, before)
    values = {
        "strip": strip,
        "spans": SPANS,
        "most_rows": MOST_ROWS,
        "last": next((one for one in reversed(list_points(standing.hours)) if one.point), None),
        "span": span,
        "look_cost": snapshot.look_cost,
        "columns": JOBS,
        "jobs": [row_of_job(job, visit.now) for job in work.jobs],
        "open_number": work.number,
        "has_all": work.is_whole,
        "alerts": find_alerts(
            standing=standing, work=work, parked=parked, words=visit.view.needs, now=visit.now, link=visit.link
        ),
        "looked": None,
    }
    if visit.query.get("look"):
        values |= {"looked": True, **_look_at_parts(visit, age, slow)}
    return Page(
        title="Now",
        section="now",
        template="now.html",
        values=values,
        looks_again=span <= _DAY_HOURS and before is None,
        is_busy=work.is_moving,
        has_plot=True,
        inset="_day.html",
    )


def _look_at_parts(visit: Visit, age: float, slow: float) -> dict[str, Any]:
    """Return the decision, the processes, the queues and the gates, as they are now."""
    snapshot = visit.view.snapshot
    fleet = snapshot.fleet(age)
    return {
        "decision": fleet.decision,
        "rules_version": fleet.rules.version,
        "governors": sorted(fleet.governors.items()),
        "processes": sorted(fleet.fresh(visit.now), key=lambda one: one.name),
        "queues": snapshot.queues(max(age, _QUEUES) if visit.is_look else age),
        "points": snapshot.points()[-_MOST_POINTS:],
        "gate_columns": GATES,
        "holding": [row for row in snapshot.gates(slow) if row.held.count],
    }


def _read_span(text: str) -> int:
    if text and text not in map(str, SPANS):
        raise BadRequest(f"a page shows {', '.join(map(str, SPANS))} hours")
    return int(text or _DAY_HOURS)


def _read_hours(visit: Visit, known: Sequence[Hour], span: int) -> Sequence[Hour]:
    """Return the hours of a span. A day was read with the needs, and a week is a request more, once."""
    if span <= _DAY_HOURS:
        return known
    return visit.view.stores.watch.read_hours(visit.now - timedelta(hours=span), visit.now)


def _read_yesterday(visit: Visit, span: int) -> Sequence[Hour]:
    """Return the same hours of the day before, by a request more, once."""
    if span > _DAY_HOURS:
        raise BadRequest(f"at most {_DAY_HOURS} hours are shown beside those of the day before")
    until = visit.now - DAY
    return visit.view.stores.watch.read_hours(until - timedelta(hours=span), until)


def _read_moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest("a moment has the form 2026-11-25T02:13, in UTC") from error
    return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)


def _show_then(visit: Visit, at: datetime) -> Page:
    """Show a moment of the past. One request."""
    then = visit.view.stores.watch.read_moment(at)
    step = timedelta(minutes=15)
    values = {
        "then": then,
        "facts": list(_state_facts(then.point.point)) if then.point and then.point.point else [],
        "earlier": f"{at - step:%Y-%m-%dT%H:%M}",
        "later": f"{at + step:%Y-%m-%dT%H:%M}",
        "is_older": at < visit.now - KEPT,
        "kept_since": visit.now - KEPT,
    }
    return Page(title=f"At {at:%Y-%m-%d %H:%M} UTC", section="now", template="then.html", values=values)


def _state_facts(point: Point) -> Iterator[tuple[str, str]]:
    yield "messages", f"{point.depth:,} waited, the oldest for {show_duration(point.oldest_age)}"
    yield "tasks", f"{point.tasks:,} were allowed{f', as {point.binding} decided' if point.binding else ''}"
    yield "processes", f"{point.processes:,} worked, with {show_number(point.in_flight)} messages"
    yield (
        "in the time before",
        f"{point.arrived:,} messages came and {point.drained:,} were done, {point.failed:,} failed",
    )
    yield "transactions", f"{point.transactions:,} in {show_duration(point.seconds)}"
