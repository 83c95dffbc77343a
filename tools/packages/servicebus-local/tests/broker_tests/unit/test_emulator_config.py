"""The official emulator's Config.json from the topology."""

from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import pytest
from servicebus_local.emulator import config
from servicebus_local.entities import (
    CorrelationFilter,
    DeliveryRules,
    Namespace,
    Queue,
    SqlFilter,
    Subscription,
    Topic,
    read,
)
from servicebus_local.entities_file import iso8601

ENTITIES = Path(__file__).resolve().parents[6] / "infra" / "entities.json"


def _namespace(bus):
    [namespace] = config(bus)["UserConfig"]["Namespaces"]
    return namespace


def test_what_the_emulator_cannot_do_is_clamped():
    """An hour to live, ten deliveries and a window of five minutes are the most it takes."""
    delivery = DeliveryRules(max_delivery_count=1000, time_to_live=timedelta(days=14), lock=timedelta(minutes=5))
    [queue] = _namespace(Namespace((Queue("q", delivery, timedelta(days=7)),)))["Queues"]
    assert queue["Name"] == "q"
    assert queue["Properties"] == {
        "DeadLetteringOnMessageExpiration": False,
        "DefaultMessageTimeToLive": "PT1H",
        "DuplicateDetectionHistoryTimeWindow": "PT5M",
        "ForwardDeadLetteredMessagesTo": "",
        "ForwardTo": "",
        "LockDuration": "PT5M",
        "MaxDeliveryCount": 10,
        "RequiresDuplicateDetection": True,
        "RequiresSession": False,
    }


def test_what_the_emulator_can_do_is_kept():
    """Values inside its limits pass as they are; a life below five minutes is raised to it."""
    delivery = DeliveryRules(
        max_delivery_count=4, time_to_live=timedelta(minutes=30), sessions=True, dead_letter_expired=True
    )
    queues = (
        Queue("a", delivery, timedelta(seconds=20)),
        Queue("b", DeliveryRules(time_to_live=timedelta(minutes=2))),
    )
    first, second = [queue["Properties"] for queue in _namespace(Namespace(queues))["Queues"]]
    assert (first["MaxDeliveryCount"], first["DefaultMessageTimeToLive"]) == (4, "PT30M")
    assert (first["RequiresSession"], first["DuplicateDetectionHistoryTimeWindow"]) == (True, "PT20S")
    assert first["DeadLetteringOnMessageExpiration"]
    assert (second["DefaultMessageTimeToLive"], second["RequiresDuplicateDetection"]) == ("PT5M", False)


def test_filters_become_rules():
    """Each filter is one rule; a subscription without filters has none and passes everything."""
    filters = (
        CorrelationFilter(MappingProxyType({"kind": "release"})),
        CorrelationFilter(subject="urgent"),
        SqlFilter("a = 1"),
    )
    topic = Topic("t", (Subscription("s", filters), Subscription("all")))
    some, everything = _namespace(Namespace((), (topic,)))["Topics"][0]["Subscriptions"]
    assert [rule["Properties"] for rule in some["Rules"]] == [
        {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"kind": "release"}}},
        {"FilterType": "Correlation", "CorrelationFilter": {"Label": "urgent"}},
        {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}},
    ]
    assert everything["Rules"] == []


def test_the_project_s_own_entities_fits():
    """Every queue, topic and subscription of the app is in the file, in the one namespace."""
    bus = read(ENTITIES)
    namespace = _namespace(bus)
    assert namespace["Name"] == "sbemulatorns"
    assert [queue["Name"] for queue in namespace["Queues"]] == [queue.name for queue in bus.queues]
    named = [[each["Name"] for each in topic["Subscriptions"]] for topic in namespace["Topics"]]
    assert named == [[each.name for each in topic.subscriptions] for topic in bus.topics]


@pytest.mark.parametrize(
    ("bus", "named"),
    [
        (Namespace(tuple(Queue(f"q{n}") for n in range(51))), "51"),
        (Namespace((), (Topic("lonely", ()),)), "lonely"),
        (Namespace((), (Topic("crowded", tuple(Subscription(f"s{n}") for n in range(51))),)), "crowded"),
    ],
)
def test_a_topology_that_does_not_fit_is_refused(bus, named):
    """The emulator would fail at its start; the refusal names what is too much."""
    with pytest.raises(ValueError, match=named):
        config(bus)


def test_spans_are_written_as_the_emulator_reads_them():
    """Hours, minutes and seconds, none of them empty."""
    spans = [timedelta(hours=1), timedelta(seconds=90), timedelta(seconds=5), timedelta(days=14), timedelta()]
    assert [iso8601(span) for span in spans] == ["PT1H", "PT1M30S", "PT5S", "P14D", "PT0S"]
