"""Makes and reads queues, topics, subscriptions and rules by the administration of the bus, in the topology's terms."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from azure.core.exceptions import ResourceExistsError

from shared.topology import (
    BusEntities,
    BusQueue,
    CorrelationFilter,
    DeliveryRules,
    Filter,
    SqlFilter,
    Subscription,
    Topic,
)

if TYPE_CHECKING:
    from azure.servicebus.management import ServiceBusAdministrationClient

#: A subscription is born with a rule of this name that passes everything; its first own rule takes the name's place.
FIRST_RULE: Final = "$Default"
#: A longer life has no end: the service writes that as 10,675,199 days.
_ENDLESS: Final = timedelta(days=10_000_000)


def rules(subscription: Subscription) -> Mapping[str, Filter]:
    """Return the filters of a subscription by the names of their rules. Infra and this module use the same names."""
    names = (FIRST_RULE, *(f"rule-{number}" for number in range(2, len(subscription.filters) + 1)))
    return dict(zip(names, subscription.filters, strict=False))


class Namespace:
    """The entities of the topology in one namespace of the bus."""

    def __init__(self, admin: "ServiceBusAdministrationClient", wanted: BusEntities) -> None:
        self._admin = admin
        self._queues = {one.name: one for one in wanted.queues}
        self._subscriptions = {
            f"{topic.name}/{one.name}": (topic, one) for topic in wanted.topics for one in topic.subscriptions
        }

    def bring(self, name: str, *, is_there: bool) -> bool:
        """Make a queue, or a subscription with its topic and its rules. Return true if anything was made or mended."""
        if is_there:
            return name in self._subscriptions and self._mend_rules(*self._subscriptions[name])
        try:
            if name in self._queues:
                self._make_queue(self._queues[name])
            else:
                self._make_subscription(*self._subscriptions[name])
        except ResourceExistsError:
            # Another run made it since the look.
            return False
        return True

    def _make_queue(self, queue: BusQueue) -> None:
        size: dict[str, Any] = {} if queue.megabytes is None else {"max_size_in_megabytes": queue.megabytes}
        self._admin.create_queue(queue.name, **_delivery(queue.delivery), **_window(queue), **size)

    def _make_subscription(self, topic: Topic, subscription: Subscription) -> None:
        with suppress(ResourceExistsError):
            self._admin.create_topic(topic.name, **_window(topic))
        self._admin.create_subscription(topic.name, subscription.name, **_delivery(subscription.delivery))
        self._mend_rules(topic, subscription)

    def _mend_rules(self, topic: Topic, subscription: Subscription) -> bool:
        """Bring the rules to those of the topology. Return true if any differed: a run may have ended before them."""
        from azure.servicebus.management import TrueRuleFilter  # noqa: PLC0415 - loads slowly

        place = topic.name, subscription.name
        found = {rule.name: rule for rule in self._admin.list_rules(*place)}
        wanted = {name: _filter(one) for name, one in rules(subscription).items()} or {FIRST_RULE: TrueRuleFilter()}
        wrong = [name for name in wanted if name not in found or _content(found[name].filter) != _content(wanted[name])]
        for name in wrong:
            if name in found:
                found[name].filter = wanted[name]
                self._admin.update_rule(*place, found[name])
            else:
                self._admin.create_rule(*place, name, filter=wanted[name])
        return bool(wrong)


def _delivery(delivery: DeliveryRules) -> dict[str, Any]:
    options: dict[str, Any] = {
        "lock_duration": delivery.lock,
        "max_delivery_count": delivery.max_delivery_count,
        "requires_session": delivery.sessions,
        "dead_lettering_on_message_expiration": delivery.dead_letter_expired,
        "default_message_time_to_live": delivery.time_to_live,
        "forward_dead_lettered_messages_to": delivery.forward_dead_letters,
    }
    # Absent: messages live until they are taken, and dead letters stay where they are.
    return {name: value for name, value in options.items() if value is not None}


def _window(entity: BusQueue | Topic) -> dict[str, Any]:
    if entity.duplicate_window is None:
        return {}
    return {
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": entity.duplicate_window,
    }


def _filter(wanted: Filter) -> Any:
    from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter  # noqa: PLC0415 - loads slowly

    if isinstance(wanted, CorrelationFilter):
        return CorrelationRuleFilter(properties=dict(wanted.properties), label=wanted.subject)
    return SqlRuleFilter(wanted.expression)


def _content(one: Any) -> tuple[object, ...]:
    """Return the parts of a filter of the library's that Sluice sets. The service adds others of its own."""
    properties = dict(getattr(one, "properties", None) or {})
    return type(one), properties, getattr(one, "label", None) or None, getattr(one, "sql_expression", None)


def read_bus(admin: "ServiceBusAdministrationClient", wanted: BusEntities) -> BusEntities:
    """Return those of the wanted entities that are there, as they are set.

    It takes a request for each list, and one for the rules of each subscription.
    """
    names = {one.name for one in wanted.queues}
    queues = [one for one in admin.list_queues() if one.name in names] if names else []
    topics = {one.name: one for one in admin.list_topics()} if wanted.topics else {}
    return BusEntities(
        tuple(BusQueue(one.name, _read_delivery(one), _read_window(one), one.max_size_in_megabytes) for one in queues),
        tuple(
            Topic(one.name, _read_subscriptions(admin, one), _read_window(topics[one.name]))
            for one in wanted.topics
            if one.name in topics
        ),
    )


def _read_subscriptions(admin: "ServiceBusAdministrationClient", topic: Topic) -> tuple[Subscription, ...]:
    names = {one.name for one in topic.subscriptions}
    # Those of outsiders are theirs.
    found = [one for one in admin.list_subscriptions(topic.name) if one.name in names]
    return tuple(
        Subscription(
            one.name,
            tuple(_read_filter(rule.filter) for rule in admin.list_rules(topic.name, one.name)),
            _read_delivery(one),
        )
        for one in found
    )


def _read_delivery(one: Any) -> DeliveryRules:
    life, forward = one.default_message_time_to_live, one.forward_dead_lettered_messages_to or None
    return DeliveryRules(
        lock=one.lock_duration,
        max_delivery_count=one.max_delivery_count,
        sessions=bool(one.requires_session),
        dead_letter_expired=bool(one.dead_lettering_on_message_expiration),
        time_to_live=None if life is None or life > _ENDLESS else life,
        # The service gives the whole address.
        forward_dead_letters=urlsplit(forward).path.strip("/") if forward else None,
    )


def _read_window(one: Any) -> timedelta | None:
    window: timedelta = one.duplicate_detection_history_time_window
    return window if one.requires_duplicate_detection else None


def _read_filter(found: Any) -> Filter:
    if (expression := getattr(found, "sql_expression", None)) is not None:
        return SqlFilter(expression)
    names = ("correlation_id", "message_id", "to", "reply_to", "session_id", "reply_to_session_id", "content_type")
    # Sluice filters by none of these, so it is enough to name them.
    system = {f"system {name}": value for name in names if (value := getattr(found, name, None))}
    return CorrelationFilter(MappingProxyType({**dict(found.properties or {}), **system}), found.label or None)
