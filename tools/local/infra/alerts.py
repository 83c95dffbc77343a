"""Writes infra/alerts.json, which Bicep makes a rule of each from: the events of the catalogue that call an operator."""

import json
from typing import Any

from shared.telemetry import EVENTS, OF_PROCESSES, Alert, LogEvent, Severity
from tools.local.paths import ROOT

FILE = ROOT / "infra" / "alerts.json"
PREFIX = "sluice."
#: An event calls an operator at its first line ...
TOLD = {"operator": "GreaterThan", "threshold": 0}
#: ... and a silent app would raise no alert, so a rule watches its tick too.
SILENT = "sluice.silence"
SILENCE = {
    "name": "silence",
    "event": SILENT,
    "severity": int(Severity.ERROR),
    "query": 'AppRequests | where Name == "tick"',
    "operator": "LessThan",
    "threshold": 1,
    "what": "the tick did not run: nothing of the app may be running, and no other alert can tell",
    "remedy": "look at the app's log for an error at its start: a setting, a role, a package; `sluice doctor`",
}


def text() -> str:
    """Return the file's content."""
    return json.dumps(document(), indent=2) + "\n"


def document(events: tuple[LogEvent, ...] = EVENTS) -> dict[str, Any]:
    """Return one alert for each event of the base that has one."""
    return {
        "alerts": [
            *(
                alert_of(event, event.alert)
                for event in events
                if event.alert is not None and event not in OF_PROCESSES
            ),
            SILENCE,
        ]
    }


def alert_of(event: LogEvent, alert: Alert) -> dict[str, Any]:
    """Return the alert of an event."""
    return {
        "name": event.name.removeprefix(PREFIX).replace(".", "-"),
        "event": event.name,
        "severity": int(alert.severity),
        "query": query(event, alert),
        **TOLD,
        "what": event.meaning,
        "remedy": event.remedy,
    }


def query(event: LogEvent, alert: Alert) -> str:
    """Return the text that finds the event in Application Insights: its line is its name, then its fields as JSON."""
    steps = [
        "AppTraces",
        # The space keeps out events whose names begin alike.
        f'where Message startswith "{event.name} "',
        f'extend fields = parse_json(substring(Message, strlen("{event.name} ")))',
    ]
    if alert.where:
        steps.append(f"where {alert.where}")
    return " | ".join(steps)
