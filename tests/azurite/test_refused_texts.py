"""A message with a character that Azure refuses is refused at its send, and not at every receive of its neighbours."""

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient

#: The ends of each range, and one that a sender wrote as a reference.
REFUSED = ["\x00", "\x08", "\x0b", "\x0c", "\x0e", "\x1b", "\x1f", "\ufffe", "\uffff"]
TAKEN = "tab \t, line \n, delete \x7f, control \x85, private \ue000, last \ufffd, emoji \U0001f389, <&>"


@pytest.fixture(scope="module")
def queue(azurite):
    """A queue whose client tries each request once."""
    with QueueClient.from_connection_string(azurite.connection_string, "texts", retry_total=0) as client:
        client.create_queue()
        yield client


@pytest.mark.parametrize("character", REFUSED, ids=ascii)
def test_a_message_that_no_queue_can_carry_is_refused_at_its_send(queue, character):
    """With the service's own code. What was sent beside it is received as it was."""
    queue.clear_messages()
    queue.send_message(TAKEN)
    with pytest.raises(HttpResponseError) as refused:
        queue.send_message(f"a{character}b")
    assert (refused.value.status_code, refused.value.error_code) == (400, "InvalidXmlDocument")
    with pytest.raises(HttpResponseError, match="InvalidXmlDocument"):
        queue.send_message(character)
    (received,) = queue.receive_messages(max_messages=32)
    assert received.content == TAKEN


def test_a_change_of_a_message_is_refused_too(queue):
    """The message stays as it was."""
    queue.clear_messages()
    queue.send_message(TAKEN)
    received = queue.receive_message()
    with pytest.raises(HttpResponseError) as refused:
        queue.update_message(received, content="\x1b[2J", visibility_timeout=0)
    assert refused.value.status_code == 400
    queue.update_message(received, visibility_timeout=0)
    assert [one.content for one in queue.receive_messages()] == [TAKEN]
