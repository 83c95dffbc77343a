"""Permits: who may run how many, whom a put wakes, and what a drain does with the permit that it has."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from shared.clock import SystemClock
from shared.dequeue.drain import LOOKS_EVERY, PATIENCE, Drain, Drained
from shared.dequeue.permits import WAKES_EVERY, Notifier, Notify, Put, SlotPlan, Spare, TopUp, Wakes, When, choose_slots
from shared.dequeue.receiving import HandlingTime
from shared.errors import PutOffError, StorageUnavailableError
from shared.messages import MOST_OF_A_FLEET, Permit, decode_permit, encode_permit
from shared.topology import GUARD
from tests.dequeue.memory_queue import ManualClock, MemoryQueue
from tests.dequeue.memory_slots import MemoryBus, MemorySlots

depths, caps, sizes = st.integers(0, 100_000), st.integers(0, 300), st.integers(1, 32)


def seed_rule(depth):
    """Return the tasks of Mizonov's example."""
    return 10 if depth < 100 else 50 if depth < 1000 else 100


def fleet(cap=1_000, tasks=4, rule=seed_rule):
    """Return a fleet."""
    return SlotPlan(rule=rule, cap=lambda: cap, tasks=tasks)


@given(caps, sizes)
def test_all_slots_together_have_the_cap_and_no_more(cap, tasks):
    """However large a slot is: what the slots may run adds up to the cap."""
    made = fleet(cap, tasks)
    assert sum(made.allowance(slot) for slot in range(cap // tasks + 2)) == cap
    assert made.allowance(cap // tasks + 1) == 0


@given(depths, caps, sizes)
def test_there_are_as_many_slots_as_the_rule_takes(depth, cap, tasks):
    """ceil(rule(depth) / T), within the cap, and no more tasks than messages."""
    made = fleet(cap, tasks)
    wanted = min(seed_rule(depth), cap, depth)
    assert made.count_wanted(depth) == wanted
    assert (made.slots(depth) - 1) * tasks < max(wanted, 1) <= max(made.slots(depth) * tasks, 1)


@given(st.integers(0, MOST_OF_A_FLEET), st.integers(0, MOST_OF_A_FLEET), st.integers(0, MOST_OF_A_FLEET))
def test_a_permit_arrives_as_it_was_sent(slot, depth, tasks):
    """Under the wrapper key, like every message."""
    permit = Permit(slot=slot, depth=depth, tasks=tasks)
    assert encode_permit(permit).startswith(b'{"sluice":{"kind":"work"')
    assert decode_permit(encode_permit(permit)) == permit


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"sluice": {"kind": "work"}}',
        b'{"sluice": {"kind": "work", "slot": -1}}',
        b'{"sluice": {"kind": "work", "slot": 1e99}}',
        b'{"sluice": {"kind": "work", "slot": 1000001}}',
        b'{"sluice": {"kind": "release", "slot": 1}}',
        b'{"sluice": {"kind": "work", "slot": 1, "v": 2}}',
        b'{"sluice": {"kind": "work", "slot": "\xff"}}',
    ],
)
def test_what_is_no_permit_costs_nothing(body):
    """Whoever may send on the topic can send anything; no request is made for it."""
    stage = Stage()
    assert stage.drain().on_signal(body) is Drained.REFUSED
    assert (stage.queue.requests, stage.slots.requests) == ([], 0)


class Stage:
    """A fleet on a queue in memory."""

    def __init__(self, cap=1_000, tasks=4, rule=seed_rule):
        self.clock = ManualClock()
        self.queue, self.slots, self.bus = MemoryQueue(self.clock), MemorySlots(self.clock), MemoryBus()
        self.cap, self.tasks, self.rule = cap, tasks, rule
        self.spare = Spare(self.clock.monotonic)
        self.handled = []

    @property
    def fleet(self):
        """How many tasks there may be."""
        return SlotPlan(rule=self.rule, cap=lambda: self.cap, tasks=self.tasks)

    def put(self, messages):
        """Put so many messages."""
        self.queue.put(*[str(number).encode() for number in range(messages)])

    def handle(self, delivery):
        """Remember it."""
        self.handled.append(delivery.body)

    def drain(self, handle=None, clock=None, **known):
        """Return the drain of one instance."""
        return Drain(
            sources=[self.queue],
            handle=handle or self.handle,
            fleet=self.fleet,
            slots=self.slots,
            send=self.bus,
            clock=clock or self.clock,
            **known,
        )

    def notifier(self, policy=Notify.BURST, when=When.AFTER):
        """Return what a dispatch uses."""
        return Notifier(
            policy=policy,
            when=when,
            fleet=self.fleet,
            slots=self.slots,
            send=self.bus,
            depth=self.queue.depth,
            spare=self.spare,
        )

    def top_up(self):
        """Do the tick's part."""
        return TopUp(slots=self.slots, fleet=self.fleet, send=self.bus).run(self.queue.depth())


