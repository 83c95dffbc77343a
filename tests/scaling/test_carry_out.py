"""Carrying a plan out against a server that speaks Resource Manager's shapes; bodies checked against Azure's own types."""

import time
from datetime import timedelta

import jsonschema
import pytest
from azure.core.credentials import AccessToken

from shared.errors import ScalingRefusedError
from shared.scaling.instances import HeldVolume, InstanceRequest, plan
from shared.scaling.resource_manager import API_VERSION, ResourceManager, prepare, send
from shared.scaling.site import Site
from shared.usage.bill import load
from tests.scaling.resource_manager_server import CONFIGURATION, SITE, running
from tools.local.paths import ROOT

APP = Site("s-1", "rg", "sluice-app")
PLAN = plan(
    HeldVolume(jobs=3, chunks=6_000),
    InstanceRequest(within=timedelta(minutes=10), lead=timedelta(), chunk_seconds=2),
    load().functions,
)
#: What a body may hold at all, in our own words; always checked.
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["properties"],
    "properties": {
        "properties": {
            "type": "object",
            "additionalProperties": False,
            "required": ["functionAppConfig"],
            "properties": {
                "functionAppConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["deployment", "runtime", "scaleAndConcurrency"],
                    "properties": {
                        "deployment": {"type": "object"},
                        "runtime": {"type": "object"},
                        "scaleAndConcurrency": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["alwaysReady", "maximumInstanceCount"],
                            "properties": {
                                "maximumInstanceCount": {"type": "integer", "minimum": 40, "maximum": 1000},
                                "instanceMemoryMB": {"type": "integer"},
                                "triggers": {"type": "object"},
                                "alwaysReady": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["name", "instanceCount"],
                                        "properties": {
                                            "name": {"pattern": "^(http|blob|durable|function:[A-Za-z][A-Za-z0-9_]*)$"},
                                            "instanceCount": {"type": "integer", "minimum": 0},
                                        },
                                    },
                                },
                            },
                        },
                    },
                }
            },
        }
    },
}


class Operator:
    """Somebody who has logged in."""

    def get_token(self, *scopes, **_):
        """Return a token, and note what for."""
        self.scopes = scopes
        return AccessToken("a-token", int(time.time()) + 3600)


@pytest.fixture
def server():
    """Resource Manager with one app."""
    with running() as started:
        yield started


@pytest.fixture
def manager(server):
    """A client of it."""
    with ResourceManager(Operator(), server.endpoint) as made:
        yield made


def test_looking_sends_nothing(server, manager):
    """What would change is known from one reading."""
    change = prepare(manager, APP, PLAN)
    assert [method for method, *_ in server.requests] == ["GET"]
    assert change.differences == [
        "alwaysReady function:drain_work: not set -> 20",
        "alwaysReady function:release_gate: not set -> 1",
        "alwaysReady function:settle_results: not set -> 1",
    ]
    assert server.configuration == CONFIGURATION


def test_what_is_sent_changes_the_scale_and_nothing_else(server, manager):
    """Deployment, runtime, the triggers, what is always ready for others: all of it is as it was."""
    assert send(manager, prepare(manager, APP, PLAN)) == []
    scale = server.configuration.pop("scaleAndConcurrency")
    before = dict(CONFIGURATION)
    kept = before.pop("scaleAndConcurrency")
    assert server.configuration == before
    assert {name: scale[name] for name in ("triggers", "instanceMemoryMB")} == {
        name: kept[name] for name in ("triggers", "instanceMemoryMB")
    }
    assert {"name": "http", "instanceCount": 1} in scale["alwaysReady"]
    assert scale["maximumInstanceCount"] == 100, "a maximum that somebody set higher is not lowered"


def test_requests_are_those_of_the_public_interface(server, manager):
    """Path, version, token and body; the body again against a schema of our own."""
    send(manager, prepare(manager, APP, PLAN))
    assert [(method, path) for method, path, *_ in server.requests] == [("GET", SITE), ("PATCH", SITE), ("GET", SITE)]
    for _, _, query, headers, body in server.requests:
        assert query == {"api-version": [API_VERSION]}
        assert headers["Authorization"] == "Bearer a-token"
        if body is not None:
            jsonschema.validate(body, SCHEMA)
    assert API_VERSION in (ROOT / "infra" / "modules" / "function-app.bicep").read_text()


def test_a_second_time_there_is_nothing_to_change(server, manager):
    """Sending it again is harmless, and not needed."""
    send(manager, prepare(manager, APP, PLAN))
    assert prepare(manager, APP, PLAN).differences == []


def test_what_was_accepted_and_is_not_done_yet_is_said(server, manager):
    """Azure may answer that it will; only reading again tells whether it did."""
    server.is_slow = True
    assert len(send(manager, prepare(manager, APP, PLAN))) == 3


def test_an_app_of_another_plan_is_refused_before_anything_is_sent(server, manager):
    """Always-ready instances of a function are Flex Consumption's alone."""
    server.has_flex = False
    with pytest.raises(ScalingRefusedError, match="Flex Consumption"):
        prepare(manager, APP, PLAN)
    assert [method for method, *_ in server.requests] == ["GET"]


def test_a_refusal_says_who_refused_what_and_why(server, manager):
    """A person can act on it: the app, the answer, the reason."""
    with pytest.raises(ScalingRefusedError, match=r"404: ResourceNotFound.*check the names"):
        prepare(manager, Site("s-1", "rg", "other"), PLAN)
    server.refusal = (403, "AuthorizationFailed")
    with pytest.raises(ScalingRefusedError, match=r"'sluice-app' in group 'rg' with 403: AuthorizationFailed"):
        prepare(manager, APP, PLAN)


def test_a_token_goes_nowhere_but_over_https():
    """Except to this machine, where tests are."""
    with pytest.raises(ScalingRefusedError, match="https only"):
        ResourceManager(Operator(), "http://management.example.com")


def test_the_token_is_asked_for_resource_manager(server):
    """And for nothing else."""
    operator = Operator()
    with ResourceManager(operator, server.endpoint) as manager:
        manager.read(APP)
    assert operator.scopes == ("https://management.azure.com/.default",)
