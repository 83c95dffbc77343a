"""Turns of messages that triggers delivered: never more than the slots allow, over all processes, in their order."""

import threading
from itertools import pairwise

import pytest

from shared.clock import SystemClock
from shared.dequeue.permits import SlotPlan
from shared.dequeue.turns import KEEP_UNUSED, SEEK_AGAIN, SEEK_EVERY, Turns
from shared.errors import NoSlotError, StorageUnavailableError
from tests.dequeue.memory_queue import ManualClock
from tests.dequeue.memory_slots import LEASE_SECONDS, MARGIN, MemorySlots
from tests.waiting import LIMIT


class Fleet:
    """Slots in memory, and processes that share them."""

    def __init__(self, cap, clock=None):
        self.cap, self.clock = cap, clock or SystemClock()
        self.slots = MemorySlots(self.clock)

    def process(self, **changed):
        """Return the turns of one more process."""
        plan = SlotPlan(rule=lambda depth: depth, cap=lambda: self.cap, tasks=4)
        return Turns(plan, self.slots, self.clock, **changed)


def run_in_threads(acts):
    """Run each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)


class Together:
    """Counts how many are at work at a time."""

    def __init__(self, turns):
        self.turns, self.lock, self.now, self.most, self.done = turns, threading.Lock(), 0, 0, 0
        self.pause = threading.Event()

    def work(self, turns):
        """Have one turn."""
        with turns.turn():
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self.pause.wait(0.01)
            with self.lock:
                self.now -= 1
                self.done += 1


@pytest.mark.parametrize("cap", [1, 2, 4, 6, 10])
def test_two_processes_that_start_at_once_never_exceed_the_cap(cap):
    """Twenty messages each, and neither knows of the other: all are done, and no more at a time than allowed."""
    fleet = Fleet(cap)
    with fleet.process(patience=20) as one, fleet.process(patience=20) as other:
        together = Together(one)
        run_in_threads([lambda turns=turns: together.work(turns) for turns in [one, other] * 20])
    assert (together.done, together.now) == (40, 0)
    assert together.most <= cap


def test_one_process_takes_all_that_is_allowed():
    """Ten of eleven begin at once: three slots, the last of them for two."""
    fleet, began, go = Fleet(10), threading.Barrier(11), threading.Event()
    with fleet.process() as turns:

        def work():
            with turns.turn():
                if not go.is_set():
                    began.wait(LIMIT)
                    go.wait(LIMIT)

        threads = [threading.Thread(target=work) for _ in range(11)]
        for thread in threads:
            thread.start()
        began.wait(LIMIT)
        assert (turns.taken, fleet.slots.list_held()) == (10, {0, 1, 2})
        go.set()
        for thread in threads:
            thread.join(LIMIT)
    assert (turns.taken, fleet.slots.list_held()) == (0, frozenset())


def test_messages_begin_in_the_order_in_which_they_came():
    """Who waits longest is next: otherwise new messages would let the others wait until they are given back."""
    fleet, order = Fleet(1), []
    with fleet.process() as turns:
        with turns.turn():
            threads = []
            for number in range(5):

                def work(number=number):
                    with turns.turn():
                        order.append(number)

                threads.append(threading.Thread(target=work))
                threads[-1].start()
                while len(turns._line) <= number:
                    pass
        for thread in threads:
            thread.join(LIMIT)
    assert order == list(range(5))


def test_who_waits_notices_a_cap_that_grew():
    """Nobody has to end for it."""
    fleet, got = Fleet(1), threading.Event()
    with fleet.process() as turns:

        def wait():
            with turns.turn():
                got.set()

        with turns.turn():
            waiting = threading.Thread(target=wait)
            waiting.start()
            assert not got.is_set()
            fleet.cap = 2
            assert got.wait(LIMIT)
            waiting.join(LIMIT)


def test_a_message_is_given_back_after_the_patience_and_the_line_goes_on():
    """It waits no longer than that: its host would end it."""
    clock = ManualClock()
    fleet = Fleet(1, clock)
    # Steps shorter than a lease: between two looks the process renews what it has.
    with fleet.process(patience=12) as turns:
        with turns.turn():
            plan = turns._plan
            turns._plan = SlotPlan(rule=plan.rule, cap=lambda: clock.advance(4) or 1, tasks=4)
            with pytest.raises(NoSlotError, match="given back"), turns.turn():
                pass
            turns._plan = plan
        # The time of every lease is over by then.
        clock.advance(60)
        with turns.turn():
            assert turns.taken == 1
    assert (turns.taken, list(turns._line)) == (0, [])


def test_what_the_slots_cost():
    """A lease for the first message, one more for each four, and a list only where another process was first."""
    fleet = Fleet(10)
    with fleet.process() as one:
        with one.turn():
            assert fleet.slots.requests == 1
        with one.turn():
            assert fleet.slots.requests == 1
        with fleet.process() as other, other.turn():
            # One that another has, the list, and one that is free.
            assert fleet.slots.requests == 4


def test_a_slot_that_nobody_uses_is_released_and_one_that_is_used_is_kept():
    """So that another process can have it, and no process holds what it does not need."""
    clock = ManualClock()
    fleet = Fleet(8, clock)
    with fleet.process() as turns:
        with turns.turn():
            kept = turns._held[0]
            clock.advance(KEEP_UNUSED + 1)
            kept.renew()
            assert fleet.slots.list_held() == {0}
        clock.advance(KEEP_UNUSED + 1)
        kept.renew()
        assert fleet.slots.list_held() == frozenset()


def test_a_lost_lease_lets_nothing_begin():
    """Another process may have the slot: what is in work goes on, and the next message waits for a slot of its own."""
    clock = ManualClock()
    fleet = Fleet(4, clock)
    with fleet.process(patience=0) as turns, turns.turn():
        # Past the margin, at which the process stops to trust it, and before storage lets another one have it.
        clock.advance(LEASE_SECONDS - MARGIN + 1)
        assert not turns._held[0].lease.is_held
        with pytest.raises(NoSlotError), turns.turn():
            pass


def test_a_search_without_a_slot_is_repeated_soon_at_first_and_then_seldom():
    """Mostly another process is about to release one; storage that does not answer must not be asked all the time."""
    clock = ManualClock()
    fleet = Fleet(4, clock)
    answers = fleet.slots.lease
    asked = []

    def fail(slot):
        asked.append(clock.monotonic())
        raise StorageUnavailableError("injected")

    fleet.slots.lease = fail
    with fleet.process(patience=0) as turns:
        for _ in range(60):
            with pytest.raises(NoSlotError), turns.turn():
                pass
            clock.advance(0.5)
        pauses = [after - before for before, after in pairwise(asked)]
        assert pauses[:4] == [SEEK_AGAIN, 2 * SEEK_AGAIN, 4 * SEEK_AGAIN, SEEK_EVERY]
        assert set(pauses[4:]) == {SEEK_EVERY}
        fleet.slots.lease = answers
        clock.advance(SEEK_EVERY)
        with turns.turn():
            assert turns.taken == 1


def test_the_next_message_of_a_job_begins_soon_in_another_process():
    """The host gives the last chunk to one process and the finish to another: it must not wait for the first one's slot."""
    clock = ManualClock()
    fleet = Fleet(4, clock)
    with fleet.process() as first, fleet.process(patience=0) as second:
        with first.turn():
            (held,) = first._held.values()
        ended = clock.monotonic()
        while True:
            try:
                with second.turn():
                    break
            except NoSlotError:
                clock.advance(0.25)
            if clock.monotonic() >= held.due:
                held.renew()
        assert clock.monotonic() - ended <= KEEP_UNUSED + 2 * SEEK_AGAIN
