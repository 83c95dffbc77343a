"""Tries at the properties of storage queues."""

from typing import Any, Final

from azure.storage.queue import QueueClient, QueueMessage

from tools.conformance.judgement import at_least
from tools.conformance.scene import CheckEntry, Scene, outcome

#: Seconds for which a message is taken, and after which it is back for certain.
_TAKEN: Final = 3
_BACK: Final = 4.0
_FOREVER: Final = -1
_NEVER: Final = 9999
_SOME: Final = 5


def _take(queue: QueueClient, seconds: int = _TAKEN) -> QueueMessage | None:
    return next(iter(queue.receive_messages(messages_per_page=1, max_messages=1, visibility_timeout=seconds)), None)


def _said(message: Any) -> str:
    return "no message" if message is None else f"message {message.content}"


def check_visibility(scene: Scene) -> None:
    """Take a message, let it come back, and use the receipts of both times."""
    queue, note = scene.site.queue("taken"), scene.notes.note
    queue.send_message("1")
    first = _take(queue)
    note("queue.visibility", "take a message again while it is taken", "no message", _said(_take(queue)))
    scene.pace.wait(_BACK)
    second = _take(queue, 60)
    note("queue.visibility", f"take it {_BACK:g} s after it was taken for {_TAKEN} s", "message 1", _said(second))
    counts = [one.dequeue_count for one in (first, second) if one is not None]
    note("queue.count", "count its deliveries", [1, 2], counts)
    if first is None or second is None:
        return
    key = "queue.receipt"
    late = outcome(lambda: queue.delete_message(first.id, str(first.pop_receipt)))
    note(key, "delete it with the receipt of its first delivery", "refused", _short(late))
    renewed = queue.update_message(second.id, str(second.pop_receipt), visibility_timeout=60)
    late = outcome(lambda: queue.update_message(second.id, str(second.pop_receipt), visibility_timeout=60))
    note(key, "renew it with a receipt of before its last renewal", "refused", _short(late))
    last = outcome(lambda: queue.delete_message(second.id, str(renewed.pop_receipt)))
    note(key, "delete it with the receipt of its last renewal", "done", last)
    own, other = queue.send_message("2"), queue.send_message("3")
    hidden = outcome(lambda: queue.update_message(own.id, str(own.pop_receipt), visibility_timeout=60))
    note(key, "hide a message with the receipt of its put", "done", hidden)
    note(key, "take a message then", "message 3", _said(_take(queue, 60)))
    late = outcome(lambda: queue.update_message(other.id, str(other.pop_receipt), visibility_timeout=60))
    note(key, "hide that one with the receipt of its put", "refused", _short(late))


def _short(answer: str) -> str:
    # 404 on Azure, 400 on Azurite: no code tells them apart.
    return answer.partition(" ")[0]


def check_delay(scene: Scene) -> None:
    """Put a message that is not to be seen yet."""
    queue, note = scene.site.queue("delay"), scene.notes.note
    queue.send_message("1", visibility_timeout=_TAKEN)
    note("queue.delay", f"take a message that is put with a delay of {_TAKEN} s", "no message", _said(_take(queue)))
    scene.pace.wait(_BACK)
    note("queue.delay", f"take it after {_BACK:g} s", "message 1", _said(_take(queue)))


def check_depth(scene: Scene) -> None:
    """Count messages, some of which are taken."""
    queue = scene.site.queue("depth")
    sent = [queue.send_message(str(number), time_to_live=_FOREVER) for number in range(_SOME)]
    years = {one.expires_on.year if one.expires_on else None for one in sent}
    scene.notes.note("queue.forever", "put messages with a life of -1: the year of their end", {_NEVER}, years)
    _take(queue, 60)
    found = queue.get_queue_properties().approximate_message_count or 0
    tried = f"count {_SOME} messages of which one is taken"
    scene.notes.note("queue.depth", tried, f"{_SOME} or more", at_least(found, _SOME))


def check_peek(scene: Scene) -> None:
    """Look at a message twice, then take it, then look again."""
    queue, note = scene.site.queue("peek"), scene.notes.note
    queue.send_message("1")
    seen = [_said(next(iter(queue.peek_messages(1)), None)) for _ in range(2)]
    note("queue.peek", "look at a message twice", ["message 1"] * 2, seen)
    taken = _take(queue, 60)
    note("queue.peek", "take it afterwards", "message 1", _said(taken))
    note("queue.peek", "count its deliveries then", 1, taken.dequeue_count if taken else 0)
    hidden = _said(next(iter(queue.peek_messages(1)), None))
    note("queue.peek", "look again while it is taken", "no message", hidden)


CHECKS: Final = (
    CheckEntry(check_visibility, ("queue.visibility", "queue.count", "queue.receipt")),
    CheckEntry(check_delay, ("queue.delay",)),
    CheckEntry(check_depth, ("queue.depth", "queue.forever")),
    CheckEntry(check_peek, ("queue.peek",)),
)
