"""The queue's rules, on a clock of the test's own."""

from math import inf

import pytest
from hypothesis import given, strategies as st
from servicebus_local import wire
from servicebus_local.parcel import Parcel
from servicebus_local.queue import ONLY, MessageQueue
from servicebus_local.record import Policy
from servicebus_local.refusal import MESSAGE_LOCK_LOST, NOT_ALLOWED, Refusal

LOCK = 30.0


def make(max_delivery_count=3, **options):
    """A queue and its dead-letter sub-queue."""
    stirred = set()
    dead = MessageQueue("q/$DeadLetterQueue", Policy(LOCK, 0), stirred, None)
    return MessageQueue("q", Policy(LOCK, max_delivery_count, **options), stirred, dead), dead


def put(queue, *texts, now=0.0, life=None):
    """Put messages whose bodies are never looked at."""
    for number, _ in enumerate(texts, len(queue) + 1):
        queue.put(Parcel(b"", time_to_live=life), number, number, now)


def test_messages_are_handed_out_in_order_and_once():
    """A taken message is not taken again while its lock holds."""
    queue, _ = make()
    put(queue, "a", "b")
    assert [queue.take(ONLY, 1).sequence for _ in range(2)] == [1, 2]
    queue.advance(LOCK)
    assert queue.take(ONLY, LOCK) is None


def test_a_lock_ends_exactly_at_its_time():
    """At the last instant the holder can settle; from the next on it cannot."""
    queue, _ = make()
    put(queue, "a")
    record = queue.take(ONLY, 0)
    token = record.token
    queue.advance(LOCK - 0.001)
    assert record.token == token
    with pytest.raises(Refusal) as refused:
        queue.complete(token, LOCK)
    assert refused.value.condition == MESSAGE_LOCK_LOST
    queue.advance(LOCK)
    assert queue.take(ONLY, LOCK).failures == 1


def test_renewal_moves_the_end_and_the_order_of_ends():
    """A renewed lock outlives one taken after it."""
    queue, _ = make()
    put(queue, "a", "b")
    first, second = queue.take(ONLY, 0), queue.take(ONLY, 0)
    assert queue.renew(first.token, 20) == 20 + LOCK
    queue.advance(LOCK)
    assert (first.token is None, second.token is None) == (False, True)


def test_released_messages_are_not_counted_and_abandoned_ones_are():
    """Only a failed attempt counts."""
    queue, _ = make()
    put(queue, "a")
    queue.release(queue.take(ONLY, 0).token, 0)
    record = queue.take(ONLY, 0)
    assert record.failures == 0
    queue.abandon(record.token, 0)
    assert queue.take(ONLY, 0).failures == 1


def test_the_last_allowed_failure_buries():
    """With three deliveries allowed, the third failure moves the message and no fourth happens."""
    queue, dead = make(max_delivery_count=3)
    put(queue, "a")
    for _ in range(3):
        queue.abandon(queue.take(ONLY, 0).token, 0)
    assert (queue.take(ONLY, 0), len(queue), len(dead)) == (None, 0, 1)
    assert dead.take(ONLY, 0).parcel.application_properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"


def test_a_dead_letter_queue_buries_nothing():
    """There is no second grave."""
    queue, dead = make()
    put(queue, "a")
    queue.dead_letter(queue.take(ONLY, 0).token, 0, {"DeadLetterReason": wire.string("r")})
    with pytest.raises(Refusal) as refused:
        dead.dead_letter(dead.take(ONLY, 0).token, 0, {"DeadLetterReason": wire.string("r")})
    assert refused.value.condition == NOT_ALLOWED


@pytest.mark.parametrize(
    ("entity", "own", "expected"), [(10.0, 5.0, 5.0), (5.0, 10.0, 5.0), (inf, 7.0, 7.0), (7.0, None, 7.0)]
)
def test_the_smaller_life_wins(entity, own, expected):
    """A message is there until just before the end of its life and never after."""
    queue, _ = make(time_to_live=entity)
    put(queue, "a", life=own)
    assert queue.has_waiting(ONLY, expected - 0.001)
    assert not queue.has_waiting(ONLY, expected)


def test_an_expired_message_is_buried_only_where_the_policy_says_so():
    """Dropped otherwise."""
    for buried in (False, True):
        queue, dead = make(time_to_live=5.0, dead_letter_expired=buried)
        put(queue, "a")
        queue.advance(5.0)
        assert (len(queue), len(dead)) == (0, int(buried))


def test_a_locked_message_expires_when_it_comes_back():
    """The holder keeps it past its life; giving it back ends it."""
    queue, dead = make(time_to_live=5.0, dead_letter_expired=True)
    put(queue, "a")
    record = queue.take(ONLY, 0)
    queue.advance(6.0)
    assert len(queue) == 1
    queue.release(record.token, 6.0)
    assert (len(queue), len(dead)) == (0, 1)


def test_receive_and_delete_removes_at_once():
    """Nothing remains and nothing is locked."""
    queue, _ = make()
    put(queue, "a")
    assert queue.remove_next(ONLY, 0).token is None
    assert len(queue) == 0


_STEPS = st.lists(st.sampled_from(["put", "take", "complete", "abandon", "release", "bury", "pass"]), max_size=60)


@given(_STEPS)
def test_no_message_is_ever_lost_or_doubled(steps):
    """Whatever happens, each message is completed, dead, or in the queue, and in one of these only."""
    queue, dead = make(max_delivery_count=2)
    now, sent, completed, held = 0.0, 0, 0, []
    for step in steps:
        now += 1.0
        if step == "put":
            sent += 1
            queue.put(Parcel(b""), sent, sent, now)
        elif step == "take":
            record = queue.take(ONLY, now)
            held += [record] if record else []
        elif step == "pass":
            now += LOCK
            held = []
        elif held:
            token = held.pop().token
            if step == "complete":
                queue.complete(token, now)
                completed += 1
            elif step == "bury":
                queue.dead_letter(token, now, {})
            else:
                getattr(queue, step)(token, now)
        queue.advance(now)
        held = [record for record in held if record.token is not None]
        assert len(queue) + len(dead) + completed == sent
