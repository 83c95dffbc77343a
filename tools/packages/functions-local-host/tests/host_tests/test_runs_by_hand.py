"""What a function receives when it is started by an administrative request."""

import pytest
from azure.functions.meta import get_binding_registry
from functions_local_host.admin import by_hand
from functions_local_host.contract import Binding


def received(kind, text, **settings):
    """Decode a run by hand with the library's own converter."""
    datum, metadata = by_hand(Binding(kind, "msg", settings), text)
    return get_binding_registry().get(kind).decode(datum, trigger_metadata=metadata)


@pytest.mark.parametrize("text", ["plain", '{"a": 1}', ""])
def test_a_message_function_receives_the_input_as_its_body(text):
    """Storage queue, Service Bus, and a batch of one."""
    queue, bus = received("queueTrigger", text), received("serviceBusTrigger", text)
    (batched,) = received("serviceBusTrigger", text, cardinality="MANY")
    assert queue.get_body() == bus.get_body() == batched.get_body() == text.encode()
    assert queue.id
    assert bus.message_id


def test_a_body_of_json_overwrites_the_metadata_here_too():
    """The trap of a body's own `id` is the same as for a message that came by the queue."""
    assert received("queueTrigger", '{"id": "mine"}').id == "mine"


def test_a_timer_is_not_past_due():
    """It has no status either."""
    timer = received("timerTrigger", "")
    assert not timer.past_due
    assert timer.schedule_status == {}
