"""`sluice provision`: what is missing is made, what is there stays, and a bus that makes nothing by itself is named."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from servicebus_local.certificates import AUTHORITY, tls_context
from servicebus_local.entities import Namespace

from capabilities.registration.entities import registration
from shared.azure import Connections
from shared.topology import topology
from tests.cli.bus_administration import EVERYTHING, Administration
from tests.forked import ForkedBroker
from tools.cli.doctor import BUS_KINDS, Finding, State, examine
from tools.cli.provision import Result, make_on_bus
from tools.local.azurite.launcher import Azurite
from tools.local.infra import entities
from tools.local.stack import settings_for

WHOLE = topology(entities=[registration()])


@pytest.fixture(scope="module")
def empty():
    """The settings of an account with nothing in it, and of the local broker."""
    with Azurite.start() as storage:
        bus = ForkedBroker.start()
        yield settings_for(storage.connection_string, bus.connection_string)
        bus.stop()


def outcomes(done):
    """Return the entities by result."""
    found = {}
    for one in json.loads(done.stdout)["entities"]:
        found.setdefault(one["result"], []).append(one)
    return found


def test_a_new_account_gets_everything_once(sluice, empty):
    """A look makes nothing; then all of storage is made; then nothing is left to make, and doctor is content."""
    storage = len(topology().queues + topology().containers + topology().tables)
    looked = sluice("provision", "--dry-run", "--json", settings=empty)
    again = sluice("provision", "--dry-run", "--json", settings=empty)
    assert (looked.returncode, looked.stdout) == (1, again.stdout)
    assert len(outcomes(looked)["missing"]) == storage
    made = sluice("provision", settings=empty)
    assert (made.returncode, made.stdout.splitlines()[-1]) == (
        0,
        f"{len([one for one in examine(empty) if one.kind in BUS_KINDS])} was there, {storage} made",
    )
    done = sluice("provision", "--json", settings=empty)
    assert (done.returncode, set(outcomes(done))) == (0, {"was there"})
    assert sluice("doctor", settings=empty).returncode == 0


def test_only_what_is_missing_is_made(sluice, empty):
    """Rooms and work queues that a setting adds."""
    done = sluice("provision", "--json", settings={**empty, "SLUICE_ROOMS": "team-a"})
    assert {one["name"] for one in outcomes(done)["made"]} == {
        "submissions-team-a",
        "payloads-team-a",
    }
    assert done.returncode == 0


def test_a_bus_that_takes_its_entities_from_a_file_is_named_with_the_command(sluice, stack_settings):
    """Neither the emulator nor the local broker makes an entity; its file comes from the same topology."""
    with ForkedBroker.start(Namespace()) as bus:
        settings = {**stack_settings, "SluiceBus": bus.connection_string, "SLUICE_CAPABILITIES": "registration"}
        done = sluice("provision", "--json", settings=settings)
    missing = [one for one in outcomes(done)["missing"] if one["kind"] in {"bus queue", "subscription"}]
    assert done.returncode == 1
    assert len(missing) == len(WHOLE.bus.queues) + sum(len(topic.subscriptions) for topic in WHOLE.bus.topics)
    assert all("python -m servicebus_local --part registration --emulator-config" in one["problem"] for one in missing)


def test_a_wrong_key_makes_nothing_and_says_so(sluice, stack_settings):
    """The reason and the remedy are those of doctor."""
    wrong = re.sub("AccountKey=[^;]*", "AccountKey=d3Jvbmc=", stack_settings["SluiceStorage"])
    done = sluice("provision", "--json", settings={**stack_settings, "SluiceStorage": wrong})
    refused = outcomes(done)["not made"]
    assert done.returncode == 1
    assert {one["kind"] for one in refused} == {"queue", "container", "table"}
    assert all(one["problem"].startswith("refuses the key in SluiceStorage") for one in refused)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the certificates are. The administration's client takes HTTPS alone."""
    tls_context(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / AUTHORITY))
    return tmp_path


def findings(state):
    """Return what doctor finds of the bus where each entity is in this state."""
    queues = [Finding("bus queue", one.name, "", state) for one in WHOLE.bus.queues]
    names = [f"{topic.name}/{one.name}" for topic in WHOLE.bus.topics for one in topic.subscriptions]
    return queues + [Finding("subscription", name, "", state) for name in names]


def made(service, found):
    """Let a run make what is missing there, and return the results by name."""
    with Connections("", service.connection_string) as connections:
        return {one.name: one for one in make_on_bus(connections, WHOLE.bus, found, "refuses the login")}


