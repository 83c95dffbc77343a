"""The tables of docs/appendix/telemetry.md: what the app tells about itself, from its catalogues."""

import logging
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

from shared.capability import builtin_names, find
from shared.telemetry import EVENTS, METRICS, PIECES, LogEvent
from tools.local.infra.tables import Table
from tools.local.paths import ROOT


def _events_of_all() -> list[LogEvent]:
    """Return the events of the base, and those of the capabilities that come with Sluice."""
    own = chain.from_iterable(find(said).capability.events for said in builtin_names())
    return list(dict.fromkeys([*EVENTS, *own]))


def _alerts() -> Table:
    alerts = [(event, event.alert) for event in _events_of_all() if event.alert]
    rows = [
        (f"`{event.name}`", event.meaning, f"`{alert.where}`" if alert.where else "every one", event.remedy)
        for event, alert in sorted(alerts, key=lambda one: one[1].severity)
    ]
    return ("event", "what happened", "calls for", "what to do"), rows


def _queries() -> Table:
    rows = []
    for file in sorted((ROOT / "infra" / "queries").glob("*.kql")):
        asks, *rest = (line.removeprefix("// ") for line in file.read_text().splitlines() if line.startswith("//"))
        without = next((line.partition(": ")[2] for line in rest if line.startswith("Without")), "")
        rows.append((f"[{file.stem}](../../infra/queries/{file.name})", asks, f"`{without}`" if without else ""))
    return ("query", "what it answers", "the same from the ledger"), rows


def _spans() -> Table:
    rows = [(f"`{piece.value}`", what, under) for piece, (what, under) in PIECES.items()]
    return ("span", "the work", "stands under"), rows


def _metrics() -> Table:
    rows = [
        (
            f"`{metric.name}`",
            metric.kind.value,
            metric.unit,
            ", ".join(metric.attributes),
            metric.meaning,
            metric.remedy,
        )
        for metric in (*METRICS, *chain.from_iterable(find(said).capability.metrics for said in builtin_names()))
    ]
    return ("metric", "kind", "unit", "by", "what it counts", "when it looks wrong"), rows


def _events() -> Table:
    rows = [
        (f"`{event.name}`", logging.getLevelName(event.level).lower(), event.meaning, ", ".join(event.fields))
        for event in _events_of_all()
    ]
    return ("event", "level", "what happened", "fields"), rows


TABLES: Final[Mapping[str, Callable[[], Table]]] = {
    "alerts": _alerts,
    "events": _events,
    "metrics": _metrics,
    "spans": _spans,
    "queries": _queries,
}
