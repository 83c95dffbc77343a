import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from functions_local_host.host_json import QueueOptions
from functions_local_host.host_storage import HostStorage
from functions_local_host.queue_listener import QueueListener
from host_tests.listeners.recording import (
    Held,
    Recorder,
    fail,
    listening,
    queue_function,
    succeed,
    until,
)

LEASE = timedelta(minutes=10)


def options(**changes) -> QueueOptions:
    """Return host.json values that suit a test."""
    plain = {"batch_size": 4, "new_batch_threshold": 0, "message_encoding": "none"}
    return QueueOptions(max_polling_interval=timedelta(milliseconds=200), **{**plain, **changes})


def listener(queue, storage, invoke, lease=LEASE, **changes) -> QueueListener:
    """Return a listener of one storage queue."""
    return QueueListener(queue_function(queue.queue_name), options(**changes), storage, invoke, lease)


async def depth(queue) -> int:
    """Return how many messages a queue has, hidden ones included."""
    return (await queue.get_queue_properties()).approximate_message_count


async def is_empty(queue) -> bool:
    """Whether every message was settled."""
    return await depth(queue) == 0


async def poison_texts(storage, queue) -> list[str]:
    """Return the texts in a queue's poison queue."""
    poison = storage.queue(f"{queue.queue_name}-poison", "test")
    try:
        return [message.content for message in await poison.peek_messages(max_messages=32)]
    except ResourceNotFoundError:
        return []


async def holds_poison(storage, queue) -> bool:
    """Whether a message was moved to the poison queue."""
    return bool(await poison_texts(storage, queue))


async def test_a_message_is_run_and_then_deleted(queue, storage):
    """Success removes the message, and it ran once."""
    recorder = Recorder()
    await queue.send_message("hello")
    async with listening(listener(queue, storage, recorder)):
        await until(lambda: is_empty(queue))
    assert recorder.bodies == ["hello"]


async def test_the_function_sees_what_storage_says_of_the_message(queue, storage):
    """The decoded trigger carries the id, count and times of the message."""
    recorder = Recorder()
    sent = await queue.send_message("hello")
    async with listening(listener(queue, storage, recorder)):
        await until(lambda: bool(recorder.calls))
    (message,) = recorder.messages("queueTrigger")
    assert (message.id, message.dequeue_count, message.get_body()) == (sent.id, 1, b"hello")
    assert message.insertion_time == sent.inserted_on
    assert message.expiration_time - message.insertion_time == timedelta(days=7)


async def test_a_run_has_a_lease_of_ten_minutes(queue, storage):
    """The message is hidden for 600 s whatever visibilityTimeout says."""
    recorder = Recorder()
    await queue.send_message("hello")
    earliest = datetime.now(UTC)
    async with listening(listener(queue, storage, recorder, visibility_timeout=timedelta(seconds=7))):
        await until(lambda: bool(recorder.calls))
    (message,) = recorder.messages("queueTrigger")
    assert timedelta(seconds=590) < message.time_next_visible - earliest < timedelta(seconds=615)


@pytest.mark.parametrize(("batch_size", "threshold", "most"), [(4, 0, 4), (4, 2, 6), (1, 0, 1), (1, 2, 3)])
async def test_at_most_batch_size_and_threshold_run_at_once(queue, storage, batch_size, threshold, most):
    """A new batch is fetched only when no more than the threshold still run, and then at once."""
    for number in range(10):
        await queue.send_message(str(number))
    held = Held()
    recorder = Recorder(held)
    running = listener(queue, storage, recorder, batch_size=batch_size, new_batch_threshold=threshold)
    async with listening(running):
        await until(lambda: recorder.running >= min(batch_size, most))
        if threshold >= batch_size:
            await until(lambda: recorder.running == most)
        held.released.set()
        await until(lambda: is_empty(queue))
    assert recorder.most_running <= most
    assert len(recorder.calls) == 10


async def test_one_slow_message_does_not_hold_up_the_others(queue, storage):
    """With a threshold above zero the queue is read on while one message still runs."""
    held = Held()

    async def slow_first(trigger, metadata):
        return await (held if trigger.value == "slow" else succeed)(trigger, metadata)

    recorder = Recorder(slow_first)
    for body in ("slow", "a", "b", "c", "d", "e"):
        await queue.send_message(body)
    async with listening(listener(queue, storage, recorder, batch_size=1, new_batch_threshold=1)):
        await until(lambda: len(recorder.calls) == 6)
        held.released.set()
        await until(lambda: is_empty(queue))


async def test_a_failed_message_comes_back_after_visibility_timeout(queue, storage):
    """The retry waits as long as host.json says, not for the end of the lease."""
    recorder = Recorder(fail)
    await queue.send_message("hello")
    running = listener(queue, storage, recorder, visibility_timeout=timedelta(seconds=2), max_dequeue_count=3)
    seen = []

    async def note_time(_trigger, _metadata):
        seen.append(asyncio.get_running_loop().time())
        return len(seen) == 2

    recorder.behave = note_time
    async with listening(running):
        await until(lambda: is_empty(queue))
    assert len(seen) == 2
    # Storage counts whole seconds, so that a wait of 2 s may end after little more than one.
    assert seen[1] - seen[0] > 0.9


