"""Records: who did what, what a day cost, and the story of a number."""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from werkzeug.exceptions import BadRequest

from capabilities.console.visit import Page, Visit
from shared.app import TRANSACTION_IDS
from shared.azure import usage_of_counts
from shared.ids import explain_in, read_sequence
from shared.operating import find_job_of_number
from shared.usage import MONTH, price, read_notes

#: Acts and changes on one page.
MOST: Final = 50
_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


def show_audit(visit: Visit) -> Page:
    """Show the last acts of a month. One request for a thousand acts."""
    month = visit.query.get("month") or f"{visit.now:%Y-%m}"
    if not _MONTH.fullmatch(month):
        raise BadRequest("a month has the form 2026-11")
    who, about = visit.query.get("who", ""), visit.query.get("about", "")
    acts = visit.view.stores.audit.newest(month, MOST, who=who, about=about)
    values = {"acts": acts, "month": month, "who": who, "about": about, "most": MOST}
    return Page(title="Audit", section="audit", template="audit.html", values=values)


@dataclass(frozen=True, slots=True)
class _CostRow:
    service: str
    entity: str
    cause: str
    number: int
    amount: Decimal


def show_cost(visit: Visit) -> Page:
    """Show the requests that all processes noted on a day, by entity and cause. One request."""
    day = _read_day(visit.query.get("day"), visit.now.date())
    notes, prices = read_notes(visit.view.stores.usage, day), visit.view.prices
    rows = Counter[tuple[str, str, str]]()
    amounts: dict[tuple[str, str, str], Decimal] = {}
    for counted, number in notes.counts.items():
        key = (counted.kind.service, counted.kind.entity, counted.cause.value)
        rows[key] += number
        amounts[key] = amounts.get(key, Decimal()) + price(usage_of_counts({counted: number}), prices).total
    total = sum(amounts.values(), Decimal())
    values = {
        "day": day,
        "rows": [_CostRow(*key, number, amounts[key]) for key, number in rows.most_common()],
        "number": rows.total(),
        "total": total,
        "month": total * MONTH.days,
        "noted_at": max(notes.noted_at.values(), default=None),
        "processes": len(notes.noted_at),
        "prices": str(prices),
        "currency": prices.currency,
    }
    return Page(title="Cost", section="cost", template="cost.html", values=values)


def show_ids(visit: Visit) -> Page:
    """Show the sequence of transaction ids, and the story of a number with its job. Three requests mostly."""
    stores, typed = visit.view.stores, visit.query.get("number", "").strip()
    store = stores.sequence(TRANSACTION_IDS)
    if typed and not _NUMBER.fullmatch(typed):
        raise BadRequest("a number has digits alone, at most nineteen")
    page = read_sequence(store)
    told = explain_in(store, int(typed)) if typed and page else None
    between = told.time_of_draw(visit.now) if told else None
    job = find_job_of_number(stores.job_list, stores.ledger, told.number, between) if told and between else None
    events = page.events[-MOST:][::-1] if page else []
    values = {"page": page, "events": events, "story": str(told or ""), "job": job, "number": typed}
    return Page(title="Ids", section="ids", template="ids.html", values=values)


def _read_day(text: str | None, today: date) -> date:
    try:
        return date.fromisoformat(text) if text else today
    except ValueError as error:
        raise BadRequest("a day has the form 2026-11-20") from error
