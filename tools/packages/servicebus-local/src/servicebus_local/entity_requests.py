"""The entities that an administration client wants made, read from the Atom document of its request."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from xml.etree import ElementTree as ET

from servicebus_local.entities import (
    SYSTEM_PROPERTIES,
    CorrelationFilter,
    DeliveryRules,
    Filter,
    Queue,
    SqlFilter,
    Subscription,
    Topic,
)
from servicebus_local.refusal import ARGUMENT, Refusal, not_implemented

_SERVICE_BUS: Final = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"
_SPAN: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
#: A span of more days has no end: the service writes that as one of 10,675,199 days.
_MOST_DAYS: Final = 10_000_000
#: What would make an entity another one than the client takes it for.
_REFUSED: Final = ("ForwardTo", "DefaultRuleDescription", "DefaultRuleAction")
_NUMBERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "int": int,
    "long": int,
    "double": float,
    "boolean": lambda text: text == "true",
}


def read_entity(name: str, body: bytes) -> Queue | Topic:
    """Return the queue or the topic that a request describes."""
    root = _root(body)
    if (given := _fields(root, "QueueDescription")) is not None:
        size = given.get("MaxSizeInMegabytes")
        return Queue(name, _delivery(given), _window(given), int(size) if size else None)
    if (given := _fields(root, "TopicDescription")) is not None:
        return Topic(name, (), _window(given))
    raise Refusal(ARGUMENT, "the request describes neither a queue nor a topic")


def read_subscription(name: str, body: bytes) -> Subscription:
    """Return the subscription that a request describes. It passes every message."""
    given = _fields(_root(body), "SubscriptionDescription")
    if given is None:
        raise Refusal(ARGUMENT, "the request describes no subscription")
    return Subscription(name, delivery=_delivery(given))


def read_filter(body: bytes) -> Filter:
    """Return the filter of the rule that a request describes."""
    found = _root(body).find(f".//{_SERVICE_BUS}RuleDescription/{_SERVICE_BUS}Filter")
    if found is None:
        raise Refusal(ARGUMENT, "the request describes no rule with a filter")
    kind = found.get(_TYPE, "").rpartition(":")[2]
    if kind in {"SqlFilter", "TrueFilter", "FalseFilter"}:
        return SqlFilter(found.findtext(f"{_SERVICE_BUS}SqlExpression") or ("1=0" if kind == "FalseFilter" else "1=1"))
    if kind != "CorrelationFilter":
        raise not_implemented(f"filters of the type {kind!r}")
    named = {name: found.findtext(f"{_SERVICE_BUS}{name[0].upper()}{name[1:]}") for name in SYSTEM_PROPERTIES}
    system = {SYSTEM_PROPERTIES[name]: value for name, value in named.items() if value}
    pairs = found.findall(f"{_SERVICE_BUS}Properties/{_SERVICE_BUS}KeyValueOfstringanyType")
    return CorrelationFilter(dict(map(_pair, pairs)), system.pop("subject", None), system)


def _root(body: bytes) -> ET.Element:
    try:
        # From this machine alone, and expat refuses what expands without end.
        return ET.fromstring(body)  # noqa: S314
    except ET.ParseError as error:
        raise Refusal(ARGUMENT, f"the body of the request is no XML: {error}") from error


def _fields(root: ET.Element, kind: str) -> dict[str, str] | None:
    found = root.find(f".//{_SERVICE_BUS}{kind}")
    if found is None:
        return None
    given = {one.tag.removeprefix(_SERVICE_BUS): one.text or "" for one in found}
    if refused := [name for name in _REFUSED if name in given]:
        raise not_implemented(f"{refused[0]!r} of an entity: leave it out, or test it on the service")
    return given


def _delivery(given: Mapping[str, str]) -> DeliveryRules:
    usual = DeliveryRules()
    try:
        return DeliveryRules(
            lock=_span(given.get("LockDuration")) or usual.lock,
            max_delivery_count=int(given.get("MaxDeliveryCount") or usual.max_delivery_count),
            sessions=given.get("RequiresSession") == "true",
            dead_letter_expired=given.get("DeadLetteringOnMessageExpiration") == "true",
            time_to_live=_span(given.get("DefaultMessageTimeToLive")),
            forward_dead_letters=given.get("ForwardDeadLetteredMessagesTo"),
        )
    except ValueError as error:
        raise Refusal(ARGUMENT, str(error)) from error


def _window(given: Mapping[str, str]) -> timedelta | None:
    if given.get("RequiresDuplicateDetection") != "true":
        return None
    return _span(given.get("DuplicateDetectionHistoryTimeWindow")) or timedelta(minutes=10)


def _span(text: str | None) -> timedelta | None:
    """Return a span; None if there is none, or one without an end."""
    if not text:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration such as P14D or PT1M30S")
    days, hours, minutes = (int(part or 0) for part in found.groups()[:3])
    if days > _MOST_DAYS:
        return None
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=float(found[4] or 0))


def _pair(pair: ET.Element) -> tuple[str, str | int | float | bool]:
    value = pair.find(f"{_SERVICE_BUS}Value")
    text = "" if value is None else value.text or ""
    kind = "" if value is None else value.get(_TYPE, "").rpartition(":")[2]
    return pair.findtext(f"{_SERVICE_BUS}Key") or "", _NUMBERS.get(kind, str)(text)