async def test_a_message_runs_exactly_as_often_as_allowed_and_then_is_poison(queue, storage):
    """The poison queue is made when it is missing, and holds the body and nothing else of the message."""
    recorder = Recorder(fail)
    sent = await queue.send_message("bad")
    async with listening(listener(queue, storage, recorder, max_dequeue_count=3)):
        await until(lambda: holds_poison(storage, queue))
        await until(lambda: is_empty(queue))
    assert recorder.bodies == ["bad"] * 3
    assert [message.dequeue_count for message in recorder.messages("queueTrigger")] == [1, 2, 3]
    (copy,) = await storage.queue(f"{queue.queue_name}-poison", "test").peek_messages()
    assert (copy.content, copy.dequeue_count) == ("bad", 0)
    assert copy.id != sent.id
    assert copy.expires_on - copy.inserted_on == timedelta(days=7)


async def test_a_message_received_too_often_is_poison_without_a_run(queue, storage):
    """Deliveries that ended in a crash count, though no run was seen to fail."""
    recorder = Recorder()
    await queue.send_message("crashed")
    for _ in range(2):
        await queue.receive_message(visibility_timeout=1)
        await asyncio.sleep(1.1)
    async with listening(listener(queue, storage, recorder, max_dequeue_count=2)):
        await until(lambda: holds_poison(storage, queue))
    assert recorder.calls == []


async def test_a_message_in_another_encoding_is_poison_at_once(queue, storage):
    """The function never sees it, and the copy is the text as it was."""
    recorder = Recorder()
    await queue.send_message("{not base64}")
    async with listening(listener(queue, storage, recorder, message_encoding="base64")):
        await until(lambda: holds_poison(storage, queue))
    assert recorder.calls == []
    assert await poison_texts(storage, queue) == ["{not base64}"]


async def test_a_base64_message_reaches_the_function_decoded(queue, storage):
    """With the default encoding the function sees the bytes that were encoded."""
    recorder = Recorder()
    await queue.send_message(base64.b64encode("grüße".encode()).decode())
    async with listening(listener(queue, storage, recorder, message_encoding="base64")):
        await until(lambda: is_empty(queue))
    assert recorder.bodies == ["grüße"]


async def test_a_body_that_is_no_text_fails_its_runs_and_is_poison(queue, storage):
    """A trigger for text cannot take other bytes; the message is tried as often as any failing one."""
    recorder = Recorder()
    await queue.send_message(base64.b64encode(b"\xff\xfe").decode())
    async with listening(listener(queue, storage, recorder, message_encoding="base64", max_dequeue_count=2)):
        await until(lambda: holds_poison(storage, queue))
    assert recorder.calls == []


async def test_the_body_of_a_poison_queue_message_stays_hidden_after_a_failure(storage, queue):
    """A poison queue has no poison queue: a failed message waits for the end of its lease, and runs once in it."""
    poison = storage.queue(f"{queue.queue_name}-poison", "test")
    await poison.create_queue()
    await poison.send_message("bad")
    recorder = Recorder(fail)
    async with listening(listener(poison, storage, recorder, max_dequeue_count=1)):
        await until(lambda: bool(recorder.calls))
        assert await depth(poison) == 1
    assert await poison.receive_message() is None


async def test_a_lease_is_renewed_while_the_function_runs(queue, storage):
    """A run longer than the lease stays alone with its message, and can still delete it."""
    held = Held()
    recorder = Recorder(held)
    await queue.send_message("long")
    async with listening(listener(queue, storage, recorder, lease=timedelta(seconds=2))):
        await until(lambda: recorder.running == 1)
        await asyncio.sleep(4.5)
        assert await queue.receive_message() is None
        held.released.set()
        await until(lambda: is_empty(queue))
    assert len(recorder.calls) == 1


async def test_without_its_renewal_a_message_comes_back(queue, storage, meter):
    """The renewal is what holds it: when another receiver has taken the message, its run may not delete it."""
    held = Held()
    await queue.send_message("taken")
    recorder = Recorder(held)
    running = listener(queue, storage, recorder, lease=timedelta(seconds=2))
    async with listening(running):
        await until(lambda: recorder.running == 1)
        (_, metadata) = recorder.calls[0]
        await queue.update_message(
            metadata["Id"].value, pop_receipt=metadata["PopReceipt"].value, visibility_timeout=60
        )
        await asyncio.sleep(1.5)
        held.released.set()
    assert await depth(queue) == 1


@pytest.mark.parametrize("is_ok", [True, False])
async def test_a_message_that_its_function_took_over_is_settled_by_the_function(queue, storage, caplog, is_ok):
    """The host's receipt is no longer good, and it takes the refusal as done: it neither deletes nor shows the message."""

    async def take_over(_trigger, metadata):
        await queue.update_message(metadata["Id"].value, metadata["PopReceipt"].value, visibility_timeout=60)
        return is_ok

    await queue.send_message("taken over")
    recorder = Recorder(take_over)
    async with listening(listener(queue, storage, recorder)):
        await until(lambda: bool(recorder.calls) and recorder.running == 0)
    assert (await depth(queue), await queue.receive_message()) == (1, None)
    assert [one for one in caplog.records if one.levelname == "WARNING"] == []


