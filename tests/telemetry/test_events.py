"""Events: what the code tells is what the catalogue says, and no line holds what it must not."""

import ast
import json
import logging
import re
import traceback

import pytest

from capabilities.registration import events as order_events
from shared.errors import AttemptFailedError, RefusedError, StorageUnavailableError
from shared.telemetry import events
from shared.telemetry.events import EVENTS
from shared.telemetry.log import LogEvent, describe_error, discreet, place, tell
from tools.local.paths import ROOT

SOURCES = [
    ROOT / "function_app.py",
    *(
        module
        for package in (
            "shared",
            "functions",
            "capabilities",
            "tools/planning",
            "tools/conformance",
            "tools/cli",
            "console",
        )
        for module in sorted((ROOT / package).rglob("*.py"))
    ),
]


CATALOGUE = {
    f"{said}.{name}": found
    for said, module in (("events", events), ("order_events", order_events))
    for name, found in vars(module).items()
    if isinstance(found, LogEvent)
}


def calls():
    """Yield (module, name of the event, names of the fields) of every `tell` in the code."""
    for module in SOURCES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tell":
                event = node.args[0]
                assert isinstance(event, ast.Attribute), f"{module.name} tells an event that is not of the catalogue"
                yield module.name, f"{event.value.id}.{event.attr}", tuple(keyword.arg for keyword in node.keywords)


def test_every_event_is_told_with_exactly_the_fields_of_its_entry():
    """An alert that reads a field finds it in every line."""
    wrong = [
        (module, name, fields) for module, name, fields in calls() if sorted(fields) != sorted(CATALOGUE[name].fields)
    ]
    assert wrong == []


def test_every_entry_of_the_catalogue_is_told_somewhere():
    """Nobody waits for an alert that cannot come."""
    names = {name for _, name, _ in calls()}
    assert CATALOGUE.keys() == names


def test_nothing_is_logged_beside_the_catalogue():
    """A line that no entry describes would be one that no operator knows."""
    loggers = {str(module.relative_to(ROOT)) for module in SOURCES if "getLogger" in module.read_text()}
    # All but the first only set levels of what libraries log, or choose where lines are shown.
    known = {"shared/telemetry/log.py", "shared/telemetry/choice.py", "tools/cli/main.py", "tools/cli/web_server.py"}
    assert loggers == known


def test_names_are_static_words_and_said_once():
    """A name is what alerts, queries and people look for."""
    names = [event.name for event in EVENTS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"sluice(\.[a-z]+){2,3}", name)] == []


@pytest.mark.parametrize("event", [event for event in EVENTS if event.alert], ids=lambda event: event.name)
def test_an_alert_says_what_to_do_and_asks_for_fields_that_are_there(event):
    """Whoever is called at night reads the remedy; a condition on a field that is not there would never be true."""
    assert event.remedy
    assert set(re.findall(r"fields\.(\w+)", event.alert.where)) <= set(event.fields)


def test_a_line_is_the_name_and_the_fields_as_json(caplog):
    """The host passes on the text alone, so everything is in the text."""
    with caplog.at_level(logging.INFO, "sluice"):
        tell(events.GATE_HOLDING, gate="nightly", hours=27)
    name, _, fields = caplog.messages[0].partition(" ")
    assert (name, json.loads(fields)) == ("sluice.gate.holding", {"gate": "nightly", "hours": 27})


def test_an_event_below_the_level_is_not_even_written_down(caplog):
    """What nobody reads costs nothing."""

    class Unwritable:
        def __str__(self):
            raise AssertionError("written")

    with caplog.at_level(logging.WARNING, "sluice"):
        tell(events.GATE_HOLDING, gate=Unwritable(), hours=1)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "error", [ValueError("canary"), KeyError("canary"), RefusedError("bad_sum", "canary", "canary")], ids=repr
)
def test_the_host_never_sees_words_that_may_quote_a_payload(error):
    """What a workload raises quotes what it was given; the host logs all that an invocation raises."""
    with pytest.raises(AttemptFailedError) as raised, discreet():
        raise error
    # As the worker prints it, without the lines of this file's own source.
    shown = "".join(line for line in traceback.format_exception(raised.value) if not line.startswith("  File"))
    assert "canary" not in shown
    assert type(error).__name__ in shown


def test_an_error_of_ours_keeps_its_words():
    """They say what was tried and what to do, with ids and nothing else."""
    assert describe_error(StorageUnavailableError("could not read gate 'x'")) == (
        "StorageUnavailableError: could not read gate 'x'"
    )


def test_the_place_of_an_error_is_its_functions_without_values():
    """Enough to find the line, nothing of what was in the variables."""

    def inner(secret):
        raise ValueError(secret)

    with pytest.raises(ValueError, match="canary") as raised:
        inner("canary")
    assert re.fullmatch(r"test_events\.py:\d+ inner < test_events\.py:\d+ test_the_place\w+", place(raised.value))


@pytest.mark.parametrize("module", sorted((ROOT / "functions").glob("[a-z]*.py")), ids=lambda module: module.stem)
def test_every_function_fails_in_words_that_the_host_may_log(module):
    """All but `health`, which is given nothing."""
    assert ("with discreet():" in module.read_text()) == (module.stem != "health")
