"""Alerts: one rule for each event of the catalogue that calls somebody, on lines that the app does write."""

import re
from collections.abc import Iterator
from typing import Final

from local.infra import alerts
from local.infra.finding import Finding
from local.infra.project import Project, both_ways

_RULES: Final = "Microsoft.Insights/scheduledQueryRules"
_FIELD: Final = re.compile(r"\bfields\.(\w+)")


def check(project: Project) -> Iterator[Finding]:
    """Yield events that nobody hears, and rules that can never speak."""
    if alerts.document(project.events) != project.json("infra", "alerts.json"):
        yield Finding("infra/alerts.json", "is not what the catalogue of events makes: run `make docs`")
    wanted = {event.name: event for event in project.events if event.alert is not None}
    rules = {str(one.properties.get("displayName")): one for one in project.deployed().of_type(_RULES)}
    missing, extra = both_ways(wanted, rules)
    for name in missing:
        yield Finding("alerts.bicep", f"no rule listens to {name}, which calls somebody")
    for name in extra:
        yield Finding("alerts.bicep", f"a rule listens to {name}, which no event is called")
    for name in wanted.keys() & rules.keys():
        (criterion,) = rules[name].properties["criteria"]["allOf"]
        for field in set(_FIELD.findall(criterion["query"])) - set(wanted[name].fields):
            yield Finding("alerts.bicep", f"the rule of {name} asks for {field}, which its line does not have")
        if not wanted[name].remedy:
            yield Finding("shared/telemetry/events.py", f"{name} calls somebody and does not say what to do")
    yield from _silent(project)
    yield from _sampled(project)


def _sampled(project: Project) -> Iterator[Finding]:
    logging = project.json("host.json")["logging"]["applicationInsights"]["samplingSettings"]
    if logging["isEnabled"] and "Trace" not in logging.get("excludedTypes", "").split(";"):
        yield Finding("host.json", "lines of the log are sampled: the one that an alert waits for may be dropped")


def _silent(project: Project) -> Iterator[Finding]:
    if project.deployed(hasAlerts=False).of_type(_RULES):
        yield Finding("main.bicep", "rules are made although no alerts are wanted")
    groups = project.deployed(alertEmail="a@b.example").of_type("Microsoft.Insights/actionGroups")
    if not groups or project.deployed().of_type("Microsoft.Insights/actionGroups"):
        yield Finding("alerts.bicep", "mail is to be sent when an address is given, and only then")
