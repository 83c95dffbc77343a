"""What the administration says of each kind of entity."""

from typing import Any

from servicebus_local.atom import Element, Markup, moment, tag, tags
from servicebus_local.broker import Counts
from servicebus_local.entities import SYSTEM_PROPERTIES, DeliveryRules, Filter, Queue, SqlFilter, Subscription, Topic
from servicebus_local.entities_file import iso8601
from servicebus_local.sender import LARGEST_MESSAGE

#: The service's word for no end.
_ENDLESS = "P10675199DT2H48M5.4775807S"
_NEVER = "0001-01-01T00:00:00Z"
#: An entity's size on the service, in megabytes, where none was given.
_LARGEST_ENTITY = 1024
_DEFAULT_WINDOW = "PT10M"
_COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
_SCHEMA = "http://www.w3.org/2001/XMLSchema"
_LARGEST_INT = 2**31 - 1


def queue_content(queue: Queue, counts: Counts, made: float) -> Markup:
    """Return a queue's description."""
    return tags(
        {
            **_delivery(queue.delivery),
            **_window(queue),
            "MaxSizeInMegabytes": queue.megabytes or _LARGEST_ENTITY,
            "SizeInBytes": counts.size,
            "IsAnonymousAccessible": False,
            "SupportOrdering": True,
            **_common(counts, made),
            "EnablePartitioning": False,
            "EnableExpress": False,
            "MaxMessageSizeInKilobytes": LARGEST_MESSAGE // 1024,
        }
    )


def topic_content(topic: Topic, counts: Counts, made: float) -> Markup:
    """Return a topic's description."""
    return tags(
        {
            "DefaultMessageTimeToLive": _ENDLESS,
            **_window(topic),
            "MaxSizeInMegabytes": _LARGEST_ENTITY,
            "SizeInBytes": counts.size,
            "FilteringMessagesBeforePublishing": False,
            "IsAnonymousAccessible": False,
            "SupportOrdering": True,
            "SubscriptionCount": len(topic.subscriptions),
            **_common(counts, made),
            "EnablePartitioning": False,
            "EnableSubscriptionPartitioning": False,
            "EnableExpress": False,
            "MaxMessageSizeInKilobytes": LARGEST_MESSAGE // 1024,
        }
    )


def subscription_content(subscription: Subscription, counts: Counts, made: float) -> Markup:
    """Return a subscription's description."""
    exceptions = {"DeadLetteringOnFilterEvaluationExceptions": False}
    return tags({**_delivery(subscription.delivery), **exceptions, **_common(counts, made)})


def rule_content(name: str, wanted: Filter, made: float) -> Markup:
    """Return a rule's description."""
    action = tag("Action", "", {"i:type": "EmptyRuleAction"})
    return Markup(_filter(wanted) + action + tags({"CreatedAt": moment(made), "Name": name}))


def namespace_content(name: str, made: float) -> Markup:
    """Return the namespace's description."""
    times = {"CreatedTime": moment(made), "ModifiedTime": moment(made)}
    return tags({**times, "MessagingSKU": "Standard", "Name": name, "NamespaceType": "Messaging"})


def _delivery(rules: DeliveryRules) -> dict[str, Any]:
    return {
        "LockDuration": iso8601(rules.lock),
        "RequiresSession": rules.sessions,
        "DefaultMessageTimeToLive": _ENDLESS if rules.time_to_live is None else iso8601(rules.time_to_live),
        "DeadLetteringOnMessageExpiration": rules.dead_letter_expired,
        "MaxDeliveryCount": rules.max_delivery_count,
        "ForwardDeadLetteredMessagesTo": rules.forward_dead_letters,
    }


def _window(entity: Queue | Topic) -> dict[str, Any]:
    window = entity.duplicate_window
    return {
        "RequiresDuplicateDetection": window is not None,
        "DuplicateDetectionHistoryTimeWindow": _DEFAULT_WINDOW if window is None else iso8601(window),
    }


def _common(counts: Counts, made: float) -> dict[str, Any]:
    details = {
        "ActiveMessageCount": counts.active,
        "DeadLetterMessageCount": counts.dead,
        "ScheduledMessageCount": counts.scheduled,
        "TransferMessageCount": 0,
        "TransferDeadLetterMessageCount": counts.lost,
    }
    prefixed = Markup("".join(tag(f"d2p1:{name}", count) for name, count in details.items()))
    return {
        "EnableBatchedOperations": True,
        "Status": "Active",
        "MessageCount": counts.active + counts.dead + counts.scheduled + counts.lost,
        "CreatedAt": moment(made),
        "UpdatedAt": moment(made),
        "AccessedAt": _NEVER,
        "AutoDeleteOnIdle": _ENDLESS,
        "EntityAvailabilityStatus": "Available",
        "CountDetails": Element(tag("CountDetails", prefixed, {"xmlns:d2p1": _COUNTS})),
    }


def _filter(wanted: Filter) -> str:
    if isinstance(wanted, SqlFilter):
        kind = {"1=1": "TrueFilter", "1=0": "FalseFilter"}.get(wanted.expression, "SqlFilter")
        content = tags({"SqlExpression": wanted.expression, "CompatibilityLevel": 20})
        return tag("Filter", content, {"i:type": kind})
    system = {**wanted.system, "subject": wanted.subject}
    named = {name[0].upper() + name[1:]: system.get(known) for name, known in SYSTEM_PROPERTIES.items()}
    pairs = Markup("".join(_pair(key, value) for key, value in wanted.properties.items()))
    return tag("Filter", Markup(tags(named) + tag("Properties", pairs)), {"i:type": "CorrelationFilter"})


def _pair(key: str, value: Any) -> str:
    written = tag("Value", value, {"i:type": f"d6p1:{_kind(value)}", "xmlns:d6p1": _SCHEMA})
    return tag("KeyValueOfstringanyType", Markup(tag("Key", key) + written))


def _kind(value: Any) -> str:
    # A truth is a number in Python, so it is asked for first.
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "int" if abs(value) <= _LARGEST_INT else "long"
    return "double" if isinstance(value, float) else "string"
