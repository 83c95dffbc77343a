"""Where the listeners differ from the real host's, as docs/appendix/stand-ins.md lists it, and no other test holds it."""

import asyncio
import logging
from datetime import timedelta

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.functions.meta import Datum
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusSender
from functions_local_host.bus_run import RECEIVE_SLICE, BusRun
from functions_local_host.bus_source import BusTrigger
from functions_local_host.contract import Binding, IndexedFunction
from functions_local_host.message_datums import bus_datums, queue_datums
from functions_local_host.meter import Meter
from functions_local_host.output_values import messages_of
from functions_local_host.outputs import Outputs
from host_tests.listeners.bus_topology import LOCK_SECONDS
from host_tests.listeners.recording import Held, Recorder, bus_function, listening, succeed, until
from host_tests.listeners.test_bus_listener import listener as bus_listener, options as bus_options
from host_tests.listeners.test_message_datums import queue_message, received
from host_tests.listeners.test_queue_listener import listener as queue_listener

# One loop, so that the probe's links last.
on_one_loop = pytest.mark.asyncio(loop_scope="module")
SESSIONS = {"isSessionsEnabled": True}


async def test_a_poll_goes_on_where_storage_gives_no_reply(queue, storage, monkeypatch, caplog):
    """The real host stops."""
    recorder = Recorder()
    await queue.send_message("hello")
    running = queue_listener(queue, storage, recorder)
    receive = running._queue.receive_messages

    def no_reply(**_):
        monkeypatch.setattr(running._queue, "receive_messages", receive)
        raise ServiceRequestError("no reply")

    monkeypatch.setattr(running._queue, "receive_messages", no_reply)
    async with listening(running):
        await until(lambda: recorder.bodies == ["hello"])
    assert "cannot be polled now: ServiceRequestError" in caplog.text


async def test_a_lost_message_is_not_renewed_again(queue, storage, meter, caplog):
    """The real host goes on asking."""
    caplog.set_level(logging.DEBUG, "functions_local_host.message_lease")
    held = Held()
    recorder = Recorder(held)
    await queue.send_message("lost")
    async with asyncio.timeout(600):
        running = queue_listener(queue, storage, recorder, lease=timedelta(seconds=2))
        polling = asyncio.create_task(running.run())
        await until(lambda: recorder.running == 1)
        await queue.clear_messages()
        await until(lambda: "is lost (status 404)" in caplog.text)
        asked = meter.requests[f"poll {queue.queue_name}", "queue", "PUT"]
        await asyncio.sleep(1.5)
        assert meter.requests[f"poll {queue.queue_name}", "queue", "PUT"] == asked
        held.released.set()
        running.stop()
        await polling


@on_one_loop
async def test_a_failing_settlement_is_logged_and_the_listener_goes_on(brisk_broker, brisk_bus, plain, caplog):
    """The real host stops. The lock has ended when the run does."""
    late = Held()
    recorder = Recorder(late)
    await brisk_bus.send(plain, "late")
    running = bus_listener(brisk_broker, plain, recorder, max_auto_lock_renewal_duration=timedelta(0))
    task = asyncio.create_task(running.run())
    await until(lambda: recorder.running == 1)
    await asyncio.sleep(LOCK_SECONDS + 0.8)
    late.released.set()
    await until(lambda: "was not completed" in caplog.text)
    await until(lambda: len(recorder.calls) >= 2)
    await until(lambda: brisk_bus.is_empty(plain))
    assert not task.done()
    running.stop()
    await task


def _run(settings=None, **changes) -> BusRun:
    function = bus_function(queueName="q", dataType="STRING", **(settings or {}))
    return BusRun(function, BusTrigger.of(function.trigger, completes=True), bus_options(**changes), Recorder())


class _Asked:
    """A receiver that notes what it is asked, and has what it was given."""

    def __init__(self, *messages):
        self.waiting, self.asked = list(messages), []

    async def receive_messages(self, max_message_count, max_wait_time):
        self.asked.append((max_message_count, max_wait_time))
        await asyncio.sleep(0)
        taken, self.waiting = self.waiting[:max_message_count], self.waiting[max_message_count:]
        return taken


