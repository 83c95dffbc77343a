"""The rules of a subscription, changed by request. Azure's Python SDK has no rule manager, so the requests are plain."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._common.mgmt_handlers import default
from azure.servicebus.exceptions import MessagingEntityAlreadyExistsError, MessagingEntityNotFoundError, ServiceBusError
from broker_tests.clients import both_clients, left_in


def _value(_status, message, _description, **_options):
    return message.value


async def _asked(receiver, operation, body, handler=default):
    return await receiver._mgmt_request_response_with_retry(f"com.microsoft:{operation}".encode(), body, handler)


async def _add(receiver, name, **description):
    await _asked(receiver, "add-rule", {"rule-name": name, "rule-description": description})


def _plain(value):
    """Return a decoded value with its texts as text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    return value


@both_clients
async def test_a_rule_replaces_another_while_messages_come(bus, fresh):
    """A message is copied by the rules of its time."""
    topic = fresh("topic")
    sender, receiver = await asyncio.gather(bus.sender(topic), bus.receiver(f"{topic}/everything"))
    await sender.send_messages(ServiceBusMessage("before"))
    await _asked(receiver, "remove-rule", {"rule-name": "$Default"})
    await sender.send_messages(ServiceBusMessage("between"))
    described = {"label": "urgent", "correlation-id": None, "properties": {"kind": "red", "n": 7}}
    await _add(receiver, "red", **{"correlation-filter": described})
    fits = {"kind": "red", "n": 7}
    await sender.send_messages(
        [
            ServiceBusMessage("fits", subject="urgent", application_properties=fits),
            ServiceBusMessage("no subject", application_properties=fits),
            ServiceBusMessage("another number", subject="urgent", application_properties=fits | {"n": 8}),
        ]
    )
    assert await left_in(receiver) == ["before", "fits"]


@both_clients
async def test_rules_are_listed_as_clients_read_them(bus, fresh):
    """In pages, each with its filter, no action and its name."""
    receiver = await bus.receiver(f"{fresh('topic')}/heavy")
    await _add(receiver, "mine", **{"correlation-filter": {"session-id": "s", "properties": {"yes": True}}})
    first = _plain(await _asked(receiver, "enumerate-rules", {"skip": 0, "top": 1}, _value))
    second = _plain(await _asked(receiver, "enumerate-rules", {"skip": 1, "top": 1}, _value))
    assert await _asked(receiver, "enumerate-rules", {"skip": 2, "top": 1}, _value) == {b"rules": []}
    (sql, _, first_name), (correlation, _, name) = (page["rules"][0]["rule-description"] for page in (first, second))
    assert sql[0] == "weight > 10 AND kind IN ('red', 'blue')"
    assert correlation == [None, None, None, None, None, "s", None, None, {"yes": True}]
    assert (first_name, name) == ("$Default", "mine")


@both_clients
async def test_what_cannot_be_added_or_removed_changes_nothing(bus, fresh):
    """A taken name, an unknown name, a filter that the broker does not know, an action, no filter at all."""
    receiver = await bus.receiver(f"{fresh('topic')}/everything")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        await _add(receiver, "$Default", **{"sql-filter": {"expression": "1=1"}})
    with pytest.raises(MessagingEntityNotFoundError):
        await _asked(receiver, "remove-rule", {"rule-name": "nobody"})
    with pytest.raises(ServiceBusError, match=r"does not do this filter.*LIKE"):
        await _add(receiver, "like", **{"sql-filter": {"expression": "kind LIKE 'r%'"}})
    with pytest.raises(ServiceBusError, match="does not do rule actions"):
        await _add(
            receiver, "acts", **{"sql-filter": {"expression": "1=1"}, "sql-rule-action": {"expression": "SET a=1"}}
        )
    with pytest.raises(ServiceBusError, match="neither a sql-filter nor a correlation-filter"):
        await _add(receiver, "empty")
    listed = await _asked(receiver, "enumerate-rules", {"skip": 0, "top": 10}, _value)
    assert len(listed[b"rules"]) == 1
