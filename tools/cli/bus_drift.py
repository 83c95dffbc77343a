"""Compares the entities of the bus as they are deployed with those that are there. Pure: both come as data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from shared.topology import BusEntities, BusQueue, DeliveryRules, Filter, SqlFilter, Subscription, Topic

#: The filter of a subscription that passes every message.
_EVERYTHING: Final = SqlFilter("1=1")
#: Properties that an entity keeps for as long as it exists.
_BORN_WITH: Final = frozenset({"sessions", "duplicate detection"})


@dataclass(frozen=True, slots=True)
class Difference:
    """One property of an entity that is not as it was deployed, and what follows from that."""

    what: str
    found: str
    wanted: str
    consequence: str

    @property
    def is_lasting(self) -> bool:
        """True if only a new entity can have another value."""
        return self.what in _BORN_WITH


def compare(wanted: BusEntities, found: BusEntities) -> dict[tuple[str, str], list[Difference]]:
    """Return the differences of each entity that is there, by its kind and name. What is missing is left out."""
    queues = {one.name: one for one in found.queues}
    topics = {one.name: one for one in found.topics}
    compared = {
        ("bus queue", one.name): [*_of_queue(one, queues[one.name])] for one in wanted.queues if one.name in queues
    }
    for topic in wanted.topics:
        if (there := topics.get(topic.name)) is None:
            continue
        compared["topic", topic.name] = [*_of_window(topic, there)]
        subscriptions = {one.name: one for one in there.subscriptions}
        for one in topic.subscriptions:
            if one.name in subscriptions:
                differences = [*_of_subscription(one, subscriptions[one.name])]
                compared["subscription", f"{topic.name}/{one.name}"] = differences
    return compared


def in_words(differences: list[Difference], *, is_local: bool) -> str:
    """Return the differences of an entity as a sentence, with their consequences and the command that mends them."""
    if not differences:
        return ""
    said = "; ".join(f"{one.what}: {one.found}, deployed is {one.wanted}, so {one.consequence}" for one in differences)
    return f"{said}: {_remedy(differences, is_local=is_local)}"


def _remedy(differences: list[Difference], *, is_local: bool) -> str:
    if is_local:
        return "start `make up` anew: this bus reads its entities from a file"
    if any(one.is_lasting for one in differences):
        return "it keeps this for life: delete it while it is empty (`az servicebus`), then `azd provision`"
    if all(one.what == "rules" for one in differences):
        return "`sluice provision` mends it"
    return "`azd provision` sets it again"


def _of_queue(wanted: BusQueue, found: BusQueue) -> Iterator[Difference]:
    yield from _of_delivery(wanted.delivery, found.delivery)
    yield from _of_window(wanted, found)
    if wanted.megabytes is not None and found.megabytes != wanted.megabytes:
        said = f"{found.megabytes} MB", f"{wanted.megabytes} MB"
        yield Difference("size", *said, "it refuses messages at another size")


def _of_subscription(wanted: Subscription, found: Subscription) -> Iterator[Difference]:
    yield from _of_delivery(wanted.delivery, found.delivery)
    # A subscription without filters of its own passes everything.
    due, there = (list(one.filters) or [_EVERYTHING] for one in (wanted, found))
    if not found.filters:
        there = []
    if any(one not in due for one in there) or any(one not in there for one in due):
        consequence = "messages that it is for do not reach it"
        if all(one in there for one in due) or _EVERYTHING in there:
            consequence = "its receiver gets messages that are for others"
        yield Difference("rules", _passed(there), _passed(due), consequence)


def _of_delivery(wanted: DeliveryRules, found: DeliveryRules) -> Iterator[Difference]:
    for what, read, show, consequence in _DELIVERY:
        due, there = read(wanted), read(found)
        if due != there:
            yield Difference(what, show(there), show(due), consequence(due, there))


def _of_window(wanted: BusQueue | Topic, found: BusQueue | Topic) -> Iterator[Difference]:
    due, there = wanted.duplicate_window, found.duplicate_window
    if (due is None) != (there is None):
        consequence = (
            "a message that is sent twice arrives twice"
            if there is None
            else "a message that is sent again on purpose is dropped"
        )
        yield Difference("duplicate detection", _window(there), _window(due), consequence)
    elif due != there:
        yield Difference(
            "window of duplicates", _window(there), _window(due), "repeats are known for another time than relied on"
        )


def _window(window: timedelta | None) -> str:
    return "off" if window is None else f"over {window.total_seconds():g} s"


def _life(life: timedelta | None) -> str:
    return "without end" if life is None else f"{life.total_seconds():g} s"


def _switch(is_on: bool) -> str:  # noqa: FBT001 - a value of a property
    return "on" if is_on else "off"


def _shorter(due: timedelta | None, there: timedelta | None) -> bool:
    return there is not None and (due is None or there < due)


def _of_lock(due: timedelta, there: timedelta) -> str:
    if there < due:
        return "work that takes longer is delivered a second time while it runs"
    return "the work of a process that died waits longer for another one"


def _of_count(due: int, there: int) -> str:
    if there < due:
        return "an outage makes dead letters of healthy messages"
    return "a message that always fails is tried more often"


def _of_life(due: timedelta | None, there: timedelta | None) -> str:
    return "messages are lost before they are read" if _shorter(due, there) else "stale messages stay, and are acted on"


def _of_expired(due: bool, there: bool) -> str:  # noqa: FBT001 - the two values of one property
    return "what expires is gone without a trace" if due and not there else "what expires fills its dead letters"


def _of_forwarding(due: str | None, there: str | None) -> str:
    return f"its dead letters do not reach {due}, and are not parked" if due else f"its dead letters go to {there}"


def _passed(filters: list[Filter]) -> str:
    return " or ".join(sorted(map(_filter, filters))) or "nothing passes"


def _filter(one: Filter) -> str:
    if isinstance(one, SqlFilter):
        return "everything passes" if one == _EVERYTHING else one.expression
    subject = {"subject": one.subject} if one.subject else {}
    return " and ".join(f"{name}={value}" for name, value in {**one.properties, **subject}.items())


_REFUSED: Final = "its receivers are refused, and nothing is taken from it"
_Property = tuple[str, Callable[[DeliveryRules], Any], Callable[[Any], str], Callable[[Any, Any], str]]
_DELIVERY: Final[tuple[_Property, ...]] = (
    ("lock", lambda one: one.lock, _life, _of_lock),
    ("deliveries", lambda one: one.max_delivery_count, str, _of_count),
    ("sessions", lambda one: one.sessions, _switch, lambda _due, _there: _REFUSED),
    ("time to live", lambda one: one.time_to_live, _life, _of_life),
    (
        "dead letters of expired messages",
        lambda one: one.dead_letter_expired,
        _switch,
        _of_expired,
    ),
    ("dead letters go to", lambda one: one.forward_dead_letters, lambda name: name or "nowhere", _of_forwarding),
)
