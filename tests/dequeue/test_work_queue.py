"""What a listener relies on, of the queue in memory and of the one in storage alike."""

from collections import Counter

import pytest

from shared.azure.connections import Connections
from shared.azure.meter import Cause
from shared.clock import SystemClock
from shared.dequeue.listener import QueueListener
from shared.dequeue.task import Listening, push
from shared.dequeue.work_queue import WorkQueue
from shared.errors import StorageUnavailableError
from tests.dequeue.conftest import VISIBILITY, Shifted

PAST = VISIBILITY + 0.3


def test_a_receive_hands_out_no_more_than_was_asked_for(either):
    """Three wait, two are asked for, and the third is for the next one."""
    either.put(b"one", b"two", b"three")
    assert len(either.queue.receive(2)) == 2
    assert len(either.queue.receive(2)) == 1
    assert either.queue.receive(2) == []


def test_what_is_received_is_hidden_but_counted(either):
    """The depth knows of messages that are being worked on."""
    either.put(b"one", b"two")
    either.queue.receive(1)
    assert either.queue.depth() == 2


def test_a_look_says_whether_a_receive_would_find_something(either):
    """Hidden messages do not count, and looking is no delivery."""
    assert not either.queue.peek()
    either.put(b"one", b"two")
    assert either.queue.peek() == 2
    [held] = either.queue.receive(1)
    assert held.delivery.count == 1
    assert either.queue.peek() == 1


def test_a_message_that_nobody_deletes_comes_back_with_its_count(either):
    """Its second delivery says so, which is what parking goes by."""
    either.put(b"one")
    [first] = either.queue.receive(1)
    either.pass_time(PAST)
    [again] = either.queue.receive(1)
    assert (first.delivery.count, again.delivery.count) == (1, 2)
    assert (again.delivery.body, again.delivery.message_id) == (b"one", first.delivery.message_id)
    assert first.is_lost
    assert not again.is_lost


def test_a_deleted_message_is_gone(either):
    """Neither to be received nor counted."""
    either.put(b"one")
    [held] = either.queue.receive(1)
    held.delete()
    assert either.queue.depth() == 0


def test_a_message_that_was_given_back_is_there_at_once(either):
    """Nobody has to wait for the end of its time."""
    either.put(b"one")
    [held] = either.queue.receive(1)
    held.show_in(0)
    assert len(either.queue.receive(1)) == 1


def test_a_renewed_message_stays_hidden_and_can_be_deleted_by_its_new_receipt(either):
    """The receipt changes with each renewal, and the one that counts is the last."""
    either.put(b"one")
    [held] = either.queue.receive(1)
    # Far beyond the first time, so that the renewal alone hides it, however busy the machine is.
    either.renew_for(held, 600)
    either.pass_time(PAST)
    assert (either.queue.receive(1), held.is_lost) == ([], False)
    held.delete()
    assert either.queue.depth() == 0


def test_a_message_that_somebody_else_received_since_is_neither_deleted_nor_hidden_by_its_old_holder(either):
    """The old receipt is worth nothing, and its holder is told by nothing but that."""
    either.put(b"one")
    [old] = either.queue.receive(1)
    either.pass_time(PAST)
    [new] = either.queue.receive(1)
    old.renew()
    old.delete()
    assert old.is_lost
    assert old.due == float("inf")
    assert either.queue.depth() == 1
    new.delete()
    assert either.queue.depth() == 0


def test_nothing_is_renewed_after_its_end(either):
    """A renewal that comes late must not hide what was given back."""
    either.put(b"one")
    [held] = either.queue.receive(1)
    held.show_in(0)
    held.renew()
    assert len(either.queue.receive(1)) == 1


def test_a_receive_is_one_request_whatever_it_finds(storage_queue, azurite):
    """Also an empty one: the library's pager must not ask for a second page."""
    with Connections(azurite.connection_string) as connections:
        queue = WorkQueue(connections.queues.get_queue_client(storage_queue.queue_name), SystemClock(), VISIBILITY)
        for wait in (0, 1, 5):
            for _ in range(wait):
                storage_queue.send_message("x")
            before = connections.meter.tally.total()
            assert len(queue.receive(32)) == wait
            assert connections.meter.tally.total() == before + 1


def test_a_receive_that_found_nothing_counts_as_idle(storage_queue, azurite):
    """And one that found something as useful, whoever made it and whatever it expected."""
    clock = SystemClock()
    with Connections(azurite.connection_string) as connections:
        queue = WorkQueue(connections.queues.get_queue_client(storage_queue.queue_name), clock, VISIBILITY)
        listening = Listening(rule=lambda depth: 1, least=0, on_queue_empty=push, first_depth=1)
        storage_queue.send_message("x")
        with QueueListener([queue], lambda delivery: None, listening) as listener:
            listener.start(1)
            listener.wait()
        # The receive and the deletion, and the receive that ended it.
        causes = Counter()
        for counted, number in connections.meter.tally.counts().items():
            causes[counted.cause] += number
        assert causes == {Cause.USEFUL: 2, Cause.IDLE: 1}


def test_a_renewal_without_an_answer_is_tried_again_while_there_is_time(storage_queue, azurite, monkeypatch):
    """The message is not lost yet, and its next try comes before it would be."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    clock = Shifted()
    storage_queue.send_message("x")
    with Connections(azurite.connection_string) as connections:
        client = connections.queues.get_queue_client(storage_queue.queue_name)
        [held] = WorkQueue(client, clock, 30).receive(1)
        clock.by = 15
        monkeypatch.setattr(client, "update_message", _unanswered)
        held.renew()
        assert not held.is_lost
        assert clock.monotonic() < held.due < clock.monotonic() + 15


def _unanswered(*_positional, **_named):
    from azure.core.exceptions import ServiceResponseError  # noqa: PLC0415 - for the injected fault only

    raise ServiceResponseError("injected: no answer")


def test_a_queue_that_does_not_answer_is_one_known_error(azurite):
    """Whatever the library raises, a task knows that it is to try again."""
    with Connections(azurite.connection_string) as connections:
        missing = WorkQueue(connections.queues.get_queue_client("no-such-queue"), SystemClock(), 30)
        with pytest.raises(StorageUnavailableError, match="no-such-queue"):
            missing.receive(1)
        with pytest.raises(StorageUnavailableError, match="no-such-queue"):
            missing.depth()
