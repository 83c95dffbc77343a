"""Sending results over the bus, and the dead letters of their queue, on a broker of the tests' own."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusClient

from functions import park_dead
from local.servicebus.launcher import Broker
from shared.connections import Connections
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.pipeline.messages import Outcome, Result, decode
from shared.pipeline.send_result import BusResults


@pytest.fixture(scope="module")
def bus():
    """A broker whose queue `results` nobody else reads."""
    running = Broker.start()
    yield running
    running.stop()


@pytest.fixture
def send(bus):
    """Send results to it."""
    with (
        Connections("UseDevelopmentStorage=true", bus.connection_string) as connections,
        BusResults(connections) as send,
    ):
        yield send


def received(bus, count, queue="results"):
    """Take messages and return their bodies."""
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_receiver(queue, max_wait_time=10) as receiver:
        messages = []
        while len(messages) < count and (page := receiver.receive_messages(count - len(messages))):
            messages += page
            for message in page:
                receiver.complete_message(message)
        return [b"".join(message.body) for message in messages]


def result(chunk=0, **changes):
    """Return a result."""
    return Result(job="a-job", chunk=chunk, revision=1, accepted=Outcome(items=3, sums={"amount": "1.10"}), **changes)


def test_a_result_arrives_as_it_was_sent(bus, send):
    """What the settler decodes is what the processor said."""
    send(result())
    assert [decode(body) for body in received(bus, 1)] == [result()]


def test_several_threads_share_one_connection(bus, send):
    """The host runs chunks side by side, and the library's senders bear no sharing: each result arrives once."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda chunk: send(result(chunk)), range(40)))
    assert sorted(decode(body).chunk for body in received(bus, 40)) == list(range(40))


def test_a_broken_connection_is_replaced(bus, send):
    """The bus closes what is idle for ten minutes; the next result notices and goes through."""
    send(result(1))
    send._open[1].close()
    send(result(2))
    assert [decode(body).chunk for body in received(bus, 2)] == [1, 2]


def test_a_bus_that_is_down_is_no_reason_to_park():
    """The error says that the result is sent again, by the next delivery."""
    stopped = Broker.start()
    stopped.stop()
    connections = Connections("UseDevelopmentStorage=true", stopped.connection_string)
    with connections, BusResults(connections) as send, pytest.raises(ResultNotSentError, match="sent again"):
        send(result())


def test_a_result_that_is_too_large_is_refused_before_it_is_sent(send):
    """A settler that holds a thousand of them must know how large they are."""
    with pytest.raises(ResultRefusedError, match="1024 may be"):
        send(result(requests={"useful" * 50: 1, "x" * 700: 2}))


def test_a_dead_letter_is_delivered_to_its_function(bus, send):
    """The path that the trigger names is one that the bus knows, with the reason beside the message."""
    send(result(9))
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        with client.get_queue_receiver("results", max_wait_time=10) as receiver:
            (message,) = receiver.receive_messages(1)
            receiver.dead_letter_message(message, reason="TestReason", error_description="for a test")
        blueprint = park_dead.blueprint(works=None)
        (function,) = blueprint._function_builders
        queue = function._function.get_trigger().queue_name
        with client.get_queue_receiver(queue, max_wait_time=10) as receiver:
            (letter,) = receiver.receive_messages(1)
            receiver.complete_message(letter)
    assert decode(b"".join(letter.body)).chunk == 9
    assert letter.application_properties[b"DeadLetterReason"] in {b"TestReason", "TestReason"}
