"""The listener: what its tasks do with messages, and how many of them there are."""

import threading
from functools import partial

import pytest

from shared.clock import SystemClock
from shared.dequeue.listener import QueueListener
from shared.dequeue.task import MOST_FAILURES, BackOff, DequeueTask, Listening, Rest, pull, push
from tests.dequeue.memory_queue import ManualClock, MemoryQueue
from tests.waiting import LIMIT, until

QUICK = BackOff(longest=0.02, step=0.002)
eventually = partial(until, pause=0.002)


class Watch:
    """An observer that remembers."""

    def __init__(self):
        self.bodies, self.errors, self.ended = [], [], 0

    def on_next(self, delivery):
        """Remember a message."""
        self.bodies.append(delivery.body)

    def on_error(self, error, delivery):
        """Remember an error."""
        self.errors.append(error)

    def on_completed(self):
        """Count an end."""
        self.ended += 1


def ten(_depth):
    """Call for ten tasks."""
    return 10


def one(_depth):
    """Call for one task."""
    return 1


def alone(queue, clock, handle, **changed):
    """Return one task that a test runs itself, and the observer of its listener."""
    listening = Listening(rule=one, **{"least": 0, "on_queue_empty": push, **changed})
    queues = queue if isinstance(queue, list) else [queue]
    listener = QueueListener(queues, handle, listening, clock=clock, uniform=lambda low, high: low)
    watch = Watch()
    listener.subscribe(watch)
    crew = listener._crew
    crew.count.grow_to(1)
    return DequeueTask(crew), watch, crew


def test_one_bad_message_stops_no_other(memory_queue, manual_clock):
    """The others are handled and deleted; the bad one comes back after half a minute, with its count."""
    memory_queue.put(b"good", b"bad", b"better")
    counts = []

    def handle(delivery):
        if delivery.body == b"bad":
            counts.append(delivery.count)
            raise ValueError("injected")

    for _ in range(2):
        task, watch, _ = alone(memory_queue, manual_clock, handle, first_depth=3)
        task.run()
        manual_clock.advance(29.9)
    assert (watch.bodies, counts) == ([], [1])
    manual_clock.advance(0.1)
    alone(memory_queue, manual_clock, handle)[0].run()
    assert counts == [1, 2]
    assert memory_queue.depth() == 1


def test_observers_hear_of_messages_and_errors_and_cannot_disturb(memory_queue, manual_clock):
    """One that fails is as good as none; one that left hears nothing more."""
    memory_queue.put(b"good", b"bad")
    listener = QueueListener(
        [memory_queue], partial(_fail_on, b"bad"), Listening(rule=one, least=0, on_queue_empty=push), clock=manual_clock
    )
    watch, gone = Watch(), Watch()
    listener.subscribe(object())
    listener.subscribe(watch)
    listener.subscribe(gone)()
    with listener:
        listener.start(1)
        listener.wait()
    assert (watch.bodies, [str(error) for error in watch.errors], watch.ended) == ([b"good"], ["injected"], 1)
    assert (gone.bodies, gone.ended) == ([], 0)
    assert memory_queue.depth() == 1


def _fail_on(body, delivery):
    if delivery.body == body:
        raise ValueError("injected")


def test_a_message_that_was_lost_while_it_waited_is_not_run(memory_queue, manual_clock):
    """Somebody else has it: running it too would only be double work."""
    memory_queue.put(b"slow", b"waits")
    ran = []

    def handle(delivery):
        ran.append(delivery.body)
        if delivery.body == b"slow":
            manual_clock.advance(31)

    task, _, _ = alone(memory_queue, manual_clock, handle, first_depth=2)
    task._step()
    assert ran == [b"slow"]


def test_what_is_held_for_long_is_renewed_at_half_of_its_time(memory_queue, manual_clock):
    """The one that runs and the one that waits behind it; neither is delivered to anybody else."""
    memory_queue.put(b"slow", b"waits")
    ran = []

    def handle(delivery):
        ran.append(delivery.body)
        if delivery.body == b"slow":
            for _ in range(4):
                manual_clock.advance(15)
                crew.renewals.renew_due()

    task, _, crew = alone(memory_queue, manual_clock, handle, first_depth=2)
    task._step()
    assert ran == [b"slow", b"waits"]
    assert (memory_queue.renewals, memory_queue.depth()) == (8, 0)


def test_a_thread_renews_while_the_listener_is_entered():
    """A handler that takes long has its message all the time: it ends after the third renewal, however late that is."""
    queue = MemoryQueue(SystemClock(), visibility=2)
    queue.put(b"slow")
    listening = Listening(rule=one, least=0, on_queue_empty=push, visibility=2)
    with QueueListener([queue], lambda _delivery: until(lambda: queue.renewals > 2), listening) as listener:
        listener.start(1)
        listener.wait()
    assert queue.renewals > 2


