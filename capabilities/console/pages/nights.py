"""Nights: the latest ones, and one with its jobs in the order in which they wait for each other, and acts on all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from werkzeug.exceptions import BadRequest, NotFound

from capabilities.console.acts import read_form
from capabilities.console.visit import Page, Visit
from shared.ledger import CLOSED, NightLine
from shared.operating import (
    JobRow,
    NightAct,
    choose_jobs,
    describe_act,
    describe_check,
    explain_line,
    put_in_order,
    row_of_job,
    sum_up,
)

#: Nights of the list, each a request.
_MOST_LISTED: Final = 20
#: Jobs of a step that its box names. The table has all.
_MOST_NAMED: Final = 8
#: A post begins no act on a further job after this time.
_ACTS_FOR: Final = timedelta(seconds=20)


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


@dataclass(frozen=True, slots=True)
class _Planned:
    """An act that may be done, and what it would do."""

    act: str
    effect: str


def show_nights(visit: Visit) -> Page:
    """Show the latest nights, the newest first. One request, and one for each."""
    jobs, prices = visit.view.stores.job_list, visit.view.prices
    nights = [(night, sum_up(jobs.read_night(night), prices, visit.now)) for night in jobs.list_nights(_MOST_LISTED)]
    values = {"nights": nights, "currency": prices.currency}
    return Page(title="Nights", section="jobs", template="nights.html", values=values)


def show_night(visit: Visit, night: str) -> Page:
    """Show one night. One request, and two for each gate of it.

    A person who may act reads what each act would do: one request more, and one for each workload.
    """
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
        "planned": _plan_acts(visit, lines),
        "checked": [
            (gate, describe_check(note, happened))
            for gate, note, happened in stores.forecast_check.check_night(lines, prices)
        ],
    }
    is_over = all(one.listed.state in CLOSED for one in lines)
    return Page(
        title=f"Night {night}",
        section="jobs",
        template="night.html",
        values=values,
        looks_again=not is_over,
        acts="night_acts.html",
    )


def act_on_night(visit: Visit, night: str, act: str) -> Page | str:
    """Do an act to the jobs of a night, one by one, if no job has come since the person saw it, and go to its page."""
    if act not in {one.value for one in NightAct}:
        raise NotFound(f"there is no act {act!r} on a night")
    posted = read_form(visit.fields, visit.person, visit.link("night_act", night=night, act=act), visit.now)
    lines = visit.view.stores.job_list.read_night(night)
    if act == NightAct.ERASE and visit.fields.get("typed", "").strip() != night:
        raise BadRequest("that is not the name of the night: go back and type it; nothing was done")
    if posted.seen != str(len(lines)):
        refusal = f"the night has {len(lines)} jobs now, and you saw {posted.seen}: nothing was done"
        return replace(show_night(visit, night), status=409, notice=refusal)
    jobs, done, refused = choose_jobs(lines, NightAct(act)), 0, list[str]()
    acts = visit.view.stores.night_operator.act(jobs, NightAct(act), by=posted.who, why=posted.why, named=posted.named)
    for acted in acts:
        done += acted.is_done
        refused += [] if acted.is_done else [acted.words]
        if visit.view.clock.now() - visit.now >= _ACTS_FOR:
            break
    if done == len(jobs):
        return visit.link("night", night=night)
    left = len(jobs) - done - len(refused)
    words = [
        f"{done} of {len(jobs)} jobs: done",
        *([f"{left} are left: do it again"] if left else []),
        *refused[:_MOST_NAMED],
    ]
    return replace(show_night(visit, night), status=409, notice="; ".join(words))


def _plan_acts(visit: Visit, lines: Sequence[NightLine]) -> list[_Planned]:
    if visit.is_look or not visit.person.may_act:
        return []
    forecaster, prices = visit.view.build_forecaster(), visit.view.prices
    found = [forecaster.of_night(act, lines, prices, visit.now) for act in NightAct]
    return [_Planned(one.act.value, describe_act(one, len(lines))) for one in found if one.jobs]


def _draw(lines: list[NightLine], rows: dict[str, JobRow]) -> _Step:
    states = [rows[one.listed.job].state for one in lines]
    return _Step(
        lines=lines,
        items=sum(one.listed.items for one in lines),
        ended=sum(one.accepted + one.rejected for one in lines),
        parked=sum(one.parked for one in lines),
        states={state: states.count(state) for state in dict.fromkeys(states)},
    )
