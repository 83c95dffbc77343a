"""The entities of a namespace as data, read from a JSON file and written to one.

The file's part `bus` has four lists: queues, topics, subscriptions (each with the place of its topic) and rules (each with
the place of its subscription). Properties and durations are written as Azure Resource Manager has them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

#: Service Bus takes no other locks.
SHORTEST_LOCK: Final = timedelta(seconds=5)
LONGEST_LOCK: Final = timedelta(minutes=5)
MOST_DELIVERIES: Final = 2000
_KINDS: Final = ("queues", "topics", "subscriptions", "rules")
#: The properties of a queue or a subscription that the broker takes. It keeps a queue's size, and refuses nothing beyond.
_PROPERTIES: Final = frozenset(
    {
        "lockDuration",
        "maxDeliveryCount",
        "maxSizeInMegabytes",
        "requiresSession",
        "deadLetteringOnMessageExpiration",
        "defaultMessageTimeToLive",
        "requiresDuplicateDetection",
        "duplicateDetectionHistoryTimeWindow",
        "forwardDeadLetteredMessagesTo",
    }
)
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


#: The system properties of a correlation filter: their names in Azure Resource Manager, and in AMQP.
SYSTEM_PROPERTIES: Final = {
    "correlationId": "correlation_id",
    "messageId": "message_id",
    "to": "to",
    "replyTo": "reply_to",
    "label": "subject",
    "sessionId": "group_id",
    "replyToSessionId": "reply_to_group_id",
    "contentType": "content_type",
}
#: The rule that Azure makes with each subscription; a subscription's first filter replaces it.
FIRST_RULE: Final = "$Default"


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Passes a message whose application properties, subject and other system properties equal the given ones."""

    properties: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    subject: str | None = None
    #: By their names in AMQP.
    system: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Passes a message for which the expression holds. The broker refuses what its subset of the language lacks."""

    expression: str


Filter: TypeAlias = CorrelationFilter | SqlFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """How a queue or a subscription delivers its messages."""

    lock: timedelta = timedelta(minutes=1)
    max_delivery_count: int = 10
    sessions: bool = False
    dead_letter_expired: bool = False
    #: None: messages never expire.
    time_to_live: timedelta | None = None
    #: The queue or topic that dead letters go to. None: they wait in the dead-letter sub-queue.
    forward_dead_letters: str | None = None

    def __post_init__(self) -> None:
        if not SHORTEST_LOCK <= self.lock <= LONGEST_LOCK:
            raise ValueError(f"lock {self.lock} is outside of {SHORTEST_LOCK} to {LONGEST_LOCK}, the service's limits")
        if not 1 <= self.max_delivery_count <= MOST_DELIVERIES:
            raise ValueError(f"max_delivery_count {self.max_delivery_count} is outside of 1 to {MOST_DELIVERIES}")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue."""

    name: str
    delivery: DeliveryRules = field(default_factory=DeliveryRules)
    #: None: no duplicate detection.
    duplicate_window: timedelta | None = None
    #: None: what the service gives. It is reported, and nothing is refused beyond it: here memory is the limit.
    megabytes: int | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a topic. One passing filter is enough, and without a filter every message passes."""

    name: str
    filters: tuple[Filter, ...] = ()
    delivery: DeliveryRules = field(default_factory=DeliveryRules)
    #: The names of the filters' rules, in their order. Empty: each is named after its place.
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            places = range(1, len(self.filters) + 1)
            object.__setattr__(self, "names", tuple(f"rule-{n}" if n > 1 else FIRST_RULE for n in places))
        if len(set(self.names)) != len(self.filters):
            raise ValueError(f"subscription {self.name!r} names its rules {self.names}: each needs a name of its own")

    def rules(self) -> dict[str, Filter]:
        """Return the filters by the names of their rules. The one of a subscription without filters passes everything."""
        return dict(zip(self.names, self.filters, strict=True)) or {FIRST_RULE: SqlFilter("1=1")}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic."""

    name: str
    subscriptions: tuple[Subscription, ...]
    duplicate_window: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """All entities that a broker serves."""

    queues: tuple[Queue, ...] = ()
    topics: tuple[Topic, ...] = ()


