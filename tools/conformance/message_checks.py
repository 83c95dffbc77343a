"""Tries at the properties of messages on the bus, outside of sessions."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue as SubQueue,
)
from azure.servicebus.exceptions import ServiceBusError

from tools.conformance.bus_wishes import COLOUR, COLOURS, DEAD, DUPLICATES, LATE, LIVES, LOCK, LOCKS, TIMES
from tools.conformance.scene import CheckEntry, Scene

#: Seconds in which a message that is there arrives, and in which one that must not come would have come.
_ARRIVES: Final = 10.0
_QUIET: Final = 2.0
#: Seconds after which a lock is over for certain.
_LOCK_OVER: Final = LOCK.total_seconds() + 1.5
#: What a killed run leaves in entities that are not its own ends by itself.
_LIFE: Final = timedelta(minutes=5)
#: Clocks differ by less than this.
_SCHEDULED_IN: Final = timedelta(seconds=8)
_SHORT_LIFE: Final = timedelta(seconds=1)
_NOTHING: Final = "no message"


def message(scene: Scene, body: str, **options: Any) -> ServiceBusMessage:
    """Return a message of this run."""
    return ServiceBusMessage(body, **{"message_id": f"{scene.nonce}-{body}", "time_to_live": _LIFE, **options})


def send(bus: ServiceBusClient, queue: str, *messages: ServiceBusMessage) -> None:
    """Send messages in one batch."""
    with bus.get_queue_sender(queue) as sender:
        sender.send_messages(list(messages))


def take(receiver: ServiceBusReceiver, seconds: float = _ARRIVES) -> ServiceBusReceivedMessage | None:
    """Take one message."""
    return next(iter(receiver.receive_messages(max_message_count=1, max_wait_time=seconds)), None)


def take_all(receiver: ServiceBusReceiver, most: int) -> list[str]:
    """Take and complete messages until none comes any more, and return their bodies."""
    found: list[str] = []
    while len(found) < most:
        some = receiver.receive_messages(max_message_count=most, max_wait_time=_QUIET if found else _ARRIVES)
        if not some:
            break
        for one in some:
            found.append(str(one))
            receiver.complete_message(one)
    return found


def said(found: ServiceBusReceivedMessage | None) -> str:
    """Return the text of a message that came, or that none came."""
    return _NOTHING if found is None else f"message {found}"


def _delivered(found: ServiceBusReceivedMessage | None) -> int:
    return (found.delivery_count or 0) if found else 0


def check_duplicates(scene: Scene) -> None:
    """Send two messages with one id, and a third."""
    queue = scene.site.bus_queue(DUPLICATES)
    with scene.site.bus() as bus, bus.get_queue_receiver(queue) as receiver:
        for body, sender_id in (("1", "same"), ("2", "same"), ("3", "other")):
            send(bus, queue, message(scene, body, message_id=f"{scene.nonce}-{sender_id}"))
        tried = "send messages 1 and 2 with one id, and 3 with another"
        scene.notes.note("bus.duplicates", tried, ["1", "3"], sorted(take_all(receiver, 3)))


def check_lock(scene: Scene) -> None:
    """Let a lock end, and abandon."""
    queue, note = scene.site.bus_queue(LOCKS), scene.notes.note
    with scene.site.bus() as bus:
        send(bus, queue, message(scene, "1"))
        with bus.get_queue_receiver(queue) as first, bus.get_queue_receiver(queue) as second:
            locked = take(first)
            note("bus.lock", "take a message that another receiver has", _NOTHING, said(take(second, _QUIET)))
            scene.pace.wait(_LOCK_OVER)
            again = take(second)
            tried = f"take it {_LOCK_OVER:g} s after a lock of {LOCK.seconds} s began"
            note("bus.lock_end", tried, "message 1", said(again))
            if again is None:
                return
            counts = [_delivered(again) - _delivered(locked)]
            second.abandon_message(again)
            last = take(second)
            counts.append(_delivered(last) - _delivered(locked))
            note("bus.count", "count deliveries after the lock's end, and after an abandonment", [1, 2], counts)
            if last:
                second.complete_message(last)


def check_late(scene: Scene) -> None:
    """Complete a message with a lock of before, while another receiver has it."""
    queue = scene.site.bus_queue(LATE)
    with scene.site.bus() as bus, scene.site.bus() as other:
        send(bus, queue, message(scene, "1"))
        with bus.get_queue_receiver(queue) as first, other.get_queue_receiver(queue) as second:
            late = take(first)
            scene.pace.wait(_LOCK_OVER)
            current = take(second)
            if late is None or current is None:
                tried = "take a message, and take it again after its lock"
                scene.notes.note("bus.late", tried, ["message 1"] * 2, [said(late), said(current)])
                return
            # The library would refuse by the lock's time alone; the question is whether the service does.
            late._expiry = datetime.now(UTC) + _LIFE  # noqa: SLF001
            # It refuses, or answers nothing: either is fine as long as the message is still there.
            with suppress(ServiceBusError):
                first.complete_message(late)
            with suppress(ServiceBusError):
                second.abandon_message(current)
            last = take(second)
            tried = "complete with a lock that is over, abandon with the current one, take it again"
            scene.notes.note("bus.late", tried, "message 1", said(last))
            if last:
                second.complete_message(last)


def check_dead(scene: Scene) -> None:
    """Abandon a message as often as its queue allows, and read the dead letters."""
    queue, note, key = scene.site.bus_queue(DEAD), scene.notes.note, "bus.dead"
    with scene.site.bus() as bus, bus.get_queue_receiver(queue) as receiver:
        send(bus, queue, message(scene, "1"))
        for _ in range(DEAD.max_deliveries):
            if taken := take(receiver):
                receiver.abandon_message(taken)
        tried = f"abandon a message {DEAD.max_deliveries} times, which is the limit of its queue"
        note(key, f"{tried}, and take it", _NOTHING, said(take(receiver, _QUIET)))
        with bus.get_queue_receiver(queue, sub_queue=SubQueue.DEAD_LETTER) as dead:
            letter = take(dead)
            note(key, f"{tried}, and take the dead letter", "message 1", said(letter))
            if letter is None:
                return
            note(key, "read its reason", "MaxDeliveryCountExceeded", letter.dead_letter_reason)
            dead.complete_message(letter)


def check_schedule(scene: Scene) -> None:
    """Send a message for later."""
    queue, note, key = scene.site.bus_queue(TIMES), scene.notes.note, "bus.schedule"
    with scene.site.bus() as bus, bus.get_queue_receiver(queue) as receiver:
        at = datetime.now(UTC) + _SCHEDULED_IN
        send(bus, queue, message(scene, "1", scheduled_enqueue_time_utc=at))
        early = take(receiver, _QUIET)
        note(key, f"take a message that is scheduled in {_SCHEDULED_IN.seconds} s", _NOTHING, said(early))
        if early:
            receiver.complete_message(early)
            return
        scene.pace.wait(_SCHEDULED_IN.total_seconds() - _QUIET)
        found = take(receiver)
        note(key, "take it after that time", "message 1", said(found))
        if found:
            receiver.complete_message(found)


def check_expiry(scene: Scene) -> None:
    """Send a message with a short life beside one with a long life."""
    queue = scene.site.bus_queue(LIVES)
    with scene.site.bus() as bus:
        send(bus, queue, message(scene, "short", time_to_live=_SHORT_LIFE), message(scene, "long"))
        scene.pace.wait(_SHORT_LIFE.total_seconds() + _QUIET)
        with bus.get_queue_receiver(queue) as receiver:
            tried = f"take what is left {_QUIET:g} s after the end of one message's life"
            scene.notes.note("bus.expiry", tried, ["long"], take_all(receiver, 2))


def check_filter(scene: Scene) -> None:
    """Send messages of three colours to a topic whose subscriptions pass one each."""
    topic = scene.site.bus_topic(COLOURS)
    colours = ("red", "green", "blue")
    with scene.site.bus() as bus:
        with bus.get_topic_sender(topic) as sender:
            for colour in colours:
                sender.send_messages(message(scene, colour, application_properties={COLOUR: colour}))
        for subscription, passed in COLOURS.passes.items():
            with bus.get_subscription_receiver(topic, subscription) as receiver:
                tried = f"send {', '.join(colours)}, and receive from the subscription for {passed}"
                scene.notes.note("bus.filter", tried, [passed], take_all(receiver, len(colours)))


CHECKS: Final = (
    CheckEntry(check_duplicates, ("bus.duplicates",)),
    CheckEntry(check_lock, ("bus.lock", "bus.lock_end", "bus.count")),
    CheckEntry(check_late, ("bus.late",)),
    CheckEntry(check_dead, ("bus.dead",)),
    CheckEntry(check_schedule, ("bus.schedule",)),
    CheckEntry(check_expiry, ("bus.expiry",)),
    CheckEntry(check_filter, ("bus.filter",)),
)
