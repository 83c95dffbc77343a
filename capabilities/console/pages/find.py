"""Find: all things that have a text in their names. The only one that has exactly this name is shown at once."""

from typing import Final

from capabilities.console.visit import Page, Visit
from shared.operating import NEWEST, Hit, HitKind

#: The page of each kind, and the name of the part of its address.
_PAGES: Final = {
    HitKind.JOB: ("job", "job"),
    HitKind.GATE: ("gate", "gate"),
    HitKind.CAUSE: ("cause", "fingerprint"),
    HitKind.ORDER: ("order", "order"),
    HitKind.NUMBER: ("ids", "number"),
}


def show_find(visit: Visit) -> Page | str:
    """Show what was found, or go to the only thing of exactly this name. Four requests, and five more to look further."""
    text, further = visit.query.get("q", "").strip(), visit.query.get("further") == "yes"
    hits = list(visit.view.stores.finder.find(text, further=further)) if text else []
    if text:
        hits += [hit for pages in visit.view.pages if pages.find for hit in pages.find(visit, text)]
    exact = [hit for hit in hits if hit.is_exact]
    if len(hits) == len(exact) == 1:
        return _link(visit, exact[0])
    values = {
        "text": text,
        "hits": [(hit, _link(visit, hit)) for hit in sorted(hits, key=lambda hit: not hit.is_exact)],
        "further": further,
        "newest": NEWEST,
    }
    return Page(title="Find", section="", template="find.html", values=values)


def _link(visit: Visit, hit: Hit) -> str:
    page, part = _PAGES[hit.kind]
    return visit.link(page, **{part: hit.name})
