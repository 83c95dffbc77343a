import asyncio
from datetime import timedelta

import pytest
from functions_local_host.bus_listener import BusListener
from functions_local_host.host_json import BusOptions
from host_tests.listeners.bus_probe import BusProbe
from host_tests.listeners.bus_topology import DELIVERIES, LOCK_SECONDS, bus
from host_tests.listeners.recording import Held, Recorder, bus_function, fail, succeed, until
from servicebus_local.launcher import Broker

# One loop, so that the probe's links last: opening and closing them is most of a test's time.
pytestmark = pytest.mark.asyncio(loop_scope="module")


def options(**changes) -> BusOptions:
    """Return host.json values that suit a test."""
    plain = {"max_concurrent_calls": 4, "session_idle_timeout": timedelta(seconds=1)}
    return BusOptions(try_timeout=timedelta(seconds=5), **{**plain, **changes})


def listener(broker, queue: str, invoke, settings=None, **changes) -> BusListener:
    """Return a listener of one bus queue."""
    function = bus_function(queueName=queue, dataType="STRING", **(settings or {}))
    return BusListener(function, options(**changes), broker.connection_string, invoke)


async def test_a_message_is_run_and_completed(listening, broker, bus, plain):
    """The function sees the message as it was sent, once, and it is gone."""
    recorder = Recorder()
    await bus.send(plain, "hello", message_id="id-1", application_properties={"kind": "work"}, subject="s")
    async with listening(listener(broker, plain, recorder)):
        await until(lambda: bool(recorder.calls))
        await until(lambda: bus.is_empty(plain))
    (message,) = recorder.messages("serviceBusTrigger")
    assert (message.get_body(), message.message_id, message.subject) == (b"hello", "id-1", "s")
    assert message.application_properties == {"kind": "work"}
    assert message.delivery_count == 1


async def test_a_subscription_is_served_as_a_queue_is(listening, broker, bus, topic):
    """The trigger names a topic and a subscription."""
    recorder = Recorder()
    function = bus_function(topicName=topic, subscriptionName="all")
    async with listening(BusListener(function, options(), broker.connection_string, recorder)):
        await bus.send(topic, "hello")
        await until(lambda: recorder.bodies == ["hello"])


async def test_a_failing_message_is_abandoned_until_it_is_dead(listening, broker, bus, plain):
    """It comes again at once, with its count, and the broker buries it after the last delivery."""
    recorder = Recorder(fail)
    await bus.send(plain, "bad")

    async with listening(listener(broker, plain, recorder)):
        await until(lambda: bus.has_dead(plain))
    assert [message.delivery_count for message in recorder.messages("serviceBusTrigger")] == [1, 2, 3]
    assert len(recorder.calls) == DELIVERIES
    (buried,) = await bus.dead(plain)
    assert buried.dead_letter_reason == "MaxDeliveryCountExceeded"


async def test_no_more_messages_run_at_once_than_allowed(listening, broker, bus, plain):
    """MaxConcurrentCalls holds, and is reached."""
    held = Held()
    recorder = Recorder(held)
    await bus.send(plain, *(str(n) for n in range(10)))
    async with listening(listener(broker, plain, recorder, max_concurrent_calls=3)):
        await until(lambda: recorder.running == 3)
        await asyncio.sleep(0.3)
        held.released.set()
        await until(lambda: len(recorder.calls) == 10)
        await until(lambda: bus.is_empty(plain))
    assert recorder.most_running == 3


async def test_without_auto_complete_a_message_stays(listening, brisk_broker, brisk_bus, entities):
    """A success settles nothing: the message comes back when its lock ends, and the trigger wins over host.json."""
    by_trigger, by_host, neither = (f"plain-{next(entities)}" for _ in range(3))
    recorders = {queue: Recorder() for queue in (by_trigger, by_host, neither)}
    for queue in recorders:
        await brisk_bus.send(queue, "hello")
    off, on = {"autoCompleteMessages": False}, {"autoCompleteMessages": True}
    async with listening(
        listener(brisk_broker, by_trigger, recorders[by_trigger], off),
        listener(brisk_broker, by_host, recorders[by_host], auto_complete_messages=False),
        listener(brisk_broker, neither, recorders[neither], on, auto_complete_messages=False),
    ):
        await until(lambda: len(recorders[by_trigger].calls) == len(recorders[by_host].calls) == 2)
    for queue in (by_trigger, by_host):
        assert [message.delivery_count for message in recorders[queue].messages("serviceBusTrigger")] == [1, 2]
    assert len(recorders[neither].calls) == 1


