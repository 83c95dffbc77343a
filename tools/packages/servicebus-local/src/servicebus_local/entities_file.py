"""Writes a namespace's entities as the JSON file that `entities.read` reads."""

from datetime import timedelta
from typing import Any

from servicebus_local.entities import SYSTEM_PROPERTIES, CorrelationFilter, DeliveryRules, Filter, Namespace, Queue


def document(namespace: Namespace) -> dict[str, Any]:
    """Return the file's content."""
    subscriptions = [(topic.name, one) for topic in namespace.topics for one in topic.subscriptions]
    return {
        "bus": {
            "queues": [
                {"name": one.name, "properties": _delivery(one.delivery) | _size(one) | _window(one.duplicate_window)}
                for one in namespace.queues
            ],
            "topics": [{"name": one.name, "properties": _window(one.duplicate_window)} for one in namespace.topics],
            "subscriptions": [
                {"topic": topic, "name": one.name, "properties": _delivery(one.delivery)}
                for topic, one in subscriptions
            ],
            "rules": [
                {"topic": topic, "subscription": one.name, "name": name, "properties": _rule(wanted)}
                for topic, one in subscriptions
                for name, wanted in (one.rules().items() if one.filters else ())
            ],
        }
    }


def iso8601(span: timedelta) -> str:
    """Return a span as Azure writes it, such as P1DT2H or PT1M30S."""
    minutes, seconds = divmod(span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    time = "".join(f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if amount)
    days = f"{span.days}D" if span.days else ""
    return f"P{days}T{time}" if time else f"P{days}" if days else "PT0S"


def _delivery(rules: DeliveryRules) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "lockDuration": iso8601(rules.lock),
        "maxDeliveryCount": rules.max_delivery_count,
        "requiresSession": rules.sessions,
        "deadLetteringOnMessageExpiration": rules.dead_letter_expired,
    }
    if rules.time_to_live is not None:
        properties["defaultMessageTimeToLive"] = iso8601(rules.time_to_live)
    if rules.forward_dead_letters is not None:
        properties["forwardDeadLetteredMessagesTo"] = rules.forward_dead_letters
    return properties


def _size(queue: Queue) -> dict[str, Any]:
    return {} if queue.megabytes is None else {"maxSizeInMegabytes": queue.megabytes}


def _window(window: timedelta | None) -> dict[str, Any]:
    if window is None:
        return {"requiresDuplicateDetection": False}
    return {"requiresDuplicateDetection": True, "duplicateDetectionHistoryTimeWindow": iso8601(window)}


def system_of(wanted: CorrelationFilter) -> dict[str, str]:
    """Return the system properties of a filter by their names in Azure Resource Manager."""
    given = {**wanted.system, "subject": wanted.subject}
    return {name: value for name, known in SYSTEM_PROPERTIES.items() if (value := given.get(known)) is not None}


def _rule(wanted: Filter) -> dict[str, Any]:
    if isinstance(wanted, CorrelationFilter):
        condition: dict[str, Any] = {"properties": dict(wanted.properties)} if wanted.properties else {}
        condition |= system_of(wanted)
        return {"filterType": "CorrelationFilter", "correlationFilter": condition}
    return {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": wanted.expression}}