async def test_a_message_that_its_function_took_over_at_the_last_delivery_is_copied_twice(queue, storage):
    """The real host does so, too: the copy, a deletion that is refused, and the same again. So functions leave it alone."""
    receipts = []

    async def take_over(_trigger, metadata):
        taken = await queue.update_message(metadata["Id"].value, metadata["PopReceipt"].value, visibility_timeout=0)
        receipts.append(taken.pop_receipt)
        return False

    await queue.send_message("bad")
    async with listening(listener(queue, storage, Recorder(take_over), max_dequeue_count=1)):
        await until(lambda: is_empty(queue))
    assert (await poison_texts(storage, queue), len(receipts)) == (["bad", "bad"], 1)


async def test_a_stop_waits_for_the_messages_that_run(queue, storage):
    """What is in flight is finished and deleted; what waits is left."""
    held = Held()
    recorder = Recorder(held)
    for body in ("a", "b"):
        await queue.send_message(body)
    running = listener(queue, storage, recorder, batch_size=1)
    task = asyncio.create_task(running.run())
    await until(lambda: recorder.running == 1)
    running.stop()
    await asyncio.sleep(0.1)
    assert not task.done()
    held.released.set()
    await task
    assert await depth(queue) == 1
    assert len(recorder.calls) == 1


async def test_messages_that_arrive_during_a_stop_are_given_back(queue, storage):
    """An ending instance starts nothing new, and hides nothing from the others for ten minutes."""
    recorder = Recorder()
    await queue.send_message("late")
    ending = listener(queue, storage, recorder)
    ending.stop()
    await ending._poll()
    assert recorder.calls == []
    assert (await queue.receive_message()).content == "late"


async def test_a_queue_that_is_made_later_is_found(storage):
    """A missing queue is no error, it is asked for again."""
    recorder = Recorder()
    late = storage.queue("late-queue", "test")
    async with listening(listener(late, storage, recorder)):
        await asyncio.sleep(0.3)
        await late.create_queue()
        await late.send_message("hello")
        await until(lambda: bool(recorder.calls))


async def test_a_host_that_storage_refuses_ends(azurite, meter, queue):
    """A wrong key is a mistake that polling on would hide."""
    wrong = azurite.connection_string.replace(azurite.account.key, base64.b64encode(b"wrong").decode())
    refused = HostStorage(wrong, meter)
    with pytest.raises((ClientAuthenticationError, HttpResponseError)):
        await listener(queue, refused, Recorder()).run()
    await refused.close()


async def test_an_idle_listener_asks_once_an_interval(queue, storage, meter):
    """Only the polls of an idle queue are made, one at a time, and no existence check after the first."""
    recorder = Recorder()
    async with listening(listener(queue, storage, recorder)):
        await asyncio.sleep(1.0)
    polls = meter.requests[f"poll {queue.queue_name}", "queue", "GET"]
    assert 3 <= polls <= 8


async def test_a_poison_move_wakes_the_listener_of_the_poison_queue(queue, storage):
    """The handler of the poison queue in the same host does not wait for its next poll."""
    poison = storage.queue(f"{queue.queue_name}-poison", "test")
    await poison.create_queue()
    handled, failing = Recorder(), Recorder(fail)
    slow = QueueListener(
        queue_function(poison.queue_name),
        QueueOptions(message_encoding="none", max_polling_interval=timedelta(hours=1)),
        storage,
        handled,
        LEASE,
    )
    # Many empty polls ago: the next one is an hour away.
    slow._empties = 40
    async with listening(slow, listener(queue, storage, failing, max_dequeue_count=1)):
        await asyncio.sleep(0.3)
        await queue.send_message("bad")
        await until(lambda: handled.bodies == ["bad"])


async def test_three_instances_share_a_queue_and_lose_nothing(queue, storage):
    """Every message runs once, wherever it runs."""
    for number in range(30):
        await queue.send_message(str(number))
    recorders = [Recorder() for _ in range(3)]
    async with listening(*(listener(queue, storage, recorder, batch_size=2) for recorder in recorders)):
        await until(lambda: is_empty(queue))
    bodies = [body for recorder in recorders for body in recorder.bodies]
    assert sorted(bodies, key=int) == [str(number) for number in range(30)]


async def test_a_message_whose_holder_died_is_run_by_another(queue, storage):
    """Eight messages held by a listener that is gone come back when their lease ends, and none is lost."""
    for number in range(8):
        await queue.send_message(str(number))
    held, heir = Recorder(Held()), Recorder()
    dead = asyncio.create_task(
        listener(queue, storage, held, lease=timedelta(seconds=1), batch_size=8, new_batch_threshold=0).run()
    )
    await until(lambda: held.running == 8)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(dead, return_exceptions=True)
    async with listening(listener(queue, storage, heir, batch_size=8)):
        await until(lambda: is_empty(queue))
    assert sorted(heir.bodies, key=int) == [str(number) for number in range(8)]
