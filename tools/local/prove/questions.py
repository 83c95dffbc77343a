"""The questions of docs/appendix/unproven.md that a command can answer, and why the others wait for a person."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tools.local.prove.shell import Done
from tools.local.prove.site import Answer, Site

#: Lines need some minutes from the app to the workspace.
LOOKS: Final = 30
_RULE: Final = ("--topic-name", "signals", "--subscription-name", "release")
_PRICES: Final = "https://prices.azure.com/api/retail/prices?$filter="


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reading of an output. `is_early`: nothing is there yet, and a later question may find it."""

    found: str
    is_right: bool | None
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question in the page's words, the command that answers it, and how its output is read."""

    asked: str
    words: Callable[[Site], tuple[str, ...]]
    judge: Callable[[Done], Verdict]
    minutes: float = 5


def ask_all(site: Site) -> list[str]:
    """Ask each one, and keep its answer. A command that fails is an answer too."""
    for question in QUESTIONS:
        words = question.words(site)
        verdict = _ask(site, question, words)
        site.answers.append(Answer(question.asked, shlex.join(words), verdict.found, verdict.is_right))
    counted = [sum(one.is_right is state for one in site.answers) for state in (True, False, None)]
    return [f"{counted[0]} answers are as hoped for, {counted[1]} are not, {counted[2]} only say something"]


def _ask(site: Site, question: Question, words: tuple[str, ...]) -> Verdict:
    for look in range(LOOKS):
        done = site.shell.call(*words, minutes=question.minutes)
        verdict = Verdict(f"the command failed: {done.last_words}", None) if done.status else _read(question, done)
        if not verdict.is_early:
            break
        if look + 1 < LOOKS:
            site.shell.wait(site.pause)
    return verdict


def _read(question: Question, done: Done) -> Verdict:
    try:
        return question.judge(done)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return Verdict(f"the output is not as expected ({type(error).__name__}: {error})", None)


def _query(text: str) -> Callable[[Site], tuple[str, ...]]:
    def words(site: Site) -> tuple[str, ...]:
        found = site.az(
            "monitor", "log-analytics", "workspace", "list", "--resource-group", site.group, "--query", "[0].customerId"
        )
        return (
            *("az", "monitor", "log-analytics", "query", "--workspace", str(found)),
            *("--analytics-query", text, "--output", "json"),
        )

    return words


def _compiled(done: Done) -> Verdict:
    warned = [line for line in done.err.splitlines() if re.search(r" : (Error|Warning) ", line)]
    return Verdict(warned[0] if warned else "it compiles, without a warning", not warned)


def _unchanged(done: Done) -> Verdict:
    changed = [line.strip() for line in done.out.splitlines() if re.match(r"\s*(Create|Modify|Delete)\s*:", line)]
    return Verdict("; ".join(changed) or "it would change nothing", not changed)


def _one_rule(done: Done) -> Verdict:
    rules = json.loads(done.out)
    names = [f"{one['name']} ({one['filterType']})" for one in rules]
    return Verdict(", ".join(names) or "no rule", len(rules) == 1 and rules[0]["filterType"] == "CorrelationFilter")


def _lines(done: Done) -> Verdict:
    rows = json.loads(done.out)
    if not rows:
        return Verdict("no line has arrived", is_right=False, is_early=True)
    named = [str(row["Message"]).partition(" ")[0] for row in rows]
    return Verdict(f"{len(rows)} lines, such as {named[0]}", all(name.startswith("sluice.") for name in named))


def _unsampled(done: Done) -> Verdict:
    [row] = json.loads(done.out) or [{"items": 0, "lines": 0}]
    items, lines = int(row["items"] or 0), int(row["lines"] or 0)
    return Verdict(f"{lines} lines stand for {items}", items == lines, is_early=lines == 0)


def _runtime(done: Done) -> Verdict:
    found: Any = json.loads(done.out)
    return Verdict(f"the app was deployed with {found['name']} {found['version']}", found["name"] == "python")


