"""Jobs: the list of the last ones, and one with everything around it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from werkzeug.exceptions import BadRequest, NotFound

from capabilities.console.acts import read_form
from capabilities.console.pages.chunk_grid import draw_grid
from capabilities.console.visit import Download, Page, Visit
from shared.azure import Charge
from shared.errors import ActStaleError, JobStateError, ListPlaceError, TooManyHaltsError
from shared.grammar import texts
from shared.ledger import Job, JobState, Listed, Wanted, night_of
from shared.operating import (
    JOBS,
    NOT_RECORDED,
    WRITTEN,
    JobLook,
    JobRow,
    NightAct,
    OutputKind,
    describe_act,
    describe_check,
    describe_proof,
    describe_refused,
    explain_pace,
    group_later,
    may_act,
    row_of_job,
)
from shared.parked import chunk_of_key
from shared.usage import price

PAGE: Final = 50
#: Seconds for which the list takes the parked entries that another look has read.
_PARKED_AGE: Final = 30.0
#: Fields of the form above the list.
_FILTERS: Final = ("state", "workload", "gate", "since", "before")
#: Seconds for which a request of a browser removes an erased job.
_REMOVES_FOR: Final = 20.0
#: Chunk rows of one request. More are read only if a person wants them.
_READ_AT_ONCE: Final = 1000


def show_jobs(visit: Visit) -> Page:
    """Show a page of the wanted jobs, the newest first, or those whose ids begin so.

    One request, and those of the parked entries that changed, which all tabs share.
    """
    jobs, typed = visit.view.stores.job_list, visit.query.get("id", "").strip()
    asked = {name: visit.query.get(name, "").strip() for name in _FILTERS}
    values: dict[str, Any] = {"asked": asked, "states": list(JobState), "columns": JOBS, "said": "", "next": ""}
    if typed:
        named = jobs.find(typed, PAGE)
        said = f"the first {PAGE} jobs" if len(named) == PAGE else f"{len(named) or 'no'} jobs"
        values |= {"jobs": _list_rows(visit, named), "said": f"{said} begin with {typed}"}
    else:
        try:
            page = jobs.page(_read_wanted(asked), PAGE, visit.query.get("after", ""))
        except (ValueError, ListPlaceError) as error:
            raise BadRequest(str(error)) from error
        values["jobs"] = _list_rows(visit, page.jobs)
        if page.after:
            given = {name: value for name, value in asked.items() if value}
            values["next"] = visit.link("jobs", **given, after=page.after)
    return Page(title="Jobs", section="jobs", template="jobs.html", values=values, looks_again=True)


def _list_rows(visit: Visit, jobs: Sequence[Job | Listed]) -> list[JobRow]:
    refused = group_later(jobs, visit.view.snapshot.parked(_PARKED_AGE))
    return [row_of_job(job, visit.now, refused) for job in jobs]


def _read_wanted(asked: Mapping[str, str]) -> Wanted:
    """Read the form. ValueError says which field is wrong."""
    state = asked["state"]
    if state and state not in {one.value for one in JobState}:
        raise ValueError(f"there is no state {state[:40]!r}; the states are: {', '.join(JobState)}")
    return Wanted(
        state=JobState(state) if state else None,
        workload=asked["workload"] or None,
        gate=asked["gate"] or None,
        since=_read_day(asked, "since"),
        before=_read_day(asked, "before"),
    )


def _read_day(asked: Mapping[str, str], name: str) -> datetime | None:
    text = asked[name]
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{name} is {text[:40]!r}, expected a day or a time in UTC, as 2026-11-23T14:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def show_job(visit: Visit, job: str) -> Page:
    """Show one job with everything around it."""
    stores = visit.view.stores
    look = stores.job_reader(visit.view.work_queues).look(job)
    title = f"Job {job}"
    if look.job is None and look.refused:
        refused = {"refused": look.refused}
        return Page(title=title, section="jobs", template="refused_job.html", values=refused, status=404)
    if look.job is None:
        raise NotFound(f"there is no job {job!r}: the page Jobs lists the last ones")
    values = {
        "job": look.job,
        "row": row_of_job(look.job, visit.now),
        "look": look,
        "pace": explain_pace(look, visit.now),
        "proof": describe_proof(look.job),
        "night": night_of(look.job),
        "checked": look.checked and describe_check(*look.checked),
        "refused": [(one, describe_refused(one, look.job)) for one in look.refused],
        "story": list(_tell_story(look.job)),
        "files": _list_files(look.job),
        "effects": _forecast_acts(visit, look.job),
        **_list_sums(look.job),
        **_draw_chunks(visit, look),
        **_price_job(visit, look.job),
    }
    acts = "" if look.job.state is JobState.ERASED else "job_acts.html"
    return Page(title=title, section="jobs", template="job.html", values=values, looks_again=True, acts=acts)


def _forecast_acts(visit: Visit, job: Job) -> dict[str, str]:
    """Say what each act would do that may be done to the job. A page that looks again keeps the forms that it has."""
    if visit.is_look or not visit.person.may_act:
        return {}
    forecaster, prices = visit.view.build_forecaster(), visit.view.prices
    return {
        act.value: describe_act(forecaster.of_jobs(act, [job], prices, visit.now))
        for act in NightAct
        if may_act(job, act)
    }


def _list_files(job: Job) -> list[OutputKind]:
    kinds = list(OutputKind) if job.state in WRITTEN else []
    return [kind for kind in kinds if job.lines or kind is not OutputKind.LINES]


def download(visit: Visit, job: str, kind: str) -> Download:
    """Send the lines of a finished job as a file of newline-delimited JSON. One request a part."""
    stores = visit.view.stores
    if kind not in {one.value for one in OutputKind}:
        raise NotFound(f"a job has these files: {', '.join(OutputKind)}")
    found = stores.ledger.read(job)
    if found is None or found.state not in WRITTEN:
        raise NotFound(f"job {job!r} has no outputs: they come at its end, and go with its retention")
    return Download(f"{job}-{kind}.ndjson", stores.output_reader.read(found, OutputKind(kind)))


def pause_job(visit: Visit, job: str) -> Page | str:
    """Pause a job as the person saw it, and go to its page."""
    return _act(visit, job, "pause", visit.view.stores.job_operator.pause)


def stop_job(visit: Visit, job: str) -> Page | str:
    """Stop a job as the person saw it, and go to its page."""
    return _act(visit, job, "stop", visit.view.stores.job_operator.stop)


def rerun_job(visit: Visit, job: str) -> Page | str:
    """Run a job again as the person saw it, and go to its page."""
    return _act(visit, job, "rerun", visit.view.stores.job_operator.rerun)


def resume_job(visit: Visit, job: str) -> Page | str:
    """Resume a job as the person saw it, and go to its page."""
    return _act(visit, job, "resume", visit.view.stores.job_operator.resume)


def erase_job(visit: Visit, job: str) -> Page | str:
    """Erase a job as the person saw it, whose id the person has typed, and go to its page. The tick ends a long removal."""
    if visit.fields.get("typed", "").strip() != job:
        raise BadRequest("that is not the id of the job: go back and type it; nothing was done")
    return _act(visit, job, "erase", partial(visit.view.stores.job_eraser.erase, seconds=_REMOVES_FOR))


def _act(visit: Visit, job: str, name: str, act: Callable[..., Job]) -> Page | str:
    posted = read_form(visit.fields, visit.person, visit.link(name, job=job), visit.now)
    try:
        act(job, by=posted.who, why=posted.why, seen=posted.seen, named=posted.named)
    except (ActStaleError, JobStateError, TooManyHaltsError) as error:
        return replace(show_job(visit, job), status=409, notice=str(error))
    return visit.link("job", job=job)


@dataclass(frozen=True, slots=True)
class _Moment:
    words: str
    at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """No dictionary: in a template, its `items` would be its method."""

    words: str
    items: int
    sums: Mapping[str, str]


def _tell_story(job: Job) -> Iterator[_Moment]:
    told = [_Moment(one.state.replace("_", " "), one.at, _note(one.note, one.revision)) for one in job.story]
    ended = [_Moment("finished", job.finished_at, f"revision {job.revision}")] if job.finished_at else []
    moments = [
        _Moment("accepted", job.accepted_at),
        # A row of an earlier version has no story: only its moments are known.
        *(told or [*ended, _Moment("its states", job.accepted_at, NOT_RECORDED)]),
        *([_Moment("first chunk put", job.started_at)] if job.started_at else []),
        *([_Moment("last chunk put", job.put_until)] if job.put_until else []),
        *([_Moment("silent chunks put again", job.nudged_at)] if job.nudged_at else []),
        *([_Moment("last progress", job.progressed_at)] if job.progressed_at else []),
    ]
    yield from sorted(moments, key=lambda moment: moment.at)


def _note(note: str, revision: int) -> str:
    return ", ".join(words for words in (note, f"revision {revision}" if revision > 1 else "") if words)


def _list_sums(job: Job) -> Mapping[str, Any]:
    totals, names = job.totals, sorted(job.declared)
    rest = job.not_run
    lines = [
        _Line("accepted", totals.accepted.items, texts(totals.accepted.sums)),
        _Line("rejected", totals.rejected.items, texts(totals.rejected.sums)),
        _Line("parked", totals.parked.items, texts(totals.parked.sums)),
        *([_Line("not run" if job.state is JobState.STOPPED else "open", rest, {})] if rest else []),
        _Line("declared", job.items, texts(job.declared)),
    ]
    return {"sums": names, "lines": lines}


def _draw_chunks(visit: Visit, look: JobLook) -> Mapping[str, Any]:
    job, is_wanted = look.job, "chunks" in visit.query
    if job is None or not job.chunks or (job.chunks > _READ_AT_ONCE and not is_wanted):
        return {"cells": [], "chunks_wanted": is_wanted}
    # Without an ended chunk there is no row to read.
    rows = filter(job.counts, visit.view.stores.ledger.rows(job.job)) if job.ended_chunks else ()
    retried = {chunk: one.words for one in look.retried if (chunk := chunk_of_key(one.key)) is not None}
    return {
        **asdict(draw_grid(job.chunks, {row.chunk: row.state for row in rows}, retried)),
        "chunks_wanted": is_wanted,
    }


def _price_job(visit: Visit, job: Job) -> Mapping[str, Any]:
    prices = visit.view.prices
    bill = price({Charge.parse(text): count for text, count in job.requests.items()}, prices)
    amount = f"{bill.total:.6f}".rstrip("0").rstrip(".") or "0"
    return {
        "requests_of_job": sum(job.requests.values()),
        "amount_of_job": amount,
        "currency_of_job": prices.currency,
    }
