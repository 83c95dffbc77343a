"""Session locks, on a clock of the test's own."""

import pytest
from servicebus_local.parcel import Parcel
from servicebus_local.queue import MessageQueue
from servicebus_local.record import Policy
from servicebus_local.refusal import SESSION_LOCK_LOST, SESSION_TAKEN, Refusal
from servicebus_local.session import Sessions

LOCK = 30.0


def make(*session_ids):
    """Sessions with one message each, in the given order."""
    stirred = set()
    dead = MessageQueue("q/$DeadLetterQueue", Policy(LOCK, 0), stirred, None)
    queue = MessageQueue("q", Policy(LOCK, 10, sessions=True), stirred, dead)
    for number, session_id in enumerate(session_ids, 1):
        queue.put(Parcel(b"", properties={"group_id": session_id}), number, number, 0.0)
    return Sessions(queue), stirred


def test_next_available_goes_by_waiting_time_and_skips_what_is_held():
    """The session that has waited longest comes first; a held one is no candidate."""
    sessions, _ = make("b", "a", "b")
    assert [sessions.accept_next(object(), 0).session_id for _ in range(2)] == ["b", "a"]
    assert sessions.accept_next(object(), 0) is None


def test_a_held_session_is_refused_until_its_lock_ends():
    """The very moment the lock ends, another may have it."""
    sessions, _ = make("a")
    sessions.accept("a", object(), 0)
    with pytest.raises(Refusal) as refused:
        sessions.accept("a", object(), LOCK - 0.001)
    assert refused.value.condition == SESSION_TAKEN
    assert sessions.accept("a", object(), LOCK).locked_until == 2 * LOCK


def test_an_ended_lock_counts_its_messages_and_a_released_one_does_not():
    """Only the clock's verdict is a failed attempt."""
    for released, failures in ((True, 0), (False, 1)):
        sessions, _ = make("a")
        lock = sessions.accept("a", object(), 0)
        sessions.queue.take("a", 1)
        if released:
            sessions.release(lock, 2)
        else:
            assert sessions.advance(LOCK) == [lock]
        assert sessions.queue.take("a", LOCK).failures == failures


def test_only_the_holder_renews_and_keeps_state():
    """Anyone else is told that the lock is not theirs."""
    sessions, _ = make("a")
    holder = object()
    sessions.accept("a", holder, 0)
    assert sessions.renew("a", holder, 10) == 10 + LOCK
    sessions.keep_state("a", holder, 10, b"s")
    for act in (sessions.renew, sessions.state):
        with pytest.raises(Refusal) as refused:
            act("a", object(), 10)
        assert refused.value.condition == SESSION_LOCK_LOST
    assert sessions.state("a", holder, 10) == b"s"


def test_a_stale_release_does_not_end_the_next_holder_s_lock():
    """A link that closes after its lock was lost must not free the session from its new holder."""
    sessions, _ = make("a")
    old = sessions.accept("a", object(), 0)
    holder = object()
    sessions.accept("a", holder, LOCK)
    sessions.release(old, LOCK + 1)
    assert sessions.held("a", holder, LOCK + 1)


def test_a_freed_session_has_the_dispatcher_look():
    """Whoever waits for a session must hear of one that came free with messages left."""
    sessions, stirred = make("a")
    lock = sessions.accept("a", object(), 0)
    stirred.clear()
    sessions.release(lock, 1)
    assert stirred == {sessions.queue}


def test_the_lock_of_who_receives_and_deletes_does_not_end_by_itself():
    """It has nothing to lose; another receiver still cannot have the session, and a lock behind it ends in time."""
    sessions, _ = make()
    sessions.accept("a", "deletes", 0.0, lasting=True)
    sessions.accept("b", "holder", 0.0)
    assert [lock.session_id for lock in sessions.advance(LOCK * 3)] == ["b"]
    with pytest.raises(Refusal):
        sessions.accept("a", "other", LOCK * 3)