def _accepted(done: Done) -> Verdict:
    counts = {str(row["Success"]): int(row["count_"]) for row in json.loads(done.out)}
    said = ", ".join(f"{count} with Success {name}" for name, count in counts.items())
    return Verdict(said or "no request has arrived", set(counts) == {"True"}, is_early=not counts)


def _prices(done: Done) -> Verdict:
    items = json.loads(done.out)["Items"]
    said = {f"{one['meterName']} {one['retailPrice']} USD per {one['unitOfMeasure']}" for one in items}
    return Verdict("; ".join(sorted(said)) or "no meter was found", None)


QUESTIONS: Final = (
    Question(
        "does the compiler take the files?",
        lambda _: ("az", "bicep", "build", "--file", "infra/main.bicep", "--stdout"),
        _compiled,
    ),
    Question(
        "does a second deployment change nothing?",
        lambda site: ("azd", "provision", "--preview", "--environment", site.name, "--no-prompt"),
        _unchanged,
        minutes=15,
    ),
    Question(
        "is a subscription's one rule its own, and not the one that passes everything?",
        lambda site: (
            *("az", "servicebus", "topic", "subscription", "rule", "list", "--resource-group", site.group),
            *("--namespace-name", site.resource("Microsoft.ServiceBus/namespaces").rsplit("/", 1)[1], *_RULE),
            *("--output", "json"),
        ),
        _one_rule,
    ),
    Question(
        "do lines arrive as alerts expect them, with the event's name first?",
        _query('AppTraces | where Message startswith "sluice." | take 5'),
        _lines,
    ),
    Question(
        "does sampling drop a line that an alert waits for?",
        _query('AppTraces | where Message startswith "sluice." | summarize items = sum(ItemCount), lines = count()'),
        _unsampled,
    ),
    Question(
        "does the app start from the package that was built here, and take its bytecode?",
        lambda site: (
            *("az", "functionapp", "show", "--resource-group", site.group),
            *("--name", site.values["AZURE_FUNCTION_APP_NAME"]),
            *("--query", "properties.functionAppConfig.runtime", "--output", "json"),
        ),
        _runtime,
    ),
    Question(
        "does the host take the refused deletion of a message that its function took over as done?",
        _query('AppRequests | where Name == "accept_submission" | summarize count() by Success'),
        _accepted,
    ),
    Question(
        "what do the prices come to now?",
        lambda site: (
            *("az", "rest", "--method", "get", "--skip-authorization-header", "--output", "json", "--url"),
            f"{_PRICES}armRegionName eq '{site.region}' and serviceName eq 'Service Bus' and skuName eq 'Standard'",
        ),
        _prices,
    ),
)
_DAY, _LOAD, _PARAMETER = "it needs a day", "it needs a load that costs more", "it needs a parameter that is off"
#: By a part of a question: why no command answers it within a run.
BY_HAND: Final = {
    "does Data Owner on the entities alone": _LOAD,
    "does a publisher's role hold on its room's container": _PARAMETER,
    "may an operator with `AUDIT_ROLE`": _PARAMETER,
    "do the spans of `SLUICE_TELEMETRY=otel` arrive": _PARAMETER,
    "does Azure's login on Flex Consumption": _PARAMETER,
    "does a sender's own `X-MS-CLIENT-PRINCIPAL`": _PARAMETER,
    "is an act's origin the public host": _PARAMETER,
    "interval does Flex Consumption": _DAY,
    "what does the platform's own polling": _DAY,
    "how many GB-seconds is an idle day": _DAY,
    "how many receives on the bus end empty?": _DAY,
    "does storage send 503": _LOAD,
    "does changing `alwaysReady` restart": _LOAD,
    "reach the package's container while both accounts are closed": _PARAMETER,
    "does a message on a queue behind a private address": _PARAMETER,
    "when does Service Bus free a session": "it needs a process that is killed in Azure's own network",
}
