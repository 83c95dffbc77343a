"""The page of one need, with the form by which a person says that it is done."""

from dataclasses import replace

from werkzeug.exceptions import NotFound

from capabilities.console.acts import read_form
from capabilities.console.visit import Page, Visit
from shared.operating import AuditedAct
from shared.watch import Need, NeedKind


def link_need(visit: Visit, need: Need) -> str:
    """Return the page that helps: that of the job, the replays, or Now."""
    if need.is_of_job:
        return visit.link("job", job=need.about)
    return visit.link("replays") if need.kind == NeedKind.REPLAY_STOPPED else visit.link("now")


def show_need(visit: Visit, kind: str, about: str) -> Page:
    """Show one need, with the form that takes it off the list. One request."""
    need = visit.view.stores.watch.find(kind, about)
    if need is None:
        raise NotFound(f"{about!r} does not need a person any more: what needs one is on Now")
    values = {"need": need, "address": link_need(visit, need), "seen": need.found}
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
