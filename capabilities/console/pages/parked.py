"""Parked: the causes, the entries of one, and an entry with everything about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from werkzeug.exceptions import BadRequest, NotFound

from capabilities.console.acts import read_form
from capabilities.console.visit import Page, Visit
from shared.app import build_entry_reader
from shared.errors import ActStaleError
from shared.operating import (
    CAUSES,
    ENTRIES,
    MOST_LINES,
    MOST_PICKS,
    ReplayForecast,
    ReplayPace,
    Selection,
    choose,
    describe_replay,
    digest_entries,
    summarize_causes,
)
from shared.parked import DOOR, NO_JOB, Entry

#: Seconds for which a page takes the entries that another one has read.
_AGE: Final = 2.0
#: Causes and entries on one page.
MOST_CAUSES: Final = 25
#: Seconds for which a request of a browser discards entries. The rest is asked about again.
_DISCARDS_FOR: Final = 20.0
PAGE: Final = 50


def show_causes(visit: Visit) -> Page:
    """Show the causes, the most frequent first: of everything, by one request, or of one job."""
    job = visit.query.get("job")
    if job is None:
        # A person who comes here from an act sees what it did.
        found = visit.view.snapshot.causes(_AGE if visit.is_look else 0)
        causes, is_complete = found.causes, found.checked_at is not None
    else:
        causes, is_complete = summarize_causes(visit.view.build_operator().select(Selection(job=job))), True
    values = {
        "causes": causes,
        "columns": CAUSES,
        "shown": causes[:MOST_CAUSES],
        "number": sum(cause.open + cause.over for cause in causes),
        "is_complete": is_complete,
        "of_job": job,
    }
    return Page(title="Parked", section="parked", template="parked.html", values=values, looks_again=True)


def select_cause(visit: Visit, fingerprint: str) -> Selection:
    """Return the selection of a cause, or of those of its entries that the person chose."""
    lines = (visit.fields.get("picks") or visit.query.get("pick", "")).splitlines()
    if len(lines) > MOST_PICKS:
        raise BadRequest(f"{len(lines)} entries are chosen, and {MOST_PICKS} at most can be: nothing was done")
    picks = [(job, key) for job, _, key in (line.partition("|") for line in lines)]
    whole = Selection(fingerprint=fingerprint)
    return whole.pick(picks) if picks else whole


def show_cause(visit: Visit, fingerprint: str) -> Page:
    """Show a cause and its entries, fifty on a page, with the acts on all of it or on chosen ones."""
    selection = select_cause(visit, fingerprint)
    chosen = Selection(fingerprint=fingerprint).select(visit.view.snapshot.parked(0 if visit.fields else _AGE))
    is_at_the_door = not chosen or any(entry.job == DOOR for entry in chosen)
    # Only a cause at the door may have files.
    counted = visit.view.snapshot.causes(_AGE).causes if is_at_the_door else []
    with_files = next((one for one in counted if one.over and one.fingerprint == fingerprint), None)
    if not chosen and with_files is None:
        raise NotFound(f"nothing is parked of {fingerprint}: all of it is done or discarded, or nothing ever was")
    (cause,) = summarize_causes(chosen)[:1] if chosen else [with_files]
    first = _read_number(visit.query.get("first", "0"))
    ordered = sorted(chosen, key=lambda entry: (entry.first_at, entry.job, entry.key))
    rest = visit.link("cause", fingerprint=fingerprint, first=str(first + PAGE)) if len(chosen) > first + PAGE else ""
    acted_on = selection.select(chosen)
    plan = _forecast_replay(visit, acted_on)
    values = {
        "cause": cause,
        "picks": "\n".join(f"{job}|{key}" for job, key in selection.picks),
        "number": len(acted_on),
        "above": with_files,
        "columns": ENTRIES,
        "entries": ordered[first : first + PAGE],
        "after": rest,
        "seen": digest_entries(acted_on),
        "plan": plan and plan.size,
        "effect": plan and describe_replay(plan),
    }
    title, acts = f"Cause {fingerprint[:12]}", "cause_acts.html" if chosen else ""
    return Page(title=title, section="parked", template="cause.html", values=values, acts=acts, acts_first=True)


def _forecast_replay(visit: Visit, entries: Sequence[Entry]) -> ReplayForecast | None:
    """Return the forecast of a replay of these. None: it would take none of them. A request for each of ten jobs."""
    chosen = choose(entries, ReplayPace())
    if not chosen or not visit.person.may_act:
        return None
    return visit.view.build_forecaster().of_replay(chosen, visit.view.prices)


def discard_cause(visit: Visit, fingerprint: str) -> Page | str:
    """Discard the entries of a cause as the person saw them, and go to the list, or to those that are left."""
    posted = read_form(visit.fields, visit.person, visit.link("discard", fingerprint=fingerprint), visit.now)
    operator = visit.view.build_operator()
    try:
        selection = select_cause(visit, fingerprint)
        done = operator.discard(
            selection, by=posted.who, why=posted.why, seen=posted.seen, named=posted.named, seconds=_DISCARDS_FOR
        )
    except ActStaleError as error:
        # A second click finds that the first one discarded them.
        visit.view.stores.audit.check_new(posted.named)
        return replace(show_cause(visit, fingerprint), status=409, notice=str(error))
    return visit.link("parked") if done.is_whole else visit.link("cause", fingerprint=fingerprint)


def show_entry(visit: Visit, job: str, key: str) -> Page:
    """Show everything about one entry. One request."""
    entry = _find_entry(visit, job, key)
    values = {"entry": entry, "is_of_job": entry.about not in {NO_JOB, DOOR}}
    return Page(title=f"Parked {key}", section="parked", template="entry.html", values=values, acts="entry_acts.html")


def show_lines(visit: Visit, job: str, key: str) -> Page:
    """Show the lines of an entry to a person who said why, and record it."""
    posted = read_form(visit.fields, visit.person, visit.link("lines", job=job, key=key), visit.now)
    entry = _find_entry(visit, job, key)
    reader = build_entry_reader(visit.view.stores)
    found = reader.read_lines(entry, MOST_LINES, by=posted.who, why=posted.why, named=posted.named)
    values = {"entry": entry, "found": found}
    return Page(title=f"Lines of {key}", section="parked", template="entry_lines.html", values=values)


def _find_entry(visit: Visit, job: str, key: str) -> Entry:
    entry = visit.view.stores.parked_table.find(job, key)
    if entry is None:
        raise NotFound(f"nothing is parked as {key!r} of job {job!r}")
    return entry


def _read_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
