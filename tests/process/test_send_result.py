"""Sending results over the bus, and the dead letters of their queue, on a broker of the tests' own."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from azure.servicebus import ServiceBusClient

from functions import park_dead
from shared.azure.connections import Connections
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.messages import PortionMessage, Result, decode
from shared.pipeline.results import BusResults, trim_result
from tests.forked import ForkedBroker
from tests.waiting import LIMIT


@pytest.fixture(scope="module")
def bus():
    """A broker whose queue `results` nobody else reads."""
    running = ForkedBroker.start()
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
    """Take messages until so many results are there, and return them."""
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_receiver(queue, max_wait_time=LIMIT) as receiver:
        found = []
        while len(found) < count and (page := receiver.receive_messages(count)):
            for message in page:
                found += results_in(b"".join(message.body))
                receiver.complete_message(message)
        return found


def results_of(messages):
    """Return the results in each message that is about to be sent."""
    return [results_in(message.body) for message in messages]


def results_in(body):
    """Return the results in a message."""
    message = decode(body)
    return [message] if isinstance(message, Result) else message.results


def result(chunk=0, **changes):
    """Return a result."""
    return Result(
        job="a-job", chunk=chunk, revision=1, accepted=PortionMessage(items=3, sums={"amount": "1.10"}), **changes
    )


def test_a_result_arrives_as_it_was_sent(bus, send):
    """What the settler decodes is what the processor said."""
    send(result())
    assert received(bus, 1) == [result()]


def test_several_threads_share_one_connection(bus, send):
    """The host runs chunks side by side, and the library's senders bear no sharing: each result arrives once."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda chunk: send(result(chunk)), range(40)))
    assert sorted(found.chunk for found in received(bus, 40)) == list(range(40))


def waiting_together(send, count):
    """Return the tasks of threads that all came to send while another one did."""
    with ThreadPoolExecutor(count) as pool, send._lock:
        tasks = [pool.submit(send, result(chunk)) for chunk in range(count)]
        while len(send._waiting) < count:
            assert not any(task.done() for task in tasks)
            time.sleep(0.001)
    return tasks


def test_what_waits_together_goes_together(bus, send, monkeypatch):
    """Five threads that waited for a sixth are served by one transfer of one message, and each result arrives."""
    send(result(99))
    transfers, original = [], send._sender.send
    monkeypatch.setattr(
        send._sender, "send", lambda to, messages: transfers.append(results_of(messages)) or original(to, messages)
    )
    for task in waiting_together(send, 5):
        task.result()
    assert [[len(results) for results in messages] for messages in transfers] == [[5]]
    assert sorted(found.chunk for found in received(bus, 6)) == [0, 1, 2, 3, 4, 99]


def test_what_failed_together_is_known_to_each():
    """No thread believes that its result has arrived because another one tried to send it."""
    stopped = ForkedBroker.start()
    stopped.stop()
    connections = Connections("UseDevelopmentStorage=true", stopped.connection_string)
    with connections, BusResults(connections) as send:
        failures = [str(task.exception()) for task in waiting_together(send, 3)]
    assert [f"chunk {chunk} of" in failure for chunk, failure in enumerate(failures)] == [True] * 3


def test_a_sender_that_ends_in_an_unexpected_way_leaves_nobody_waiting(send, monkeypatch):
    """Whatever is raised in the thread that sends for others, each of them is told, and none waits for ever."""
    together = Barrier(4)

    def broken(_to, _messages):
        """Fail as no sender should, once more have queued up behind this thread."""
        time.sleep(0.2)
        raise RuntimeError("a mistake of the library's")

    monkeypatch.setattr(send._sender, "send", broken)

    def attempt(number):
        together.wait()
        with pytest.raises((ResultNotSentError, RuntimeError)):
            send(result(number))
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(attempt, range(4), timeout=LIMIT)) == [True] * 4


def test_a_bus_that_is_down_is_no_reason_to_park():
    """The error says that the result is sent again, by the next delivery."""
    stopped = ForkedBroker.start()
    stopped.stop()
    connections = Connections("UseDevelopmentStorage=true", stopped.connection_string)
    with connections, BusResults(connections) as send, pytest.raises(ResultNotSentError, match="sends it again"):
        send(result())


def test_a_result_that_is_too_large_is_refused_before_it_is_sent(send):
    """A settler that holds a thousand of them must know how large they are."""
    with pytest.raises(ResultRefusedError, match="the limit is 1536"):
        send(result(blob="x" * 1536))


def test_what_a_chunk_took_is_left_out_before_its_result_is_refused():
    """The bill is short of a few requests then, and no work is lost."""
    large = result(blob="x" * 1200, requests={f"blob-read {n}": 1 for n in range(20)})
    assert trim_result(large).requests == {}
    assert trim_result(result(requests={"blob-read useful": 1})).requests == {"blob-read useful": 1}


def test_a_dead_letter_is_delivered_to_its_function(bus, send):
    """The path that the trigger names is one that the bus knows, with the reason beside the message."""
    send(result(9))
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        with client.get_queue_receiver("results", max_wait_time=LIMIT) as receiver:
            (message,) = receiver.receive_messages(1)
            receiver.dead_letter_message(message, reason="TestReason", error_description="for a test")
        blueprint = park_dead.blueprint(app=None)
        (function,) = blueprint._function_builders
        queue = function._function.get_trigger().queue_name
        with client.get_queue_receiver(queue, max_wait_time=LIMIT) as receiver:
            (letter,) = receiver.receive_messages(1)
            receiver.complete_message(letter)
    assert decode(b"".join(letter.body)).chunk == 9
    assert letter.application_properties[b"DeadLetterReason"] in {b"TestReason", "TestReason"}
