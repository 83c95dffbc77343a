"""Writes infra/entities.json, which Bicep reads: every entity of the topology."""

import json
from datetime import timedelta
from typing import Any

from shared.topology import (
    HINTS,
    POISON_SUFFIX,
    URGENT,
    BusQueue,
    CorrelationFilter,
    DeliveryRules,
    Filter,
    Subscription,
    Topic,
    Topology,
    payload_container,
    submission_queue,
    topology,
)
from tools.cli import bus_entities
from tools.local.infra import listened
from tools.local.paths import ROOT

FILE = ROOT / "infra" / "entities.json"
#: Bicep takes as many of these as the parameter workQueues says.
MOST_WORK_QUEUES = 100
#: Where publishers may write, and nowhere else; a room's name follows behind a hyphen, but for the hints of all.
INBOUND = {
    "queue": submission_queue(),
    "container": payload_container(),
    "hints": HINTS,
    "poisonSuffix": POISON_SUFFIX,
}


def text(most: Topology | None = None) -> str:
    """Return the file's content."""
    return json.dumps(document(most), indent=2) + "\n"


def document(most: Topology | None = None) -> dict[str, Any]:
    """Return the entities as Bicep wants them: resource bodies ready to use."""
    whole = most or topology(MOST_WORK_QUEUES)
    work = [name for name in whole.queues if name.startswith("work-") and name != URGENT]
    return {
        "storage": {
            "queues": [name for name in whole.queues if name not in work],
            "workQueues": [name for name in work if not name.endswith(POISON_SUFFIX)],
            "workPoisonQueues": [name for name in work if name.endswith(POISON_SUFFIX)],
            "containers": list(whole.containers),
            "tables": list(whole.tables),
        },
        "inbound": INBOUND,
        "bus": bus_lists(whole),
        "listened": listened.document(listened.listened(ROOT)),
    }


def bus_lists(whole: Topology) -> dict[str, Any]:
    """Return the entities of the bus as Bicep and the broker take them: parents by their names."""
    subscriptions = [(topic.name, one) for topic in whole.bus.topics for one in topic.subscriptions]
    return {
        "queues": [{"name": queue.name, "properties": queue_properties(queue)} for queue in whole.bus.queues],
        "topics": [{"name": topic.name, "properties": topic_properties(topic)} for topic in whole.bus.topics],
        "subscriptions": [
            {"topic": topic, "name": one.name, "properties": delivery_properties(one.delivery)}
            for topic, one in subscriptions
        ],
        "rules": [
            {"topic": topic, "subscription": one.name, "name": name, "properties": properties}
            for topic, one in subscriptions
            for name, properties in rules(one).items()
        ],
    }


def queue_properties(queue: BusQueue) -> dict[str, Any]:
    """Return the properties of a Service Bus queue."""
    # Absent: the size that Service Bus gives.
    size = {} if queue.megabytes is None else {"maxSizeInMegabytes": queue.megabytes}
    return delivery_properties(queue.delivery) | size | _duplicates(queue.duplicate_window)


def topic_properties(topic: Topic) -> dict[str, Any]:
    """Return the properties of a topic."""
    return _duplicates(topic.duplicate_window)


def delivery_properties(delivery: DeliveryRules) -> dict[str, Any]:
    """Return the common properties of a queue and a subscription."""
    properties = {
        "lockDuration": span(delivery.lock),
        "maxDeliveryCount": delivery.max_delivery_count,
        "requiresSession": delivery.sessions,
        "deadLetteringOnMessageExpiration": delivery.dead_letter_expired,
    }
    # Absent: messages live until they are taken.
    if delivery.time_to_live is not None:
        properties["defaultMessageTimeToLive"] = span(delivery.time_to_live)
    # Absent: dead letters stay where they are.
    if delivery.forward_dead_letters is not None:
        properties["forwardDeadLetteredMessagesTo"] = delivery.forward_dead_letters
    return properties


def rules(subscription: Subscription) -> dict[str, dict[str, Any]]:
    """Return the rules of a subscription by name."""
    return {name: _rule(one) for name, one in bus_entities.rules(subscription).items()}


def _rule(one: Filter) -> dict[str, Any]:
    if isinstance(one, CorrelationFilter):
        label = {} if one.subject is None else {"label": one.subject}
        return {
            "filterType": "CorrelationFilter",
            "correlationFilter": {**({"properties": dict(one.properties)} if one.properties else {}), **label},
        }
    return {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": one.expression}}


def _duplicates(window: timedelta | None) -> dict[str, Any]:
    if window is None:
        return {"requiresDuplicateDetection": False}
    return {"requiresDuplicateDetection": True, "duplicateDetectionHistoryTimeWindow": span(window)}


def span(duration: timedelta) -> str:
    """Return a duration as Azure writes it, such as P1DT2H or PT1M30S."""
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    time = "".join(f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if amount)
    days = f"{duration.days}D" if duration.days else ""
    return f"P{days}{'T' + time if time or not days else ''}" if time or days else "PT0S"