async def test_a_failure_is_abandoned_also_without_auto_complete(listening, broker, bus, plain):
    """The next delivery does not wait for the lock to end."""
    recorder = Recorder(fail)
    await bus.send(plain, "bad")

    async with listening(listener(broker, plain, recorder, {"autoCompleteMessages": False})):
        await until(lambda: bus.has_dead(plain))
    assert len(recorder.calls) == DELIVERIES


async def test_a_lock_is_renewed_while_its_message_runs(listening, brisk_broker, brisk_bus, plain):
    """A run longer than the lock is not doubled, and can complete its message."""
    held = Held()
    recorder = Recorder(held)
    await brisk_bus.send(plain, "long")
    async with listening(listener(brisk_broker, plain, recorder)):
        await until(lambda: recorder.running == 1)
        await asyncio.sleep(LOCK_SECONDS + 0.6)
        held.released.set()
        await until(lambda: brisk_bus.is_empty(plain))
    assert len(recorder.calls) == 1


async def test_a_lock_is_renewed_no_longer_than_host_json_says(listening, brisk_broker, brisk_bus, plain):
    """Without renewal a run that outlasts its lock sees its message delivered again."""
    held = Held()
    recorder = Recorder(held)
    await brisk_bus.send(plain, "long")
    async with listening(listener(brisk_broker, plain, recorder, max_auto_lock_renewal_duration=timedelta(0))):
        await until(lambda: len(recorder.calls) == 2)
        held.released.set()


async def test_a_stop_waits_for_the_messages_that_run(broker, bus, plain):
    """What runs is completed, what waits is left."""
    held = Held()
    recorder = Recorder(held)
    await bus.send(plain, "a", "b")
    running = listener(broker, plain, recorder, max_concurrent_calls=1)
    task = asyncio.create_task(running.run())
    await until(lambda: recorder.running == 1)
    running.stop()
    await asyncio.sleep(0.3)
    assert not task.done()
    held.released.set()
    async with asyncio.timeout(600):
        await task
    assert await bus.waiting(plain) == ["b"]


async def test_prefetched_messages_are_all_run(listening, broker, bus, plain):
    """Messages that the receiver holds ahead are neither lost nor doubled."""
    recorder = Recorder()
    await bus.send(plain, *(str(n) for n in range(40)))
    async with listening(listener(broker, plain, recorder, prefetch_count=10)):
        await until(lambda: bus.is_empty(plain))
    assert sorted(recorder.bodies, key=int) == [str(n) for n in range(40)]


async def test_a_batch_is_one_call_and_calls_do_not_overlap(listening, broker, bus, plain):
    """With cardinality many the messages come in arrays, one invocation at a time, and are all completed."""
    recorder = Recorder()
    await bus.send(plain, *(str(n) for n in range(25)))
    settings = {"cardinality": "MANY"}
    async with listening(listener(broker, plain, recorder, settings, max_message_batch_size=10)):
        await until(lambda: bus.is_empty(plain))
    batches = recorder.messages("serviceBusTrigger")
    assert all(len(batch) <= 10 for batch in batches)
    assert len(batches) < 25
    assert [message.get_body().decode() for batch in batches for message in batch] == [str(n) for n in range(25)]
    assert recorder.most_running == 1


async def test_a_failed_batch_is_abandoned_as_a_whole(listening, broker, bus, plain):
    """Every message of it comes again."""

    async def fail_once(_trigger, _metadata):
        return len(recorder.calls) > 1

    recorder = Recorder(fail_once)
    await bus.send(plain, "a", "b", "c")
    async with listening(listener(broker, plain, recorder, {"cardinality": "MANY"})):
        await until(lambda: len(recorder.calls) > 1)
        await until(lambda: bus.is_empty(plain))
    first, *later = recorder.messages("serviceBusTrigger")
    again = {message.get_body(): message.delivery_count for batch in later for message in batch}
    assert {message.get_body() for message in first} <= {body for body, count in again.items() if count == 2}


async def test_a_batch_waits_to_be_filled(listening, broker, bus, plain):
    """With a smallest size the call waits for more messages, but not for ever."""
    recorder = Recorder()
    running = listener(
        broker,
        plain,
        recorder,
        {"cardinality": "MANY"},
        min_message_batch_size=3,
        max_batch_wait_time=timedelta(seconds=2.5),
    )
    async with listening(running):
        # A first batch shows that the link is open. The SDK's own receive waits up to 0.4 s for a further message.
        await bus.send(plain, "1", "2", "3")
        await until(lambda: len(recorder.calls) == 1)
        for body in ("a", "b", "c"):
            await bus.send(plain, body)
            await asyncio.sleep(0.6)
        await until(lambda: len(recorder.calls) == 2)
        await bus.send(plain, "d")
        await until(lambda: len(recorder.calls) == 3)
    assert [len(batch) for batch in recorder.messages("serviceBusTrigger")] == [3, 3, 1]


