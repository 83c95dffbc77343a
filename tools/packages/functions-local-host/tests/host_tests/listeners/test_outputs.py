import asyncio
import base64
import uuid

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.functions.meta import Datum
from azure.servicebus.aio import ServiceBusClient
from functions_local_host.contract import Binding, ConnectionMissingError, IndexedFunction
from functions_local_host.output_values import OutputError, messages_of
from functions_local_host.outputs import Outputs
from functions_local_host.queue_watcher import WATCHER
from host_tests.listeners.bus_probe import BusProbe


def text(value: str) -> Datum:
    """Return a value as a function that set text gives it."""
    return Datum(value, "string")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (text("hello"), ["hello"]),
        (Datum(b"\x00\xff", "bytes"), [b"\x00\xff"]),
        (Datum(b"[1,2]", "bytes"), [b"[1,2]"]),
        (text('{"b":1,"a":[]}'), ['{\n  "b": 1,\n  "a": []\n}']),
        (text('["x", {"a": 1}, 2, true, null, [1]]'), ["x", '{\n  "a": 1\n}', "2", "True", "", "[\n  1\n]"]),
        (text('{"at":"2026-01-02T03:04:05.500Z"}'), ['{\n  "at": "2026-01-02T03:04:05.5Z"\n}']),
        (text('{"at":"2026-01-02T03:04:05+02:00"}'), ['{\n  "at": "2026-01-02T01:04:05+00:00"\n}']),
        (text('{"s":"grüße \u2028"}'), ['{\n  "s": "grüße \\u2028"\n}']),
        (text("[]"), []),
        (Datum('{"id": null, "body": "x"}', "json"), ['{\n  "id": null,\n  "body": "x"\n}']),
    ],
)
def test_text_that_looks_like_json_is_read_and_written_anew(value, expected):
    """An array becomes several messages and an object gets indentation; bytes and other text pass."""
    assert messages_of(value) == expected


def test_text_that_only_looks_like_json_fails_the_output():
    """The real host parses what begins and ends like JSON."""
    with pytest.raises(OutputError, match="cannot be read"):
        messages_of(text("{hello}"))


def function(kind: str, **settings) -> IndexedFunction:
    """Return a function with one output binding."""
    trigger = Binding("queueTrigger", "msg", {"queueName": "in"})
    return IndexedFunction("copy", trigger, (Binding(kind, "out", settings),))


@pytest.fixture
def connections(azurite, broker):
    """Connection strings by the setting that holds them."""
    return {"": azurite.connection_string, "Other": azurite.connection_string, "Bus": broker.connection_string}


@pytest.fixture
async def outputs(connections, meter):
    """The output bindings of one host instance."""

    def connect(setting):
        if setting not in connections:
            raise ConnectionMissingError(f"no setting {setting!r}")
        return connections[setting]

    outputs = Outputs(connect, meter, "base64")
    yield outputs
    await outputs.close()


@pytest.fixture
def target():
    """The name of a queue that does not exist yet."""
    return f"out-{uuid.uuid4().hex[:12]}"


async def texts(storage, name: str) -> list[str]:
    """Return the decoded bodies in a queue."""
    messages = await storage.queue(name, "test").peek_messages(max_messages=32)
    return [base64.b64decode(message.content).decode() for message in messages]


async def test_a_value_reaches_a_queue_that_did_not_exist(outputs, storage, target):
    """The queue is made by the first message, which is encoded as host.json says."""
    await outputs(function("queue", queueName=target), {"out": text("hello")})
    assert await texts(storage, target) == ["hello"]


async def test_a_list_reaches_the_queue_as_several_messages(outputs, storage, target):
    """In their order."""
    await outputs(function("queue", queueName=target, connection="Other"), {"out": Datum('["a","b"]', "json")})
    assert await texts(storage, target) == ["a", "b"]


async def test_an_existing_queue_costs_one_request_a_message(outputs, storage, target, meter):
    """No existence check goes before a send."""
    await storage.queue(target, "test").create_queue()
    await outputs(function("queue", queueName=target), {"out": text("hello")})
    assert meter.requests[f"output {target}", "queue", "POST"] == 1
    assert meter.requests[f"output {target}", "queue", "PUT"] == 0


async def test_a_value_that_was_not_set_writes_nothing(outputs, storage, target):
    """A binding without a value is skipped."""
    await outputs(function("queue", queueName=target), {})
    await outputs(function("queue", queueName=target), {"out": Datum(None, None)})
    with pytest.raises(ResourceNotFoundError):
        await texts(storage, target)


async def test_an_output_wakes_the_listener_of_its_queue(outputs, target):
    """A trigger of the same host need not wait for its next poll."""
    woken = asyncio.Event()
    with WATCHER.watching(target, woken.set):
        await outputs(function("queue", queueName=target), {"out": text("hello")})
    assert woken.is_set()
    woken.clear()
    await outputs(function("queue", queueName=target), {"out": text("again")})
    assert not woken.is_set()


async def test_a_connection_that_is_not_set_fails_by_name(outputs, target):
    """The error names the function, the output and the setting."""
    with pytest.raises(OutputError, match=r"'out' of function 'copy'.*'Missing'"):
        await outputs(function("queue", queueName=target, connection="Missing"), {"out": text("x")})


async def test_bytes_that_are_no_text_need_an_encoding(connections, meter, target):
    """Without base64 a queue message is text."""
    plain = Outputs(connections.__getitem__, meter, "none")
    with pytest.raises(OutputError, match="was not written"):
        await plain(function("queue", queueName=target), {"out": Datum(b"\xff", "bytes")})
    await plain.close()


async def test_values_written_at_once_all_reach_the_bus(outputs, broker, plain):
    """Functions that end together share one sender, and none of them fails for it."""
    write = function("serviceBus", queueName=plain, connection="Bus")
    await asyncio.gather(*(outputs(write, {"out": text(str(n))}) for n in range(10)))
    probe = BusProbe(broker.connection_string)
    assert sorted(await probe.waiting(plain), key=int) == [str(n) for n in range(10)]
    await probe.close()


async def test_text_and_bytes_reach_a_topic_with_their_kind(outputs, broker, topic):
    """The content type says which it was, and a JSON array is several messages."""
    write = function("serviceBus", topicName=topic, connection="Bus")
    await outputs(write, {"out": text('["a", "b"]')})
    await outputs(write, {"out": Datum(b"\xff", "bytes")})
    async with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_subscription_receiver(topic, "all") as receiver,
    ):
        messages = await receiver.peek_messages(max_message_count=10)
    assert [(b"".join(m.body), m.content_type) for m in messages] == [
        (b"a", "text/plain"),
        (b"b", "text/plain"),
        (b"\xff", "application/octet-stream"),
    ]


async def test_a_bus_entity_that_does_not_exist_fails_the_output(outputs):
    """The bus is not made by a function."""
    with pytest.raises(OutputError, match="'out' of function 'copy' was not written"):
        await outputs(function("serviceBus", queueName="missing", connection="Bus"), {"out": text("x")})
