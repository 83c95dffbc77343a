"""The app's own tick warms and gives back, by the identity that is for this alone, with the real credential."""

import json
from datetime import timedelta

import pytest

from shared.app import App, Stores
from shared.scaling import WARM_RECORD
from shared.settings import Settings
from shared.telemetry import events
from shared.workloads.registry import Workloads
from tests.gate.conftest import RecordedSignals
from tests.identity.managed import ManagedIdentity
from tests.scaling.conftest import GATE
from tests.scaling.resource_manager_server import SITE
from tests.scaling.test_warmer import COLD, WARM

ARM = "https://management.azure.com"


@pytest.fixture
def identity(monkeypatch):
    """The endpoint for tokens of the app's identities."""
    made = ManagedIdentity()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def app_of(connections, stack_settings, server, clock):
    """Make an app with these settings over the night's storage."""

    def make(**settings):
        known = {"SLUICE_WARM_SITE": SITE, "SLUICE_WARM_ENDPOINT": server.endpoint}
        parsed = Settings.parse({**stack_settings, **known, **settings})
        stores = Stores(connections, clock=clock, signals=RecordedSignals())
        return App(connections, parsed, Workloads.load(parsed.workloads, stack_settings), stores=stores)

    return make


def test_the_tick_warms_and_gives_back_by_an_identity_of_its_own(app_of, night, identity):
    """Each token is for Resource Manager, of the one identity; a tick without a due check asks for none."""
    app = app_of(SLUICE_WARM_IDENTITY="for-instances", SLUICE_DEQUEUE="push")
    night.schedule(timedelta(hours=1))
    app.tick()
    assert (identity.asked, night.server.requests) == ([], [])
    night.clock.advance(minutes=50)
    app.tick()
    assert night.server.counts == WARM
    assert {(one["resource"], one["client_id"]) for one in identity.asked} == {(ARM, "for-instances")}
    assert all(headers["Authorization"].startswith("Bearer ") for _, _, _, headers, _ in night.server.requests)
    night.stores.gate_operator.close(GATE, by="bob")
    night.clock.advance(minutes=2)
    app.tick()
    assert night.server.counts == COLD


def test_by_trigger_the_same_function_is_warmed(app_of, night, identity):
    """It has another trigger, and works on all queues."""
    app = app_of(SLUICE_WARM_IDENTITY="for-instances", SLUICE_DEQUEUE="trigger", SLUICE_WORK_QUEUES="2")
    night.schedule(timedelta(hours=1))
    night.clock.advance(minutes=50)
    app.tick()
    assert night.server.counts["function:drain_work"] == 10
    assert identity.asked


def test_without_an_identity_the_app_asks_for_no_token_and_says_when_checks_are_late(app_of, night, identity, told):
    """A schedule outside of the app does them; half an hour without one fails the tick, which alerts."""
    app = app_of(SLUICE_WARM_IDENTITY="")
    night.schedule(timedelta(hours=1))
    night.clock.advance(minutes=50 + 29)
    night.stores.gate_operator.close(GATE, by="bob")
    app.tick()
    night.clock.advance(minutes=2)
    with pytest.raises(Exception, match="sluice tune warm --due"):
        app.tick()
    assert "sluice tune warm --due" in str(told(events.TICK_FAILED))
    assert (identity.asked, night.server.requests) == ([], [])


def test_an_app_without_warming_says_so_where_instances_are_left(app_of, night, identity, told):
    """The line lost the word: what is not given back costs money. A command may do it within half an hour."""
    app = app_of(SLUICE_WARM_SITE="")
    night.schedule(timedelta(hours=1))
    night.clock.advance(minutes=50 + 29)
    night.stores.gate_operator.close(GATE, by="bob")
    app.tick()
    night.clock.advance(minutes=2)
    with pytest.raises(Exception, match="work of the capability warming is due for 31 minutes, and it is off"):
        app.tick()
    assert "capability warming" in str(told(events.TICK_FAILED))
    assert (len(night.pointers), identity.asked, night.server.requests) == (1, [], [])


def test_a_record_of_a_newer_version_waits_and_no_tick_fails(app_of, night, told, identity):
    """Its pointer stays due, so a newer instance gives the instances back; this one says what it met."""
    app = app_of(SLUICE_WARM_IDENTITY="for-instances")
    night.schedule(timedelta(hours=1))
    record = night.stores.container("settings").get_blob_client(WARM_RECORD)
    kept = json.loads(record.download_blob().readall()) | {"v": 2, "regions": ["west"]}
    record.upload_blob(json.dumps(kept), overwrite=True)
    night.clock.advance(minutes=50)
    for _ in range(2):
        app.tick()
    found = [one["found"] for one in told(events.NEWER_VERSION)]
    assert [one.partition(",")[0] for one in found] == 2 * ["settings/warm is a warm record of version 2"]
    assert (identity.asked, json.loads(record.download_blob().readall())) == ([], kept)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"SLUICE_WARM_SITE": "my-app"}, "is not the resource id of an app"),
        ({"SLUICE_WARM_MOST": "901"}, "expected a whole number from 3 to 900"),
    ],
)
def test_settings_that_cannot_work_are_refused(app_of, settings, problem):
    """By their names, before anything is registered."""
    with pytest.raises(Exception, match=problem):
        app_of(**settings)
