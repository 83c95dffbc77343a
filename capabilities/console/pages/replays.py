"""Replays: the list, one with its waves, its start from a cause, and its stop."""

from dataclasses import replace

from werkzeug.exceptions import NotFound

from capabilities.console.acts import read_form
from capabilities.console.pages.parked import select_cause, show_cause
from capabilities.console.visit import Page, Visit
from shared.errors import ActStaleError, JobStateError
from shared.operating import REPLAYS, ReplayFate, ReplayPace, describe_end, describe_progress

#: Replays of the list.
MOST_LISTED = 50


def show_replays(visit: Visit) -> Page:
    """Show the last replays, the newest first. One request."""
    replays = visit.view.stores.replays.newest(MOST_LISTED)
    return Page(
        title="Replays",
        section="parked",
        template="replays.html",
        values={"replays": replays, "columns": REPLAYS},
        looks_again=True,
    )


def show_replay(visit: Visit, replay: str) -> Page:
    """Show one replay with its waves. One request."""
    found = visit.view.stores.replays.find(replay)
    if found is None:
        raise NotFound(f"no replay is called {replay!r}, or it ended long ago: the audit has who requested it")
    out = found.out.entries if found.out else ()
    values = {
        "replay": found,
        "is_still": found.is_still(visit.now),
        "out": len(out),
        "known": sum(entry.fate is not None for entry in out),
        "fates": list(ReplayFate),
        "progress": "" if found.is_over else describe_progress(found),
        "ending": describe_end(found) if found.is_over else "",
    }
    return Page(
        title=f"Replay {found.id}",
        section="parked",
        template="replay.html",
        values=values,
        looks_again=not found.is_over,
        acts="" if found.is_over else "replay_acts.html",
    )


def start_replay(visit: Visit, fingerprint: str) -> Page | str:
    """Request a replay of a cause as the person saw it, and go to its page."""
    posted = read_form(visit.fields, visit.person, visit.link("start_replay", fingerprint=fingerprint), visit.now)
    operator, selection = visit.view.build_operator(), select_cause(visit, fingerprint)
    try:
        asked = operator.ask_replay(
            selection, ReplayPace(), by=posted.who, why=posted.why, seen=posted.seen, named=posted.named
        )
    except (ActStaleError, JobStateError) as error:
        # A second click finds what the first one has put back.
        visit.view.stores.audit.check_new(posted.named)
        return replace(show_cause(visit, fingerprint), status=409, notice=str(error))
    visit.view.step_replay(asked.id)
    return visit.link("replay", replay=asked.id)


def stop_replay(visit: Visit, replay: str) -> str:
    """Have a replay stop, and go to its page."""
    posted = read_form(visit.fields, visit.person, visit.link("stop_replay", replay=replay), visit.now)
    if visit.view.stores.replays.find(replay) is None:
        raise NotFound(f"no replay is called {replay!r}")
    visit.view.build_operator().stop_replay(replay, by=posted.who, why=posted.why, named=posted.named)
    # Where no process has it in hand, this one takes the last step.
    visit.view.step_replay(replay)
    return visit.link("replay", replay=replay)
