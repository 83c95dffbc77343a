"""The saved queries and the workbook: they ask for events that are told and for fields that are in them. No query engine is here."""

import re
from collections import Counter

import pytest

from shared.capability import builtin_names, find
from shared.telemetry import METRICS
from shared.telemetry.events import EVENTS
from tools.local.infra import workbook
from tools.local.paths import ROOT

QUERIES = sorted((ROOT / "infra" / "queries").glob("*.kql"))
BY_NAME = {event.name: event for event in EVENTS}
OPERATORS = {"where", "extend", "project", "summarize", "order", "mv-expand"}
PAIRS = {")": "(", "]": "[", "}": "{"}


def code(text):
    """Return the query without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def problems(text):
    """Return what is wrong with a query, as far as that can be told without an engine."""
    query = code(text)
    names = re.findall(r'"(sluice\.[a-z.]+) "', query)
    fields = {name for event in (BY_NAME[name] for name in names if name in BY_NAME) for name in event.fields}
    # A query about every event may ask for the fields of any.
    fields = fields or {name for event in EVENTS for name in event.fields}
    steps = [line.removeprefix("| ").split()[0] for line in query.splitlines() if line.startswith("|")]
    plain = re.sub(r'"[^"]*"', "", query)
    return [
        *(f"no event {name}" for name in names if name not in BY_NAME),
        *(f"no field {name}" for name in re.findall(r"fields\.(\w+)", query) if name not in fields),
        *(f"no operator {step}" for step in steps if step not in OPERATORS),
        *(
            f"{closing} is not balanced"
            for closing, opening in PAIRS.items()
            if plain.count(closing) != plain.count(opening)
        ),
        *(['" is not balanced'] if '"' in plain else []),
        *([] if text.startswith("// ") and "?" in text.splitlines()[0] else ["no question in the first line"]),
        *([] if Counter(re.findall(r"^App\w+", query, re.MULTILINE)).total() == 1 else ["not one table"]),
    ]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.stem)
def test_a_saved_query_asks_for_what_is_told(query):
    """Its events are in the catalogue, its fields in its events, and it is well formed as far as can be told."""
    assert problems(query.read_text()) == []


ASKED = [item["content"] for item in workbook.document()["items"] if item["type"] == 3]
COUNTED = {
    one.name: one for one in (*METRICS, *(one for said in builtin_names() for one in find(said).capability.metrics))
}


def strangers(query):
    """Return what a query of the workbook asks for that is never told: events and fields, metrics and attributes."""
    names = re.findall(r'Name == "(sluice\.[a-z._]+)"', query)
    known = {f"sluice.{attribute}" for name in names if name in COUNTED for attribute in COUNTED[name].attributes}
    return [
        *(problem for problem in problems(query) if problem != "no question in the first line"),
        *(f"no metric {name}" for name in names if name not in COUNTED),
        *(f"no attribute {name}" for name in re.findall(r'Properties\["([^"]+)"\]', query) if name not in known),
    ]


@pytest.mark.parametrize("content", ASKED, ids=lambda content: content["title"])
def test_the_workbook_asks_for_what_is_told(content):
    """Each of its queries, by the catalogues of events and of metrics."""
    assert strangers(content["query"]) == []


def test_the_workbook_shows_every_metric_and_every_query_that_needs_no_job():
    """None is left out, and a chart has the attributes of its metric."""
    asked = "\n".join(content["query"] for content in ASKED)
    assert [name for name in COUNTED if f'Name == "{name}"' not in asked] == []
    plain = [code(file.read_text()) for file in QUERIES if "let job" not in file.read_text()]
    assert [query for query in plain if query not in asked] == []


@pytest.mark.parametrize(
    ("wrong", "right", "problem"),
    [
        ('"sluice.chunk"', '"sluice.chunks"', "no metric sluice.chunk"),
        ('["workload"]', '["sluice.workload"]', "no attribute workload"),
        ("| sumarize", "| summarize", "no operator sumarize"),
    ],
)
def test_a_mistake_in_the_workbook_is_found(wrong, right, problem):
    """A metric, an attribute and an operator that are not there."""
    query = workbook.query_of(COUNTED["sluice.chunks"])
    assert strangers(query) == []
    assert problem in strangers(query.replace(right, wrong, 1))


@pytest.mark.parametrize(
    ("wrong", "right", "problem"),
    [
        ("sluice.message.parkt ", "sluice.message.parked ", "no event sluice.message.parkt"),
        ("fields.finger", "fields.fingerprint", "no field finger"),
        ("| sumarize", "| summarize", "no operator sumarize"),
        ("dcount(job", "dcount(job)", ") is not balanced"),
        ("AppTrace\nAppTraces", "AppTraces", "not one table"),
    ],
)
def test_a_mistake_in_a_query_is_found(wrong, right, problem):
    """Each kind of mistake, made in a query that is well."""
    query = (ROOT / "infra" / "queries" / "what-is-parked.kql").read_text()
    assert problem in problems(query.replace(right, wrong, 1))
