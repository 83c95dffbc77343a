"""Alerts: one rule per event of the catalogue that calls an operator, on lines that the app does write.

Also the queries that an operator needs next, each saved where an operator reads the log.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from shared.capability import builtin_names, find
from shared.telemetry import OF_PROCESSES, LogEvent
from tools.local.infra import alerts, queries
from tools.local.infra.bicep import read
from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, at, both_ways
from tools.local.infra.resource import Resource

_SEARCHES: Final = "Microsoft.OperationalInsights/workspaces/savedSearches"
_RULES: Final = "Microsoft.Insights/scheduledQueryRules"
#: One line is enough.
ONE_LINE: Final = {
    "timeAggregation": "Count",
    **alerts.TOLD,
    "failingPeriods": {"numberOfEvaluationPeriods": 1, "minFailingPeriodsToAlert": 1},
}
#: The durations that the service takes; it knows no others, such as PT20M. As the provider azurerm lists them.
FREQUENCIES: Final = (
    "PT1M",
    "PT5M",
    "PT10M",
    "PT15M",
    "PT30M",
    "PT45M",
    *(f"PT{hours}H" for hours in range(1, 7)),
    "P1D",
)
WINDOWS: Final = (*FREQUENCIES, "P2D")
_FIELD: Final = re.compile(r"\bfields\.(\w+)")


def check(project: Project) -> Iterator[Finding]:
    """Yield events without a rule, and rules that can never fire."""
    if alerts.document(project.events) != project.json("infra", "alerts.json"):
        yield Finding("infra/alerts.json", "is not what the catalogue of events makes: run `make docs`")
    of_base = [event for event in project.events if event not in OF_PROCESSES]
    wanted = {event.name: event for event in (*of_base, *of_capabilities()) if event.alert is not None}
    rules = _rules(project, capabilities=",".join(builtin_names()))
    yield from _listening(wanted, rules)
    yield from _listening([event.name for event in of_base if event.alert], _rules(project))
    for name in wanted.keys() & rules.keys():
        yield from _speaks(wanted[name], rules[name])
        (criterion,) = rules[name].properties["criteria"]["allOf"]
        for field in set(_FIELD.findall(criterion["query"])) - set(wanted[name].fields):
            yield Finding("alerts.bicep", f"the rule of {name} filters by {field}, which its line does not have")
        if not wanted[name].remedy:
            yield Finding("shared/telemetry/events.py", f"{name} calls an operator and does not say what to do")
    if alerts.SILENT in rules:
        yield from _hears_silence(rules[alerts.SILENT], project)
    yield from _silent(project)
    yield from _timed(project)
    yield from _sampled(project)
    yield from _saved(project)


def of_capabilities() -> list[LogEvent]:
    """Return the events of all capabilities that come with Sluice."""
    return [event for said in builtin_names() for event in find(said).capability.events]


def _listening(wanted: Iterable[str], rules: Mapping[str, Resource]) -> Iterator[Finding]:
    """Yield events that no rule listens to, and rules of nothing."""
    missing, extra = both_ways([*wanted, alerts.SILENT], rules)
    for name in missing:
        yield Finding("alerts.bicep", f"no rule listens to {name}, which calls an operator")
    for name in extra:
        yield Finding("alerts.bicep", f"a rule listens to {name}, which no event of this installation is called")


def _rules(project: Project, **parameters: str) -> dict[str, Resource]:
    return {str(one.properties.get("displayName")): one for one in project.deployed(**parameters).of_type(_RULES)}


def _saved(project: Project) -> Iterator[Finding]:
    wanted = {one["query"]: one["name"] for one in queries.document(project.infra / "queries")["queries"]}
    found = {str(one.properties["query"]): one.last_name for one in project.deployed().of_type(_SEARCHES)}
    for text in wanted.keys() - found.keys():
        yield Finding("infra/queries.json", f"query {wanted[text]} is not saved as it stands: run `make docs`")
    for text in found.keys() - wanted.keys():
        yield Finding("infra/queries.json", f"query {found[text]} is saved, and infra/queries does not have it")


def _hears_silence(rule: Resource, project: Project) -> Iterator[Finding]:
    (criterion,) = rule.properties["criteria"]["allOf"]
    if (criterion["operator"], criterion["threshold"]) != ("LessThan", 1):
        yield Finding(rule.where, "the rule that hears silence does not speak when there is nothing")
    function = re.search(r'Name == "(\w+)"', criterion["query"])
    if not function or not (project.root / "functions" / f"{function[1]}.py").exists():
        yield Finding(rule.where, "the rule that hears silence looks for a function that there is not")


def _speaks(event: LogEvent, rule: Resource) -> Iterator[Finding]:
    found = {path: at(rule.properties, path) for path in ("enabled", "autoMitigate", "severity", "scopes")}
    severity = event.alert and int(event.alert.severity)
    if (found["enabled"], found["autoMitigate"], found["severity"]) != (True, True, severity) or not found["scopes"]:
        yield Finding(rule.where, f"the rule of {event.name} is {found}, expected enabled, of severity {severity}")
    (criterion,) = rule.properties["criteria"]["allOf"]
    if any(criterion.get(name) != value for name, value in ONE_LINE.items()):
        yield Finding(rule.where, f"the rule of {event.name} does not speak at the first line")


def _timed(project: Project) -> Iterator[Finding]:
    for minutes in json.loads(read(project.main).parameters["alertMinutes"].decorators["allowed"]):
        for rule in project.deployed(alertMinutes=minutes).of_type(_RULES):
            for name, known in (("evaluationFrequency", FREQUENCIES), ("windowSize", WINDOWS)):
                if (found := rule.properties.get(name)) not in known:
                    problem = f"with alertMinutes {minutes} {name} is {found}: the service takes {', '.join(known)}"
                    yield Finding(rule.where, problem)


def _sampled(project: Project) -> Iterator[Finding]:
    logging = project.json("host.json")["logging"]["applicationInsights"]["samplingSettings"]
    if logging["isEnabled"] and "Trace" not in logging.get("excludedTypes", "").split(";"):
        yield Finding("host.json", "lines of the log are sampled: the one that an alert waits for may be dropped")


def _silent(project: Project) -> Iterator[Finding]:
    if project.deployed(hasAlerts=False).of_type(_RULES):
        yield Finding("main.bicep", "rules are made although no alerts are wanted")
    for email, webhook in (
        ("", ""),
        ("a@b.example", ""),
        ("", "https://b.example"),
        ("a@b.example", "https://b.example"),
    ):
        yield from _sent(project.deployed(alertEmail=email, alertWebhook=webhook), email, webhook)


def _sent(deployment: Deployment, email: str, webhook: str) -> Iterator[Finding]:
    groups = [one for one in deployment.of_type("Microsoft.Insights/actionGroups") if one.properties.get("enabled")]
    reached = [(_receivers(one, "email", "emailAddress"), _receivers(one, "webhook", "serviceUri")) for one in groups]
    wanted = [([email] if email else [], [webhook] if webhook else [])] if email or webhook else []
    named = [at(rule.properties, "actions.actionGroups") for rule in deployment.of_type(_RULES)]
    if reached != wanted or any(one != [group.id for group in groups] for one in named):
        yield Finding(
            "alerts.bicep", f"an alert is to reach {wanted}, each address if it is given: it reaches {reached}"
        )


def _receivers(group: Resource, kind: str, name: str) -> list[str]:
    return [str(one.get(name)) for one in group.properties[f"{kind}Receivers"]]