def test_a_permit_drains_the_queue_and_is_given_up():
    """Every message is handled once, the slot is free again, and nothing polls."""
    stage = Stage()
    stage.put(100)
    assert stage.drain().run(Permit(slot=0, depth=100, tasks=50)) is Drained.GAVE_UP
    assert len(set(stage.handled)) == 100
    assert (stage.slots.list_held(), stage.bus.sent) == (frozenset(), [])


def test_a_permit_comes_when_messages_that_hide_come_again():
    """One for all within a second. By then no task may be here, and the tick would find them a minute later."""
    stage, waits, sent = Stage(tasks=1), {b"0": 30, b"1": 30, b"2": 7}, []

    def refuse(delivery):
        stage.handle(delivery)
        raise PutOffError(waits[delivery.body])

    stage.put(3)
    drain = replace(
        stage.drain(refuse, wakes=Wakes(stage.clock.monotonic)),
        send=lambda permits, seconds: sent.append((permits, seconds)),
    )
    assert drain.run(Permit(slot=2, depth=3, tasks=1)) is Drained.GAVE_UP
    assert len(stage.handled) == 3
    once = [Permit(slot=2, depth=1, tasks=1)]
    assert sent == [(once, 31), (once, 8)]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), max_size=50))
def test_each_message_that_hides_has_a_permit_within_a_second_after_it(hides):
    """However many there are, and whenever."""
    clock, permits, comes = ManualClock(), [], []
    wakes = Wakes(clock.monotonic)
    for seconds, later in hides:
        clock.advance(later)
        comes.append(clock.monotonic() + seconds)
        if (delay := wakes.delay(seconds)) is not None:
            permits.append(clock.monotonic() + delay)
    assert all(any(-1e-6 <= at - one <= WAKES_EVERY + 1e-6 for at in permits) for one in comes)


def test_a_permit_that_comes_for_nothing_costs_one_empty_receive():
    """Forged, doubled or late: one task looks, and the others are not even started."""
    stage = Stage()
    stage.drain().run(Permit(slot=3, depth=5_000, tasks=100))
    assert stage.queue.receives == [0]


def test_nobody_else_is_started_to_find_nothing(monkeypatch):
    """The first task looks alone; and where it finds fewer than it asked for, there is nothing for the others."""
    stage, receive = Stage(), MemoryQueue.receive
    meeting = threading.Barrier(2)

    def together(queue, most):
        try:
            meeting.wait(0.2)
        except threading.BrokenBarrierError:
            meeting.reset()
        return receive(queue, most)

    monkeypatch.setattr(MemoryQueue, "receive", together)
    stage.drain().run(Permit(slot=1, depth=5_000, tasks=100))
    assert stage.queue.receives == [0]
    stage.put(3)
    stage.drain(pace=HandlingTime(assumed=0.01)).run(Permit(slot=1, depth=5_000, tasks=100))
    assert stage.queue.receives == [0, 3, 0]


def test_a_new_process_takes_one_message_for_each_task_before_it_knows_how_long_one_takes():
    """50 messages for ten tasks: by shares of five, two instances with 8 and 2 tasks would have 40 and 10 of them."""
    stage = Stage()
    stage.put(50)
    drain = stage.drain(lambda delivery: stage.clock.advance(0.25))
    drain.run(Permit(slot=0, depth=50, tasks=10))
    first, *later = (asked for asked, _ in stage.queue.requests if asked != "depth")
    assert first == 1
    # What was measured stands for the next permit: as many as begin within a second, and no more than the share.
    assert max(later) == 4
    stage.put(50)
    stage.queue.requests.clear()
    drain.run(Permit(slot=0, depth=50, tasks=10))
    assert stage.queue.receives[0] > 1