async def test_sessions_keep_their_order_across_two_instances(listening, broker, bus, ordered):
    """Interleaved sessions, two listeners: each session's messages run in order and never beside each other."""
    recorder = Recorder(succeed)
    for n in range(8):
        for session in ("a", "b", "c", "d"):
            await bus.send(ordered, f"{session}{n}", session_id=session)
    pair = [
        listener(broker, ordered, recorder, {"isSessionsEnabled": True}, max_concurrent_sessions=2) for _ in range(2)
    ]
    async with listening(*pair):
        await until(lambda: len(recorder.calls) == 32)
    for session in ("a", "b", "c", "d"):
        assert [body for body in recorder.bodies if body[0] == session] == [f"{session}{n}" for n in range(8)]


async def test_an_abandoned_message_comes_before_the_later_ones(listening, broker, bus, ordered):
    """A failure does not let the rest of the session overtake."""

    async def fail_first_run(trigger, _metadata):
        return recorder.bodies.count(trigger.value) > 1

    recorder = Recorder(fail_first_run)
    await bus.send(ordered, "1", "2", "3", session_id="s")
    async with listening(listener(broker, ordered, recorder, {"isSessionsEnabled": True})):
        await until(lambda: len(recorder.calls) == 6)
    assert recorder.bodies == ["1", "1", "2", "2", "3", "3"]


async def test_an_idle_session_makes_room_for_the_next(listening, broker, bus, ordered):
    """With one slot, the second session is served once the first has been idle, and the first can come again."""
    recorder = Recorder()
    await bus.send(ordered, "first", session_id="a")
    await bus.send(ordered, "second", session_id="b")
    running = listener(broker, ordered, recorder, {"isSessionsEnabled": True}, max_concurrent_sessions=1)
    async with listening(running):
        await until(lambda: recorder.bodies == ["first", "second"])
        await bus.send(ordered, "third", session_id="a")
        await until(lambda: recorder.bodies == ["first", "second", "third"])


async def test_a_session_lock_is_renewed_while_its_messages_run(listening, brisk_broker, brisk_bus, ordered):
    """Another listener does not get the session, and the message is completed."""
    held = Held()
    recorder = Recorder(held)
    await brisk_bus.send(ordered, "long", session_id="s")
    pair = [listener(brisk_broker, ordered, recorder, {"isSessionsEnabled": True}) for _ in range(2)]
    async with listening(*pair):
        await until(lambda: recorder.running == 1)
        await asyncio.sleep(LOCK_SECONDS + 0.6)
        held.released.set()
    assert len(recorder.calls) == 1
    assert await brisk_bus.is_empty(ordered, session_id="s")


async def test_a_batch_of_sessions_never_mixes_them(listening, broker, bus, ordered):
    """With cardinality many every call has messages of one session, in order."""
    recorder = Recorder()
    for n in range(5):
        for session in ("a", "b"):
            await bus.send(ordered, f"{session}{n}", session_id=session)
    settings = {"isSessionsEnabled": True, "cardinality": "MANY"}
    async with listening(listener(broker, ordered, recorder, settings)):
        await until(lambda: sum(len(batch) for batch in recorder.messages("serviceBusTrigger")) == 10)
    batches = [[message.get_body().decode() for message in b] for b in recorder.messages("serviceBusTrigger")]
    assert all(len({body[0] for body in batch}) == 1 for batch in batches)
    for session in ("a", "b"):
        run = [body for batch in batches for body in batch if body[0] == session]
        assert run == [f"{session}{n}" for n in range(5)]


async def test_a_stop_lets_go_of_waiting_for_sessions(listening, broker, ordered):
    """A listener with nothing to do ends long before its wait for a session would."""
    async with listening(listener(broker, ordered, Recorder(), {"isSessionsEnabled": True}, max_concurrent_sessions=2)):
        await asyncio.sleep(0.5)


async def test_a_restarted_broker_is_served_again(listening):
    """The listeners outlive the loss of every connection, also of those that wait for a session."""
    recorder = Recorder()
    with Broker.start(bus()) as broker:
        sessions = {"isSessionsEnabled": True}
        pair = [listener(broker, "plain-0", recorder), listener(broker, "ordered-0", recorder, sessions)]
        async with listening(*pair):
            for time in ("before", "after"):
                probe = BusProbe(broker.connection_string)
                await probe.send("plain-0", f"{time} alone")
                await probe.send("ordered-0", f"{time} in session", session_id="s")
                await probe.close()
                await until(lambda time=time: {f"{time} alone", f"{time} in session"} <= set(recorder.bodies), 40)
                if time == "before":
                    await asyncio.to_thread(broker.restart)