#: Beside the file of the entities: those of parts that an installation may have.
_PARTS = "capabilities.json"
#: Queues of a part of which an installation may have fewer.
_COUNTED = "countedQueues"


def read(file: Path, parts: Sequence[str] = ()) -> Namespace:
    """Return the entities of a file, or raise ValueError with the file's name and its fault.

    `parts` names objects of the file `capabilities.json` beside it, whose own lists `bus` stand behind the file's.
    """
    try:
        lists = [json.loads(file.read_text(encoding="utf-8"))["bus"]]
        if parts:
            further = json.loads(file.with_name(_PARTS).read_text(encoding="utf-8"))
            lists += [
                bus | {"queues": [*bus["queues"], *bus.get(_COUNTED, ())]}
                for bus in (further[part]["bus"] for part in parts)
            ]
        return parse({kind: [one for each in lists for one in each[kind]] for kind in _KINDS})
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{file} holds no entities as expected: {type(error).__name__}: {error}") from error


def parse(bus: Mapping[str, Any]) -> Namespace:
    """Return the entities of a file's part `bus`."""
    rules: dict[tuple[str, str], list[tuple[str, Filter]]] = {}
    for rule in bus["rules"]:
        found = rules.setdefault((rule["topic"], rule["subscription"]), [])
        found.append((rule["name"], _filter(rule["properties"])))
    subscriptions: dict[str, list[Subscription]] = {one["name"]: [] for one in bus["topics"]}
    for given in bus["subscriptions"]:
        of_one = rules.pop((given["topic"], given["name"]), [])
        names, filters = tuple(name for name, _ in of_one), tuple(one for _, one in of_one)
        made = Subscription(given["name"], filters, _delivery(given["properties"]), names)
        subscriptions[given["topic"]].append(made)
    if rules:
        raise LookupError(f"rules of a subscription that is not there: {'/'.join(next(iter(rules)))}")
    return Namespace(
        tuple(map(_queue, bus["queues"])),
        tuple(
            Topic(one["name"], tuple(subscriptions[one["name"]]), _window(one["properties"])) for one in bus["topics"]
        ),
    )


def duration(text: str) -> timedelta:
    """Return an ISO 8601 duration of days, hours, minutes and seconds, such as P1DT2H."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no duration such as P14D or PT1M30S")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _queue(given: Mapping[str, Any]) -> Queue:
    properties = given["properties"]
    return Queue(given["name"], _delivery(properties), _window(properties), properties.get("maxSizeInMegabytes"))


def _filter(properties: Mapping[str, Any]) -> Filter:
    if properties["filterType"] == "SqlFilter":
        return SqlFilter(properties["sqlFilter"]["sqlExpression"])
    if properties["filterType"] == "CorrelationFilter":
        given = properties["correlationFilter"]
        system = {SYSTEM_PROPERTIES[name]: value for name, value in given.items() if name != "properties"}
        return CorrelationFilter(dict(given.get("properties", {})), system.pop("subject", None), system)
    raise ValueError(f"filterType is {properties['filterType']!r}, expected SqlFilter or CorrelationFilter")


def _delivery(properties: Mapping[str, Any]) -> DeliveryRules:
    if strange := sorted(set(properties) - _PROPERTIES):
        raise ValueError(f"the broker does not do {strange[0]!r}: leave it out, or test it on the service")
    life = properties.get("defaultMessageTimeToLive")
    return DeliveryRules(
        lock=duration(properties["lockDuration"]),
        max_delivery_count=properties["maxDeliveryCount"],
        sessions=properties["requiresSession"],
        dead_letter_expired=properties["deadLetteringOnMessageExpiration"],
        time_to_live=None if life is None else duration(life),
        forward_dead_letters=properties.get("forwardDeadLetteredMessagesTo"),
    )


def _window(properties: Mapping[str, Any]) -> timedelta | None:
    if not properties["requiresDuplicateDetection"]:
        return None
    return duration(properties["duplicateDetectionHistoryTimeWindow"])