def test_a_doubled_permit_costs_no_receive_while_its_slot_is_held():
    """Whoever holds the slot goes on; the copy is refused by one request."""
    stage = Stage()
    lease = stage.slots.lease(2)
    before = stage.slots.requests
    assert stage.drain().run(Permit(slot=2)) is Drained.TAKEN
    assert (stage.queue.requests, stage.slots.requests - before, lease.is_held) == ([], 1, True)


def test_a_permit_beyond_the_cap_costs_nothing():
    """Slot 3 of four tasks is beyond a cap of twelve, whoever sent it."""
    stage = Stage(cap=12)
    stage.put(10)
    assert stage.drain().run(Permit(slot=3)) is Drained.BEYOND_CAP
    assert (stage.queue.requests, stage.slots.requests) == ([], 0)


def test_a_process_that_just_started_looks_what_the_cap_is_before_it_begins():
    """What it found is given back at once where the cap has fallen; a permit for nothing costs no look."""
    stage = Stage(tasks=1)
    looks = []

    def look():
        looks.append(stage.queue.receives)
        stage.cap = 1

    drain = replace(stage.drain(), look=look, fleet=stage.fleet)
    drain.run(Permit(slot=2, depth=5, tasks=5))
    assert looks == []
    stage.put(5)
    drain.run(Permit(slot=2, depth=5, tasks=5))
    assert (looks, stage.handled, stage.queue.peek()) == ([[0, 1]], [], 5)


def test_the_last_slot_runs_what_is_left_of_the_cap():
    """With a cap of six, slot 1 of four tasks has two."""
    stage = Stage(cap=6)
    stage.put(200)
    most = Most()
    stage.drain(most.handle).run(Permit(slot=1, depth=200, tasks=6))
    assert most.peak == 2


class Most:
    """The most handlers that ran at a time."""

    def __init__(self):
        self.now = self.peak = 0
        self._lock, self._meet = threading.Lock(), threading.Event()

    def handle(self, _delivery):
        """Stay for a moment, so that others meet this one."""
        with self._lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        self._meet.wait(0.002)
        with self._lock:
            self.now -= 1


