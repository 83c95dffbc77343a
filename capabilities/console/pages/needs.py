"""The page of one need, with the form by which a person says that it is done."""

from dataclasses import replace

from werkzeug.exceptions import NotFound

from capabilities.console.acts import read_form
from capabilities.console.alerts import link_need
from capabilities.console.visit import Page, Visit
from shared.operating import AuditedAct


def show_need(visit: Visit, kind: str, about: str) -> Page:
    """Show one need, with the form that takes it off the list. One request."""
    need = visit.view.stores.watch.find(kind, about)
    if need is None:
        raise NotFound(f"{about!r} does not need a person any more: what needs one is on Now")
    words = visit.view.needs.get(kind)
    remedy = words.remedy if words else need.remedy
    values = {"need": need, "remedy": remedy, "address": link_need(visit.link, need, words), "seen": need.found}
    title = f"{need.words}: {about}"
    return Page(title=title, section="now", template="need.html", values=values, acts="need_acts.html")


def end_need(visit: Visit, kind: str, about: str) -> Page | str:
    """Take a need off the list as the person saw it, and go to Now."""
    posted = read_form(visit.fields, visit.person, visit.link("end_need", kind=kind, about=about), visit.now)
    stores = visit.view.stores
    # A second click finds the act of the first one.
    stores.audit.check_new(posted.named)
    page = show_need(visit, kind, about)
    if page.values["seen"] != posted.seen:
        return replace(
            page, status=409, notice="it says something else than you saw: nothing was done, so decide again"
        )
    with stores.audit.record(AuditedAct(posted.who, "need done", about, posted.why), posted.named) as act:
        stores.watch.end(kind, about, visit.now)
        act.result = "taken off the list"
    return visit.link("now")
