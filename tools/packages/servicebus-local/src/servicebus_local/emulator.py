"""The official Service Bus emulator's Config.json, made from the same entities that this broker serves.

The emulator takes less than the service does, so life times, delivery counts and duplicate windows are clamped.
"""

from datetime import timedelta
from typing import Any

from servicebus_local.entities import CorrelationFilter, DeliveryRules, Filter, Namespace, Queue, Subscription, Topic
from servicebus_local.entities_file import iso8601, system_of

#: The one namespace that the emulator has.
_NAMESPACE = "sbemulatorns"
_LONGEST_LIFE = timedelta(hours=1)
_SHORTEST_LIFE = timedelta(minutes=5)
_MOST_DELIVERIES = 10
_SHORTEST_WINDOW, _LONGEST_WINDOW = timedelta(seconds=5), timedelta(minutes=5)
_MOST_ENTITIES = 50
_MOST_SUBSCRIPTIONS = 50
_MOST_RULES = 1000


def _clamped(span: timedelta, shortest: timedelta, longest: timedelta) -> str:
    return iso8601(min(max(span, shortest), longest))


def _life(span: timedelta | None) -> str:
    return _clamped(span or _LONGEST_LIFE, _SHORTEST_LIFE, _LONGEST_LIFE)


def _window(window: timedelta | None) -> dict[str, Any]:
    return {
        "RequiresDuplicateDetection": window is not None,
        "DuplicateDetectionHistoryTimeWindow": _clamped(window or _LONGEST_WINDOW, _SHORTEST_WINDOW, _LONGEST_WINDOW),
    }


def _delivery(delivery: DeliveryRules) -> dict[str, Any]:
    return {
        "DeadLetteringOnMessageExpiration": delivery.dead_letter_expired,
        "DefaultMessageTimeToLive": _life(delivery.time_to_live),
        "LockDuration": iso8601(delivery.lock),
        "MaxDeliveryCount": min(delivery.max_delivery_count, _MOST_DELIVERIES),
        "ForwardDeadLetteredMessagesTo": delivery.forward_dead_letters or "",
        "ForwardTo": "",
        "RequiresSession": delivery.sessions,
    }


def _rule(number: int, wanted: Filter) -> dict[str, Any]:
    if isinstance(wanted, CorrelationFilter):
        condition: dict[str, Any] = {"Properties": dict(wanted.properties)} if wanted.properties else {}
        condition |= {name[0].upper() + name[1:]: value for name, value in system_of(wanted).items()}
        properties: dict[str, Any] = {"FilterType": "Correlation", "CorrelationFilter": condition}
    else:
        properties = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": wanted.expression}}
    return {"Name": f"rule-{number}", "Properties": properties}


def _subscription(subscription: Subscription) -> dict[str, Any]:
    return {
        "Name": subscription.name,
        "Properties": _delivery(subscription.delivery),
        "Rules": [_rule(number, wanted) for number, wanted in enumerate(subscription.filters, 1)],
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {"Name": queue.name, "Properties": _delivery(queue.delivery) | _window(queue.duplicate_window)}


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "Name": topic.name,
        "Properties": {"DefaultMessageTimeToLive": _life(None)} | _window(topic.duplicate_window),
        "Subscriptions": [_subscription(subscription) for subscription in topic.subscriptions],
    }


def _check_limits(namespace: Namespace) -> None:
    entities = len(namespace.queues) + len(namespace.topics)
    if entities > _MOST_ENTITIES:
        raise ValueError(
            f"the emulator holds {_MOST_ENTITIES} queues and topics together, the namespace has {entities}"
        )
    for topic in namespace.topics:
        if not 1 <= len(topic.subscriptions) <= _MOST_SUBSCRIPTIONS:
            raise ValueError(
                f"the emulator needs 1 to {_MOST_SUBSCRIPTIONS} subscriptions on a topic, "
                f"{topic.name!r} has {len(topic.subscriptions)}"
            )
        rules = sum(len(subscription.filters) for subscription in topic.subscriptions)
        if rules > _MOST_RULES:
            raise ValueError(f"the emulator takes {_MOST_RULES} rules on a topic, {topic.name!r} has {rules}")


def config(namespace: Namespace) -> dict[str, Any]:
    """Return the emulator's Config.json for a namespace, or refuse one that the emulator cannot hold."""
    _check_limits(namespace)
    named = {
        "Name": _NAMESPACE,
        "Queues": [_queue(queue) for queue in namespace.queues],
        "Topics": [_topic(topic) for topic in namespace.topics],
    }
    return {"UserConfig": {"Namespaces": [named], "Logging": {"Type": "Console"}}}
