"""The entities of the broker's tests: several of each kind, so that each test has its own."""

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from servicebus_local.entities import CorrelationFilter, DeliveryRules, Namespace, Queue, SqlFilter, Subscription, Topic

#: How many of each kind there are; a test that asks for one more says so.
COPIES = 160
TOPICS = 40
WINDOW = timedelta(seconds=20)
#: Of the broker whose locks tests wait out: a busy machine may pause for longer than a second before a test acts.
BRISK_LOCK = 4.0

_KINDS = {
    "plain": Queue("plain"),
    "thrice": Queue("thrice", DeliveryRules(max_delivery_count=3)),
    "brief": Queue("brief", DeliveryRules(time_to_live=timedelta(seconds=1))),
    "buried": Queue("buried", DeliveryRules(time_to_live=timedelta(seconds=1), dead_letter_expired=True)),
    "unique": Queue("unique", duplicate_window=WINDOW),
    "sessions": Queue("sessions", DeliveryRules(sessions=True)),
    # The dead letters of each copy go to the copy of "graves" with its number.
    "sending": Queue("sending", DeliveryRules(max_delivery_count=3, dead_letter_expired=True)),
    "sending-sessions": Queue("sending-sessions", DeliveryRules(sessions=True)),
    "graves": Queue("graves"),
    "graves-of-sessions": Queue("graves-of-sessions"),
}
_GRAVES = {"sending": "graves", "sending-sessions": "graves-of-sessions"}


def _kind(kind):
    return CorrelationFilter(MappingProxyType({"kind": kind}))


def _delivery(kind, n):
    if kind.name not in _GRAVES:
        return kind.delivery
    return replace(kind.delivery, forward_dead_letters=f"{_GRAVES[kind.name]}-{n:02}")


def _topic(name, window=None):
    return Topic(
        name,
        (
            Subscription("everything"),
            Subscription("red", (_kind("red"),)),
            Subscription("red-or-blue", (_kind("red"), _kind("blue"))),
            Subscription("urgent", (CorrelationFilter(subject="urgent"),)),
            Subscription("urgent-red", (CorrelationFilter(MappingProxyType({"kind": "red"}), "urgent"),)),
            Subscription("heavy", (SqlFilter("weight > 10 AND kind IN ('red', 'blue')"),)),
            Subscription("labelled", (SqlFilter("sys.Label = 'urgent' OR EXISTS(flag)"),)),
            Subscription("none", (SqlFilter("1 = 0"),)),
            Subscription("in-sessions", (), DeliveryRules(sessions=True)),
            Subscription("sending", (_kind("red"),), DeliveryRules(forward_dead_letters=f"graves-of-{name}")),
        ),
        window,
    )


def bus(copies=COPIES, topics=TOPICS):
    """Return every entity of the tests, or fewer for others: the broker looks at each twenty times a second."""
    queues = [
        Queue(f"{name}-{n:02}", _delivery(kind, n), kind.duplicate_window)
        for name, kind in _KINDS.items()
        for n in range(copies)
    ]
    plain = [_topic(f"topic-{n:02}") for n in range(topics)]
    unique = [_topic(f"topic-unique-{n:02}", WINDOW) for n in range(topics)]
    queues += [Queue(f"graves-of-{topic.name}") for topic in (*plain, *unique)]
    return Namespace(tuple(queues), (*plain, *unique))
