"""The pages, one module each.

A route has the name of its page; `ROUTES` lists them all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from capabilities.console.pages import find, gates, jobs, needs, nights, now, parked, records, replays, rules
from capabilities.console.visit import Download, Page, Visit
from shared.app import Stores
from shared.operating import Hit


@dataclass(frozen=True, slots=True)
class Route:
    """The address of a page, and the function that makes it."""

    path: str
    name: str
    page: Callable[..., Page | Download | str]
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class CapabilityPages:
    """The pages of a capability. Its routes and its sections stand behind those of the console."""

    routes: tuple[Route, ...]
    sections: tuple[tuple[str, str], ...]
    #: Makes what its pages find in `View.parts`, from the stores and the capability's choice.
    open: Callable[[Stores, Any], object]
    #: Yields what has a text for its whole name. None: it has nothing that a person looks for.
    find: Callable[[Visit, str], Iterable[Hit]] | None = None


ROUTES: Final = (
    Route("/", "now", now.show_now),
    Route("/find", "find", find.show_find),
    Route("/need/<kind>/<about>", "need", needs.show_need),
    Route("/jobs", "jobs", jobs.show_jobs),
    Route("/job/<job>", "job", jobs.show_job),
    Route("/job/<job>/file/<kind>", "file", jobs.download),
    Route("/nights", "nights", nights.show_nights),
    Route("/night/<night>", "night", nights.show_night),
    Route("/gates", "gates", gates.show_gates),
    Route("/gate/<gate>", "gate", gates.show_gate),
    Route("/gate/<gate>/forecast", "forecast", gates.show_forecast),
    Route("/parked", "parked", parked.show_causes),
    Route("/parked/<fingerprint>", "cause", parked.show_cause),
    Route("/parked/<job>/<key>", "entry", parked.show_entry),
    Route("/replays", "replays", replays.show_replays),
    Route("/replay/<replay>", "replay", replays.show_replay),
    Route("/rules", "rules", rules.show_rules),
    Route("/rules/dry-run", "no_dry_run", rules.lead_to_rules),
    Route("/cost", "cost", records.show_cost),
    Route("/audit", "audit", records.show_audit),
    Route("/ids", "ids", records.show_ids),
    # Acts. Each leads to the page that shows its effect.
    Route("/gate/<gate>/open", "open_gate", gates.open_gate, "POST"),
    Route("/gate/<gate>/close", "close_gate", gates.close_gate, "POST"),
    Route("/gate/<gate>/plan", "plan", gates.plan_opening, "POST"),
    Route("/need/<kind>/<about>/done", "end_need", needs.end_need, "POST"),
    Route("/night/<night>/<act>", "night_act", nights.act_on_night, "POST"),
    Route("/job/<job>/pause", "pause", jobs.pause_job, "POST"),
    Route("/job/<job>/stop", "stop", jobs.stop_job, "POST"),
    Route("/job/<job>/rerun", "rerun", jobs.rerun_job, "POST"),
    Route("/job/<job>/erase", "erase", jobs.erase_job, "POST"),
    Route("/job/<job>/resume", "resume", jobs.resume_job, "POST"),
    Route("/parked/<job>/<key>/lines", "lines", parked.show_lines, "POST"),
    Route("/parked/<fingerprint>/discard", "discard", parked.discard_cause, "POST"),
    Route("/parked/<fingerprint>/replay", "start_replay", replays.start_replay, "POST"),
    Route("/rules/dry-run", "dry_run", rules.try_rules, "POST"),
    Route("/rules/put", "put_rules", rules.put, "POST"),
    Route("/replay/<replay>/stop", "stop_replay", replays.stop_replay, "POST"),
)
#: The navigation: the name of a route, and its words.
SECTIONS: Final = (
    ("now", "Now"),
    ("jobs", "Jobs"),
    ("gates", "Gates"),
    ("parked", "Parked"),
    ("rules", "Rules"),
    ("cost", "Cost"),
    ("audit", "Audit"),
    ("ids", "Ids"),
)