async def test_a_receive_lasts_a_second_at_most():
    """The real host's lasts a minute, and a stop cuts it off."""
    receiver = _Asked("x")
    assert await _run().receive(receiver, 1, timedelta(minutes=1)) == ["x"]
    assert receiver.asked == [(1, RECEIVE_SLICE.total_seconds())] == [(1, 1.0)]


@on_one_loop
async def test_messages_are_received_one_after_another(broker, bus, plain):
    """The real host asks several times at once. As many as allowed run all the same."""
    held = Held()
    recorder = Recorder(held)
    await bus.send(plain, *"abcdef")
    running = bus_listener(broker, plain, recorder, max_concurrent_calls=3)
    task = asyncio.create_task(running.run())
    await until(lambda: recorder.running == 3)
    assert recorder.bodies == ["a", "b", "c"]
    held.released.set()
    await until(lambda: len(recorder.calls) == 6)
    running.stop()
    await task


@on_one_loop
async def test_a_session_runs_one_message_whatever_host_json_says(broker, bus, ordered):
    """The real host runs as many beside each other as maxConcurrentCallsPerSession says."""
    recorder = Recorder(succeed)
    await bus.send(ordered, "1", "2", "3", session_id="s")
    running = bus_listener(broker, ordered, recorder, SESSIONS, max_concurrent_calls_per_session=3)
    task = asyncio.create_task(running.run())
    await until(lambda: len(recorder.calls) == 3)
    assert recorder.most_running == 1
    running.stop()
    await task


@on_one_loop
async def test_a_message_held_ahead_comes_before_an_abandoned_one(broker, bus, ordered):
    """As with the real host, where `prefetchCount` is set."""

    async def fail_the_first(trigger, _metadata):
        return trigger.value != "1" or recorder.bodies.count("1") > 1

    recorder = Recorder(fail_the_first)
    await bus.send(ordered, "1", "2", "3", session_id="s")
    running = bus_listener(broker, ordered, recorder, SESSIONS, prefetch_count=10)
    task = asyncio.create_task(running.run())
    await until(lambda: recorder.bodies.count("1") == 2)
    assert recorder.bodies[:3] == ["1", "2", "3"]
    running.stop()
    await task


@on_one_loop
async def test_a_bus_output_sends_its_messages_one_by_one(broker, plain, monkeypatch):
    """The real host's client makes a batch of them."""
    sent = []
    send = ServiceBusSender.send_messages

    async def noted(sender, message, **options):
        sent.append(isinstance(message, ServiceBusMessage))
        await send(sender, message, **options)

    monkeypatch.setattr(ServiceBusSender, "send_messages", noted)
    outputs = Outputs(lambda _: broker.connection_string, Meter(), "none")
    binding = Binding("serviceBus", "out", {"queueName": plain, "connection": "Bus"})
    function = IndexedFunction("copy", Binding("queueTrigger", "msg", {"queueName": "in"}), (binding,))
    await outputs(function, {"out": Datum('["a", "b"]', "string")})
    await outputs.close()
    assert sent == [True, True]


def test_clients_are_no_metadata():
    """The real host sends JSON that nobody can use."""
    _, of_bus = bus_datums(received("x"), Binding("serviceBusTrigger", "msg"))
    _, of_queue = queue_datums(queue_message(), b"x", Binding("queueTrigger", "msg"))
    left_out = {"MessageReceiver", "MessageActions", "SessionActions", "Client", "ReceiveActions", "sys"}
    assert not left_out & (set(of_bus) | set(of_queue))


def test_large_numbers_are_written_as_python_does():
    """The real host writes `1E+16`."""
    assert messages_of(Datum('{"n": 1e16}', "string")) == ['{\n  "n": 1e+16\n}']


def test_a_time_has_six_digits_of_its_second():
    """The real host keeps a seventh."""
    written = messages_of(Datum('{"at": "2026-01-02T03:04:05.1234567Z"}', "string"))
    assert written == ['{\n  "at": "2026-01-02T03:04:05.123456Z"\n}']
