"""Nights: the latest ones, and one with its jobs in the order in which they wait for each other."""

from dataclasses import dataclass
from typing import Final

from werkzeug.exceptions import NotFound

from capabilities.console.visit import Page, Visit
from shared.ledger import CLOSED, NightLine
from shared.operating import JobRow, describe_check, explain_line, put_in_order, row_of_job, sum_up

#: Nights of the list, each a request.
_MOST_LISTED: Final = 20
#: Jobs of a step that its box names. The table has all.
_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class _Step:
    """Jobs that may run at the same time, drawn as one bar."""

    lines: list[NightLine]
    items: int
    ended: int
    parked: int
    #: Their states, each with the number of jobs.
    states: dict[str, int]

    @property
    def named(self) -> list[NightLine]:
        """Those that the box names."""
        return self.lines[:_MOST_NAMED]


@dataclass(frozen=True, slots=True)
class _Line:
    row: JobRow
    line: NightLine
    why: str


def show_nights(visit: Visit) -> Page:
    """Show the latest nights, the newest first. One request, and one for each."""
    jobs, prices = visit.view.stores.job_list, visit.view.prices
    nights = [(night, sum_up(jobs.read_night(night), prices, visit.now)) for night in jobs.list_nights(_MOST_LISTED)]
    values = {"nights": nights, "currency": prices.currency}
    return Page(title="Nights", section="jobs", template="nights.html", values=values)


def show_night(visit: Visit, night: str) -> Page:
    """Show one night. One request, and two for each gate of it."""
    stores, prices = visit.view.stores, visit.view.prices
    lines = stores.job_list.read_night(night)
    if not lines:
        raise NotFound(f"there is no night {night!r}: the page Nights lists the last ones")
    rows = {one.listed.job: row_of_job(one.listed, visit.now) for one in lines}
    values = {
        "night": night,
        "sum": sum_up(lines, prices, visit.now),
        "currency": prices.currency,
        "steps": [_draw(some, rows) for some in put_in_order(lines)],
        "lines": [_Line(rows[one.listed.job], one, explain_line(one, lines)) for one in lines],
        "checked": [
            (gate, describe_check(note, happened))
            for gate, note, happened in stores.forecast_check.check_night(lines, prices)
        ],
    }
    is_over = all(one.listed.state in CLOSED for one in lines)
    return Page(title=f"Night {night}", section="jobs", template="night.html", values=values, looks_again=not is_over)


def _draw(lines: list[NightLine], rows: dict[str, JobRow]) -> _Step:
    states = [rows[one.listed.job].state for one in lines]
    return _Step(
        lines=lines,
        items=sum(one.listed.items for one in lines),
        ended=sum(one.accepted + one.rejected for one in lines),
        parked=sum(one.parked for one in lines),
        states={state: states.count(state) for state in dict.fromkeys(states)},
    )