def described(body):
    """Return the values in an entity's description by their names, as Azure's resources spell them."""
    values = {one.tag.rpartition("}")[2]: (one.text or "") for one in ET.fromstring(body).iter()}
    return {f"{name[0].lower()}{name[1:]}": text.lower() for name, text in values.items()}


def agrees(body, properties):
    """Whether a description has the properties that Bicep gives the entity."""
    said = described(body)
    # The administration wants a whole address where a resource has a name.
    return {
        name: value for name, value in properties.items() if not said.get(name, "false").endswith(str(value).lower())
    }


def filters_of(body):
    """Return the kind of a rule's filter, and its properties."""
    root = ET.fromstring(body)
    (found,) = [one for one in root.iter() if one.tag.endswith("}Filter")]
    kind = next(value for name, value in found.attrib.items() if name.endswith("}type"))
    texts = [one.text for one in found.iter() if one.tag.rpartition("}")[2] in {"Key", "Value"}]
    return kind, dict(zip(texts[::2], texts[1::2], strict=True))


def test_a_namespace_gets_what_bicep_would_give_it(folder):
    """Each queue, topic, subscription and rule with the properties of infra/entities.json, made from one table."""
    with Administration(folder) as service:
        assert {one.result for one in made(service, findings(State.MISSING)).values()} == {Result.MADE}
        kept = service.kept
    for queue in WHOLE.bus.queues:
        assert agrees(kept.pop(queue.name), entities.queue_properties(queue)) == {}, queue.name
    for topic in WHOLE.bus.topics:
        assert agrees(kept.pop(topic.name), entities.topic_properties(topic)) == {}, topic.name
        for one in topic.subscriptions:
            place = f"{topic.name}/subscriptions/{one.name}"
            assert agrees(kept.pop(place), entities.delivery_properties(one.delivery)) == {}, place
            for name, rule in (entities.rules(one) or {"$Default": {"filterType": "TrueFilter"}}).items():
                wanted = rule.get("correlationFilter", {}).get("properties", {})
                found = filters_of(kept.pop(f"{place}/rules/{name}"))
                assert found == (
                    rule["filterType"],
                    {key: str(value).lower() if value is True else value for key, value in wanted.items()},
                )
    assert kept == {}


def test_a_run_that_died_before_the_rules_is_mended_by_the_next(folder):
    """A subscription is born passing everything; the next run finds that, and a third finds nothing to do."""
    with Administration(folder) as service:
        made(service, findings(State.MISSING))
        rules = dict(service.kept)
        service.kept["signals/subscriptions/work/rules/$Default"] = EVERYTHING
        del service.kept["seats-events/subscriptions/processes/rules/rule-2"]
        changed = [name for name, one in made(service, findings(State.OK)).items() if one.result is Result.MADE]
        assert (changed, service.kept) == (["signals/work", "seats-events/processes"], rules)
        assert {one.result for one in made(service, findings(State.OK)).values()} == {Result.THERE}


def test_what_somebody_else_made_meanwhile_was_there(folder):
    """Two runs side by side."""
    with Administration(folder) as service:
        made(service, findings(State.MISSING))
        assert {one.result for one in made(service, findings(State.MISSING)).values()} == {Result.THERE}


def test_a_login_that_may_not_manage_asks_once(folder):
    """The remedy stands for each entity that is missing; what is there is no fault of it."""
    with Administration(folder, refusing=["results"]) as service:
        first, *rest = findings(State.MISSING)[:3]
        found = made(service, [first, *rest, Finding("subscription", "signals/work")])
        assert service.asked == ["results"]
    assert [one.result for one in found.values()] == [Result.FAILED, Result.MISSING, Result.MISSING, Result.THERE]
    assert all(found[one.name].problem.startswith("refuses the login: ") for one in (first, *rest))


def test_rules_that_could_not_be_read_are_said(folder):
    """A subscription that is there may still pass everything; nothing else would say that nobody looked."""
    found = findings(State.OK)
    with Administration(folder) as service:
        address = service.connection_string
    with Connections("", address) as connections:
        ended = {one.name: one for one in make_on_bus(connections, WHOLE.bus, found, "refuses the login")}
    assert {one.result for one in ended.values()} == {Result.THERE}
    said = [one.name for one in ended.values() if one.problem.startswith("its rules could not be checked: ")]
    assert said == [one.name for one in found if one.kind == "subscription"]
