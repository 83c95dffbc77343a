"""Writes infra/workbook.json, the workbook that Bicep deploys: each saved query, and a chart of each metric.

Its form is that of `Notebook/1.0`, as the workbooks of Microsoft's own samples have it (read 2026-11-27).
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from shared.capability import builtin_names, find
from shared.telemetry import METRICS, Instrument, Metric
from tools.local.infra import queries
from tools.local.paths import ROOT

FILE: Final = ROOT / "infra" / "workbook.json"
_WORKSPACE: Final = "microsoft.operationalinsights/workspaces"
_TIME: Final = "Time"
_DAY_MS: Final = 86_400_000
#: The times that a person may choose, in days.
_DAYS: Final = (1, 2, 7, 30)
#: A query that begins so wants the id of a job, which a workbook has not.
_ASKS: Final = "let "


def text() -> str:
    """Return the file's content."""
    return json.dumps(document(), indent=2) + "\n"


def document() -> dict[str, Any]:
    """Return the workbook."""
    return {
        "version": "Notebook/1.0",
        "items": [
            _says("title", "# Sluice\n\nWhat the app logged, then its metrics. These need the parameter `hasTraces`."),
            _times(),
            *_from_the_log(),
            *_charts(METRICS),
            *(item for said in builtin_names() for item in _charts(find(said).capability.metrics)),
        ],
        "isLocked": False,
        "$schema": "https://github.com/Microsoft/Application-Insights-Workbooks/blob/master/schema/workbook.json",
    }


def query_of(metric: Metric) -> str:
    """Return the query of a metric's chart. Each attribute is a property, as `shared/telemetry/otel.py` sends it."""
    named = ", ".join(f'{name} = tostring(Properties["sluice.{name}"])' for name in metric.attributes)
    value = (
        "total = sum(Sum)" if metric.kind is Instrument.COUNTER else "mean = sum(Sum) / sum(ItemCount), most = max(Max)"
    )
    return "\n".join(
        [
            "AppMetrics",
            f'| where Name == "{metric.name}"',
            *([f"| extend {named}"] if named else []),
            f"| summarize {value} by {', '.join((*metric.attributes, 'bin(TimeGenerated, {Time:grain})'))}",
        ]
    )


def _from_the_log() -> Iterator[dict[str, Any]]:
    for one in queries.document()["queries"]:
        code = [line for line in one["query"].splitlines() if not line.startswith("//")]
        if not code[0].startswith(_ASKS):
            yield _asks(one["name"], one["question"], "\n".join(code), "table")


def _charts(metrics: Iterable[Metric]) -> Iterator[dict[str, Any]]:
    for metric in metrics:
        yield _asks(metric.name, f"{metric.meaning} ({metric.unit})", query_of(metric), "timechart")
        yield _says(f"{metric.name} remedy", metric.remedy)


def _says(name: str, words: str) -> dict[str, Any]:
    return {"type": 1, "content": {"json": words}, "name": name}


def _asks(name: str, title: str, query: str, how: str) -> dict[str, Any]:
    content = {
        "version": "KqlItem/1.0",
        "query": query,
        "size": 0,
        "title": title,
        "timeContextFromParameter": _TIME,
        "queryType": 0,
        "resourceType": _WORKSPACE,
        "visualization": how,
    }
    return {"type": 3, "content": content, "name": name}


def _times() -> dict[str, Any]:
    chosen = {
        "id": _TIME,
        "version": "KqlParameterItem/1.0",
        "name": _TIME,
        "type": 4,
        "isRequired": True,
        "value": {"durationMs": _DAY_MS},
        "typeSettings": {"selectableValues": [{"durationMs": days * _DAY_MS} for days in _DAYS]},
    }
    content = {"version": "KqlParameterItem/1.0", "parameters": [chosen], "style": "pills", "queryType": 0}
    return {"type": 9, "content": content, "name": "times"}
