"""Rules: those in force with the decisions made by them, others tried on a day of work, and put in force after that."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from werkzeug.exceptions import BadRequest

from capabilities.console.acts import read_form
from capabilities.console.render import clean
from capabilities.console.visit import Page, Visit
from shared.concurrency import BUILT_IN, NONE, SAMPLE, Lint, Rules, RulesText, Trace, lint, trace_of
from shared.errors import ActStaleError, RulesRefusedError, TraceRefusedError
from shared.operating import put_rules, warn_of_older_processes
from shared.simulation import SPAN, Outcome, Push, Simulation, Span, bursty_day
from shared.usage import price
from shared.watch import KEPT, hours_of_day

#: Decisions on one page.
MOST: Final = 50
#: Messages of a day that a page replays, which takes it about two seconds. `sluice tune dry-run` has no limit.
MOST_MESSAGES: Final = 200_000
#: A version in YAML or JSON.
_VERSION: Final = re.compile(r'^([ {]*"?version"? *: *)[0-9]+', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tried:
    """A dry run: the same day by two sets of rules."""

    outcomes: tuple[Outcome, ...]
    prices: tuple[Decimal, ...]
    #: The beginning of a span, and what was worst in it by each.
    points: list[tuple[datetime, tuple[Span, ...]]]


def show_rules(visit: Visit) -> Page:
    """Show the rules in force, and the last decisions with their reasons. Two requests."""
    stores = visit.view.stores
    found, decisions = stores.rules.look(None), stores.fleet.history(MOST)
    text = found.text if isinstance(found, RulesText) else ""
    values = {
        "lines": _mark(text, lint(text)),
        "decisions": decisions,
        "draft": _raise_version(text) if text else SAMPLE,
        "day": "",
    }
    return replace(_page("Rules", "rules.html", "rules_acts.html", values), looks_again=True)


def lead_to_rules(visit: Visit) -> str:
    """Lead there who opens the address of a dry run: its rules were in the form."""
    return visit.link("rules")


def try_rules(visit: Visit) -> Page:
    """Try rules on a day of work, beside those in force. Two requests, one on the synthetic day."""
    return _try(visit, _read_text(visit), visit.fields.get("day", ""))


def put(visit: Visit) -> Page | str:
    """Put the rules of a dry run in force, if those in force are the ones that it compared them with."""
    text, day = _read_text(visit), visit.fields.get("day", "")
    posted = read_form(visit.fields, visit.person, visit.link("put_rules"), visit.now)
    seen, _, digest = posted.seen.partition(" ")
    if digest != _digest(text):
        raise BadRequest("these are not the rules of the dry run: nothing was done")
    stores = visit.view.stores
    found = stores.rules.look(None)
    if seen != _name_seen(found):
        # A second click finds the rules as the first one left them.
        stores.audit.check_new(posted.named)
        return _refuse(visit, text, day, "the rules in force were changed since your dry run: nothing was done")
    try:
        put_rules(
            stores.rules,
            stores.audit,
            text,
            by=posted.who,
            why=posted.why,
            rooms=visit.view.rooms,
            seen=seen,
            named=posted.named,
        )
    except (ActStaleError, RulesRefusedError) as refusal:
        return _refuse(visit, text, day, str(refusal))
    return visit.link("rules")


def _refuse(visit: Visit, text: str, day: str, why: str) -> Page:
    return replace(_try(visit, text, day), status=409, notice=f"{why}; this is a dry run of now, so decide again")


def _try(visit: Visit, text: str, day: str) -> Page:
    found, linted = visit.view.stores.rules.look(None), lint(text, visit.view.rooms)
    values: dict[str, Any] = {"lines": _mark(text, linted), "draft": text, "day": day, "notes": linted.notes}
    if linted.rules is None:
        return replace(_page("Dry run", "rules_faults.html", "rules_acts.html", values), status=400)
    try:
        trace = _read_trace(visit, day)
    except TraceRefusedError as refusal:
        page = _page("Dry run", "rules_faults.html", "rules_acts.html", values)
        return replace(page, status=400, notice=str(refusal))
    values["notes"] = [*linted.notes, *warn_of_older_processes(linted.rules, visit.view.stores.fleet, visit.now)]
    current = lint(found.text).rules if isinstance(found, RulesText) else None
    values |= {
        "wanted": linted.rules,
        "trace": trace,
        "seen": f"{_name_seen(found)} {_digest(text)}",
        "too_low": current is not None and linted.rules.version <= current.version,
        "current": current,
        "tried": _replay(visit, trace, current or BUILT_IN, linted.rules),
        "currency": visit.view.prices.currency,
    }
    return _page("Dry run", "dry_run.html", "dry_run_acts.html", values)


def _page(title: str, template: str, acts: str, values: Mapping[str, Any]) -> Page:
    return Page(title=title, section="rules", template=template, values=values, acts=acts, has_plot=True)


def _read_text(visit: Visit) -> str:
    # Browsers send CRLF. Made harmless here and not when shown, so that the rules that are put are those that were tried.
    lines = visit.fields.get("text", "").replace("\r\n", "\n").strip("\n").split("\n")
    return "\n".join(clean(line.expandtabs()) for line in lines) + "\n"


def _read_trace(visit: Visit, day: str) -> Trace:
    if not day:
        return bursty_day()
    try:
        wanted = date.fromisoformat(day)
    except ValueError as error:
        raise BadRequest("a day has the form 2026-11-20") from error
    trace = trace_of(visit.view.stores.watch.read_hours(*hours_of_day(wanted)))
    if trace is None:
        raise TraceRefusedError(
            f"nothing was recorded on {wanted}: no job was open, or it is longer ago than {KEPT.days} days"
        )
    messages = sum(one.arrived for one in trace.stretches)
    if not messages:
        raise TraceRefusedError(f"nothing arrived on {wanted}: there is nothing to replay")
    if messages > MOST_MESSAGES:
        raise TraceRefusedError(
            f"{messages:,} messages arrived on {wanted}, and a page replays {MOST_MESSAGES:,} at most: "
            f"`sluice tune trace {wanted}`, then `sluice tune dry-run RULES --trace FILE`"
        )
    return trace


def _replay(visit: Visit, trace: Trace, current: Rules, wanted: Rules) -> _Tried:
    before = f"version {current.version}, in force" if current.version else "built in, in force"
    outcomes = (
        Simulation(trace, Push(current, before)).run(),
        Simulation(trace, Push(wanted, f"these, version {wanted.version}")).run(),
    )
    midnight = trace.stretches[0].at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return _Tried(
        outcomes,
        tuple(price(one.usage, visit.view.prices).total for one in outcomes),
        _join(midnight, outcomes),
    )


def _join(midnight: datetime, outcomes: Sequence[Outcome]) -> list[tuple[datetime, tuple[Span, ...]]]:
    days = 1 + max(number for one in outcomes for number in one.spans) * SPAN // 86_400
    spans = [defaultdict(Span, one.spans) for one in outcomes]
    return [
        (midnight + timedelta(seconds=number * SPAN), tuple(one[number] for one in spans))
        for number in range(days * 86_400 // SPAN)
    ]


def _mark(text: str, linted: Lint) -> list[_Line]:
    """Return the lines with the faults of each. The first has those of the text as a whole."""
    if not text:
        return []
    faults = defaultdict[int, list[str]](list)
    lines = text.rstrip("\n").split("\n")
    for one in linted.problems:
        faults[min(max(1, one.line), len(lines))].append(one.what)
    return [_Line(number, line, tuple(faults[number])) for number, line in enumerate(lines, 1)]


def _raise_version(text: str) -> str:
    linted = lint(text)
    return _VERSION.sub(rf"\g<1>{linted.rules.version + 1}", text, count=1) if linted.rules else text


def _name_seen(found: object) -> str:
    return found.etag if isinstance(found, RulesText) else NONE


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