def test_a_fleet_that_is_flooded_with_permits_keeps_to_its_cap():
    """Sixty permits, doubled and forged, on thirty threads at the same time: never more tasks than eleven."""
    stage, most = Stage(cap=11), Most()
    stage.put(1_500)
    permits = [Permit(slot=number % 12, depth=1_500, tasks=11) for number in range(60)]
    lock = threading.Lock()

    def instance():
        drain = stage.drain(most.handle, SystemClock())
        while True:
            with lock:
                if not permits:
                    return
                permit = permits.pop()
            drain.run(permit)

    threads = [threading.Thread(target=instance) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most.peak == 11
    assert stage.queue.depth() == 0


def test_a_drain_hands_over_before_its_time_is_up():
    """The slot is released, then another permit for it is sent, and only then the function returns."""
    stage = Stage(tasks=1)
    stage.put(40)
    held_at_send = []

    def send(permits):
        held_at_send.append(stage.slots.list_held())
        return stage.bus(permits)

    def handle(_delivery):
        stage.clock.advance(10)
        # In time, as the thread does that renews by a real clock.
        for lease, _ in stage.slots._leases.values():
            lease.renew()

    drain = replace(stage.drain(handle), send=send)
    assert drain.run(Permit(slot=5, depth=40, tasks=1)) is Drained.HANDED_OVER
    assert (held_at_send, [permit.slot for permit in stage.bus.sent]) == ([frozenset()], [5])
    assert PATIENCE <= stage.clock.seconds <= 240
    assert stage.queue.peek()


def test_a_permit_that_comes_again_waits_for_what_the_dead_holder_had():
    """Its slot is leased and its message hidden for a while: a drain that ended at once would leave both to the tick."""
    stage = Stage(tasks=1)
    stage.queue = MemoryQueue(stage.clock, visibility=GUARD.seconds)
    stage.put(1)
    stage.queue.receive(1)
    assert stage.slots.lease(5) is not None
    drain = replace(stage.drain(lambda _delivery: None), pause=stage.clock.advance)
    body = encode_permit(Permit(slot=5, depth=1, tasks=1))
    assert drain.on_signal(body) is Drained.TAKEN
    assert (stage.clock.seconds, stage.queue.depth()) == (0, 1)
    # As late as the bus gives it again when its lock was renewed just before the slot.
    stage.clock.advance(9)
    assert drain.on_signal(body, 2) is Drained.GAVE_UP
    assert (stage.queue.depth(), stage.slots.list_held()) == (0, frozenset())
    assert stage.clock.seconds < 9 + GUARD.total_seconds() + 2 * LOOKS_EVERY


def test_what_a_drain_holds_when_its_lease_ends_is_given_back():
    """Another instance may run the slot by then: beginning another message could be one task too many."""
    stage = Stage(tasks=1)
    stage.put(3)
    handled = []

    def handle(delivery):
        handled.append(delivery.body)
        stage.clock.advance(46)

    drain = stage.drain(handle)
    # Nobody renews here: the clock jumps past the end of the lease within one message.
    drain.run(Permit(slot=1, depth=3, tasks=1))
    assert (handled, stage.bus.sent) == ([b"0"], [])


def test_a_message_that_is_put_while_slot_0_is_being_given_up_is_found():
    """Its publisher saw the slot held and woke a spare one at most; so the drain looks once more after the release."""
    stage = Stage()
    release = stage.slots.extend

    def late(lease, until):
        if not stage.handled and until <= stage.clock.monotonic():
            stage.put(1)
            with stage.notifier()(1, 1):
                pass
        return release(lease, until)

    stage.slots.extend = late
    assert stage.drain().run(Permit(slot=0, depth=1, tasks=1)) is Drained.GAVE_UP
    assert ([permit.slot for permit in stage.bus.sent], stage.handled) == ([1], [b"0"])


def test_messages_that_are_put_while_slot_0_is_being_given_up_are_shared():
    """The depth of its permit is over: by that, the first task would take all of them, and others had none."""
    stage = Stage()
    release = stage.slots.extend

    def late(lease, until):
        if not stage.handled and until <= stage.clock.monotonic():
            stage.put(3)
        return release(lease, until)

    stage.slots.extend = late
    assert stage.drain().run(Permit(slot=0, depth=64, tasks=4)) is Drained.GAVE_UP
    assert len(stage.handled) == 3
    assert [found for found in stage.queue.receives if found] == [1, 1, 1]


def test_storage_that_does_not_answer_ends_a_permit_without_a_redelivery():
    """The bus would deliver it again at once, ten times, and keep it as dead; the tick sends another."""
    stage = Stage()

    def silent(_slot):
        raise StorageUnavailableError("injected")

    stage.slots.lease = silent
    assert stage.drain().on_signal(encode_permit(Permit(slot=0))) is Drained.UNANSWERED


@pytest.mark.parametrize(
    ("policy", "put", "expected"),
    [
        (Notify.EACH, Put(messages=100, coming=5_000), 5_000),
        (Notify.BURST, Put(messages=100, coming=5_000), 5_000),
        (Notify.BURST, Put(messages=50, coming=50, before=7), 50),
        (Notify.FIRST, Put(messages=100, coming=5_000, before=0), 5_000),
        (Notify.FIRST, Put(messages=100, coming=4_900, before=1), 0),
        (Notify.DEPTH, Put(messages=100, coming=5_000, before=0), 100),
        (Notify.DEPTH, Put(messages=50, coming=5_000, before=20), 0),
        (Notify.DEPTH, Put(messages=1, coming=1, before=99), 100),
        (Notify.DEPTH, Put(messages=100, coming=5_000, before=950), 1_050),
        (Notify.DEPTH, Put(messages=100, coming=5_000, before=2_000), 0),
    ],
)
def test_whom_a_put_wakes(policy, put, expected):
    """Each policy of Mizonov, over plain data: the depth that permits are sent for."""
    assert choose_slots(policy, put, fleet().count_wanted) == expected


@pytest.mark.parametrize(
    ("policy", "permits", "requests"),
    # Permits, and requests beside them: a look at the depth, or at the slots that are held.
    [(Notify.EACH, 300, 0), (Notify.BURST, 25, 1), (Notify.FIRST, 25, 2), (Notify.DEPTH, 13, 2)],
)
def test_what_a_policy_costs_on_an_idle_app(policy, permits, requests):
    """The first 300 of 5,000 messages: as many permits as the policy says, and no more requests than it needs."""
    stage = Stage()
    with stage.notifier(policy)(300, 5_000):
        stage.put(300)
    assert len(stage.bus.sent) == permits
    assert stage.slots.requests + len(stage.queue.requests) == requests


def test_only_slots_that_nobody_runs_are_woken():
    """A second batch of the same dispatch wakes those that have ended, not those that run."""
    stage = Stage()
    leases = [stage.slots.lease(slot) for slot in range(20)]
    with stage.notifier()(100, 4_900):
        pass
    assert [permit.slot for permit in stage.bus.sent] == [20, 21, 22, 23, 24]
    assert len(leases) == 20


def test_a_put_whose_slots_are_all_held_wakes_a_spare_one_as_their_holders_may_be_dead():
    """A killed one holds its slot for seconds more. One spare permit arrives behind each put, and few are sent."""
    stage = Stage()
    stage.slots.lease(0)
    sent = []
    for _ in range(5):
        with stage.notifier()(1, 1):
            stage.put(1)
        sent.append((len(stage.bus.sent), stage.bus.seconds))
        stage.clock.advance(0.5)
    # The second put has a permit that comes in two seconds, and those behind it share that one.
    assert sent == [(1, 0.0), (2, 1.5), (2, 1.5), (2, 1.5), (3, 2.0)]
    assert [permit.slot for permit in stage.bus.sent] == [1, 1, 1]
    assert stage.drain().run(stage.bus.sent[0]) is Drained.GAVE_UP
    assert len(stage.handled) == 5


@pytest.mark.parametrize(("cap", "held"), [(4, [0]), (1_000, [0, 1, 2])])
def test_no_spare_slot_is_woken_beyond_the_cap_or_beside_two_others(cap, held):
    """The rule says how many tasks run: more than two slots above it are no net, and none is above the cap."""
    stage = Stage(cap=cap)
    for slot in held:
        stage.slots.lease(slot)
    with stage.notifier()(1, 1):
        stage.put(1)
    assert stage.bus.sent == []


@pytest.mark.parametrize("when", list(When))
def test_the_side_of_the_put(when):
    """Before it an instance starts while messages are put; after it none comes too early."""
    stage = Stage()
    with stage.notifier(when=when)(10, 10):
        assert bool(stage.bus.sent) == (when is When.BEFORE)
    assert len(stage.bus.sent) == 3


def test_a_put_that_fails_wakes_nobody():
    """Nobody is to come for what is not there."""
    stage = Stage()
    with pytest.raises(StorageUnavailableError), stage.notifier()(10, 10):
        raise StorageUnavailableError("injected")
    assert stage.bus.sent == []


@pytest.mark.parametrize("policy", [Notify.BURST, Notify.DEPTH])
def test_a_put_is_made_although_nobody_can_be_woken(policy):
    """What goes wrong with permits is the tick's to make good."""
    stage = Stage()

    def silent():
        raise StorageUnavailableError("injected")

    stage.slots.list_held = stage.queue.depth = silent
    with stage.notifier(policy)(10, 10):
        stage.put(10)
    assert (stage.bus.sent, stage.queue.peek()) == ([], 10)


def test_the_tick_tops_up_what_is_wanted_and_free():
    """Every permit was lost: the tick sends those of the slots that nobody runs; with nothing to do it asks nothing."""
    stage = Stage()
    assert (stage.top_up(), stage.slots.requests) == (0, 0)
    stage.put(60)
    stage.slots.lease(1)
    stage.top_up()
    assert [permit.slot for permit in stage.bus.sent] == [0, 2]
    for permit in stage.bus.sent:
        stage.drain().run(permit)
    assert stage.queue.depth() == 0


def test_a_permit_tells_what_is_there_and_not_what_is_coming():
    """A receive asks for its share: told of thousands, the first tasks would take all of the first hundred."""
    stage = Stage()
    with stage.notifier()(100, 5_000):
        stage.put(100)
    permits = stage.bus.sent
    assert {(permit.depth, permit.tasks) for permit in permits} == {(100, stage.fleet.count_wanted(5_000))}