def test_a_task_ends_at_its_first_empty_receive_in_push_mode(memory_queue, manual_clock):
    """One empty receive, no rest, and none that stays."""
    task, _, crew = alone(memory_queue, manual_clock, lambda delivery: None)
    task.run()
    assert (memory_queue.receives, crew.count.active) == ([0], 0)


@pytest.mark.parametrize("first", [Rest(0.0, stop=False), Rest(0.0, stop=True, least=1)])
def test_a_task_that_stays_after_an_empty_receive_takes_what_comes_next(memory_queue, manual_clock, first):
    """Its hook alone says so: whether it may end and does not, or may not end yet."""
    late, handled = [b"late"], []

    def hook(empties):
        if not late:
            return push(empties)
        memory_queue.put(late.pop())
        return first

    task, _, crew = alone(memory_queue, manual_clock, lambda one: handled.append(one.body), on_queue_empty=hook)
    task.run()
    assert (handled, memory_queue.receives, crew.count.active) == ([b"late"], [0, 1, 0], 0)


def test_a_drain_of_several_queues_ends_when_each_was_empty_once(manual_clock):
    """Work in the last of three is found, and no queue is asked again after it was empty."""
    queues = [MemoryQueue(manual_clock, f"work-{number:02}") for number in range(3)]
    queues[2].put(b"one", b"two")
    task, watch, _ = alone(queues, manual_clock, lambda delivery: None)
    task.run()
    assert watch.bodies == [b"one", b"two"]
    assert [queue.receives for queue in queues] == [[0], [0], [1, 1, 0]]


def test_the_depth_is_not_asked_for_by_a_task_that_finds_nothing(memory_queue, manual_clock):
    """A billable request is not made to learn whether to save requests."""
    task, _, crew = alone(memory_queue, manual_clock, print, least=1, on_queue_empty=pull(QUICK))
    for _ in range(50):
        task._step()
    assert (memory_queue.requests, crew.count.active) == ([(1, 0)] * 50, 1)


def test_messages_that_were_not_begun_are_given_back_when_the_time_is_up(memory_queue, manual_clock):
    """Another instance can have them at once; this one receives no more."""
    memory_queue.put(b"one", b"two", b"three")
    task, watch, crew = alone(
        memory_queue, manual_clock, lambda delivery: manual_clock.advance(100), until=90.0, first_depth=3
    )
    task.run()
    assert (watch.bodies, crew.count.active, memory_queue.receives) == ([b"one"], 0, [3])
    assert [held.delivery.count for held in memory_queue.receive(5)] == [2, 2]


def test_a_task_takes_no_more_than_it_soon_begins(memory_queue, manual_clock):
    """Half a second each: after the first receive, whose pace is unknown, two at a time and not all of its share."""
    memory_queue.put(*[b"one"] * 9)
    task, _, _ = alone(memory_queue, manual_clock, lambda delivery: manual_clock.advance(0.5), first_depth=5)
    task.run()
    assert memory_queue.receives == [5, 2, 2, 0]


def test_what_is_dropped_is_taken_as_a_receive_gives_it_and_work_among_it_is_given_back(memory_queue, manual_clock):
    """It is no work, so the pace of work does not count for it, nor it for the pace. Half a second each is work."""
    memory_queue.put(*[b"work"] * 5, *[b"drop"] * 40, *[b"work"] * 3)

    def handle(delivery):
        is_dropped = delivery.body == b"drop"
        manual_clock.advance(0 if is_dropped else 0.5)
        return is_dropped

    task, watch, _ = alone(memory_queue, manual_clock, handle, first_depth=48)
    task.run()
    assert memory_queue.receives == [32, 2, 14, 1, 0]
    assert sorted(watch.bodies) == [b"drop"] * 40 + [b"work"] * 8


def test_a_queue_that_does_not_answer_is_asked_ever_less_often_and_then_by_one_task_only(memory_queue, manual_clock):
    """The others end; the one that stays in pull mode finds the work when storage is back."""
    memory_queue.fails = True
    pauses = []
    task, watch, crew = alone(memory_queue, manual_clock, lambda delivery: None, least=1, on_queue_empty=pull(QUICK))
    object.__setattr__(crew, "pause", pauses.append)
    crew.count.grow_to(2)
    assert [task._step() for _ in range(MOST_FAILURES)] == [True] * (MOST_FAILURES - 1) + [False]
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    last, _, _ = DequeueTask(crew), crew.count, None
    assert [last._step() for _ in range(MOST_FAILURES)] == [True] * MOST_FAILURES
    memory_queue.fails = False
    memory_queue.put(b"found")
    last._step()
    assert (watch.bodies, len(watch.errors)) == ([b"found"], 2 * MOST_FAILURES)


def test_pull_mode_goes_from_one_to_the_rule_and_back_to_one():
    """One poller finds the burst, as many tasks as the rule says work it off, and exactly one polls on."""
    queue, watch, detected = MemoryQueue(ManualClock()), Watch(), []
    busy = threading.Barrier(10, timeout=LIMIT)
    first = threading.local()

    def handle(_delivery):
        if not getattr(first, "met", False):
            first.met = True
            busy.wait()

    listening = Listening(
        rule=ten, on_queue_empty=pull(QUICK), on_work_detected=lambda: detected.append(1), depth_every=0.0
    )
    with QueueListener([queue], handle, listening) as listener:
        listener.subscribe(watch)
        assert listener.start(1) == 1
        eventually(lambda: len(queue.requests) > 5)
        assert listener.query_state().peak == 1
        queue.put(*[str(number).encode() for number in range(500)])
        eventually(lambda: len(watch.bodies) == 500 and listener.query_state().active == 1)
        asked = len(queue.requests)
        eventually(lambda: len(queue.requests) > asked + 5)
        assert (listener.query_state().active, listener.query_state().peak) == (1, 10)
    assert listener.query_state().active == 0
    assert len(set(watch.bodies)) == 500
    assert detected


def test_push_mode_goes_from_none_to_the_rule_and_back_to_none():
    """A signal starts one task, it calls the others, and no one is left to poll."""
    queue, watch = MemoryQueue(ManualClock()), Watch()
    queue.put(*[str(number).encode() for number in range(500)])
    busy = threading.Barrier(10, timeout=LIMIT)
    first = threading.local()

    def handle(_delivery):
        if not getattr(first, "met", False):
            first.met = True
            busy.wait()

    listening = Listening(rule=ten, least=0, on_queue_empty=push, first_depth=500, fleet=10)
    with QueueListener([queue], handle, listening) as listener:
        listener.subscribe(watch)
        listener.start(1)
        listener.wait()
        state = listener.query_state()
    assert (state.active, state.peak, len(set(watch.bodies))) == (0, 10, 500)
    assert len(queue.receives) <= 500 / 32 + 2 * 10
    assert watch.ended == 10


def test_nobody_starts_more_than_may_run():
    """Whoever asks for five where two may run has two, and none more by asking again."""
    listening = Listening(rule=ten, cap=lambda: 2, on_queue_empty=pull(QUICK))
    with QueueListener([MemoryQueue(ManualClock())], print, listening) as listener:
        assert [listener.start(5), listener.start(5)] == [2, 0]
        assert listener.query_state().active == 2


def test_a_cap_that_falls_is_followed_and_one_that_rises_too():
    """Nobody restarts anything: tasks above it end after what they hold, others are started as work is found."""
    clock, cap = ManualClock(), [6]
    queue, gate = MemoryQueue(clock), threading.Semaphore(0)
    queue.put(*[b"x"] * 300)
    listening = Listening(rule=ten, cap=lambda: cap[0], on_queue_empty=pull(QUICK), depth_every=0.0, fleet=300)
    with QueueListener([queue], lambda delivery: gate.acquire(timeout=LIMIT), listening) as listener:
        listener.start(1)
        eventually(lambda: listener.query_state().active == 6)
        cap[0] = 2
        gate.release(20)
        eventually(lambda: listener.query_state().active == 2)
        cap[0] = 4
        gate.release(20)
        eventually(lambda: listener.query_state().active == 4)
        assert listener.query_state().peak == 6
        gate.release(300)


@pytest.mark.parametrize("error", [RuntimeError("injected"), SystemExit(1)])
def test_a_task_that_dies_is_replaced(error):
    """A hook that fails, or code that ends its thread, must not leave a queue without a poller."""
    queue, watch, deaths = MemoryQueue(ManualClock()), Watch(), iter([error])

    def hook(empties):
        for death in deaths:
            raise death
        return Rest(0.001, stop=False)

    with QueueListener([queue], lambda delivery: None, Listening(rule=one, on_queue_empty=hook, backoff=QUICK)) as one_:
        one_.subscribe(watch)
        one_.start(1)
        eventually(lambda: watch.errors == [error])
        queue.put(b"found")
        eventually(lambda: watch.bodies == [b"found"])
        assert one_.query_state().active == 1


def test_a_stop_ends_every_task_after_its_message_and_gives_the_rest_back():
    """Also those that rest."""
    clock = ManualClock()
    queue, began, may_end = MemoryQueue(clock), threading.Event(), threading.Event()
    queue.put(b"one", b"two", b"three")

    def handle(_delivery):
        began.set()
        may_end.wait(LIMIT)

    listening = Listening(rule=one, first_depth=3, fleet=1, on_queue_empty=pull(BackOff(longest=600.0)))
    with QueueListener([queue], handle, listening) as listener:
        listener.start(1)
        assert began.wait(LIMIT)
        stopper = threading.Thread(target=listener.stop)
        stopper.start()
        eventually(listener._crew.stopping.is_set)
        may_end.set()
        stopper.join(LIMIT)
    assert listener.query_state().active == 0
    assert len(queue.receive(5)) == 2
