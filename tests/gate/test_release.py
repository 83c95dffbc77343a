"""Waiting for a gate: by poll, by push, by both, late, early, again, and without a bus."""

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.errors import GateCorruptError, ReleaseExpiredError, StorageUnavailableError
from shared.gate.receipts import Receipt, SeenBy, spread, stragglers
from shared.gate.state import Reading
from shared.waiting import BlobGlobalFlag, ListeningRelease, PollingRelease, Release
from shared.waiting.release import BOTH, LISTENING, POLLING, lease_one
from shared.waiting.watch import FlagReading, GateFlag, Waiting, Watch
from tests.gate.conftest import NOON, ManualClock
from tests.waiting import LIMIT, until

#: An interval that never ends within a test: what is seen then was seen by a push.
NEVER = 3600.0


class Scripted:
    """A flag that says one thing after the other, and then the last one for ever."""

    name = "g"

    def __init__(self, *looks):
        self.looks, self.taken = list(looks), 0

    def look(self):
        """Return or raise the next one."""
        self.taken += 1
        said = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(said, Exception):
            raise said
        return FlagReading(said, NOON)


def closed(epoch):
    """What a look at a closed gate finds."""
    return Reading(epoch, is_open=False)


def opened(epoch):
    """What a look at an open gate finds."""
    return Reading(epoch, is_open=True)


@contextmanager
def waiting_on(flag, served=None, interval=0.001):
    """A wait over a scripted flag that is looked at as fast as the thread can."""
    watch = Watch(flag, interval)
    records = []
    yield (
        Waiting(watch, ManualClock(NOON + timedelta(seconds=3)), "node", served=served, record=records.append),
        records,
    )
    watch.close()


@pytest.mark.parametrize(
    ("served", "looks", "how", "epoch"),
    [
        (None, [opened(1)], SeenBy.START_UP, 1),
        (None, [closed(0), closed(0), opened(1)], SeenBy.POLL, 1),
        (None, [closed(0), closed(1)], SeenBy.POLL, 1),
        (None, [closed(4), closed(4), closed(5)], SeenBy.POLL, 5),
        (4, [opened(4), closed(4), opened(5)], SeenBy.POLL, 5),
        (4, [closed(6)], SeenBy.START_UP, 6),
        (0, [opened(1)], SeenBy.START_UP, 1),
    ],
    ids=["late node", "opening", "first pulse", "pulse", "next epoch only", "missed meanwhile", "never served"],
)
def test_an_opening_releases_once_and_says_how_it_was_seen(served, looks, how, epoch):
    """Whatever lies between two looks, a new epoch releases, and an old one does not."""
    with waiting_on(Scripted(*looks), served) as (waiting, records):
        receipt = waiting.wait(LIMIT)
        assert (receipt.how, receipt.epoch, receipt.lag, records) == (how, epoch, timedelta(seconds=3), [receipt])
        with pytest.raises(ReleaseExpiredError, match="gate 'g' was not opened within"):
            waiting.wait(0.02)


def test_a_timeout_raises_so_that_nobody_starts_by_mistake():
    """A wait that ends without an opening is an error, and one that callers of TimeoutError know."""
    with waiting_on(Scripted(closed(2))) as (waiting, records):
        with pytest.raises(TimeoutError, match="served so far: epoch 0"):
            waiting.wait(0)
        assert records == []


def test_an_outage_of_storage_does_not_end_a_wait():
    """Looks that get no answer are looked again, from the first one on."""
    flag = Scripted(StorageUnavailableError("x"), closed(0), StorageUnavailableError("x"), opened(1))
    with waiting_on(flag) as (waiting, _):
        assert waiting.wait(LIMIT).epoch == 1


@pytest.mark.parametrize(
    "looks", [[GateCorruptError("x")], [closed(0), GateCorruptError("x")], [closed(0), KeyError("x")]]
)
def test_a_flag_that_cannot_be_read_at_all_ends_the_wait(looks):
    """What no further look can mend is raised where somebody waits."""
    with waiting_on(Scripted(*looks)) as (waiting, _), pytest.raises(type(looks[-1])):
        waiting.wait(LIMIT)


async def test_the_async_twin_waits_without_blocking_its_loop():
    """Several waits on one loop are released by the same look, and a timeout raises."""
    with waiting_on(Scripted(closed(0), closed(0), closed(0), closed(0), opened(1))) as (waiting, _):
        receipts = await asyncio.gather(*(waiting.wait_async(LIMIT) for _ in range(3)))
        assert {receipt.epoch for receipt in receipts} == {1}
        with pytest.raises(ReleaseExpiredError):
            await waiting.wait_async(0.02)


def test_nobody_looks_while_nobody_waits():
    """A watch without waiters makes no request."""
    flag = Scripted(closed(0))
    watch = Watch(flag, 0.001)
    watch.ring()
    watch.look(SeenBy.POLL)
    watch.close()
    assert flag.taken == 0


def test_one_look_serves_everybody_who_waited_before_it():
    """Ten who wait cost one request a look, not ten."""
    flag, inboxes = Scripted(closed(0), opened(1)), [[] for _ in range(10)]
    watch = Watch(flag, None)
    joined = [watch.watch_for(inbox.append) for inbox in inboxes]
    for one in joined:
        one.__enter__()
    before = flag.taken
    watch.look(SeenBy.PUSH)
    assert flag.taken == before + 1
    assert all(inbox for inbox in inboxes)
    for one in joined:
        one.__exit__(None, None, None)
    watch.close()


@pytest.fixture
def both(stack_settings, monkeypatch):
    """Connections to storage and the bus; a listener ends within a fraction of a second, not within one."""
    monkeypatch.setattr("shared.waiting.release.RECEIVE_SECONDS", 0.1)
    with Connections.parse(stack_settings) as connections:
        yield connections


@pytest.fixture
def real(both):
    """Gates with the real clock and the real bus."""
    return Stores(both)


def waited_in_thread(release):
    """Wait in a thread, and return where the receipt will be once the wait has looked at the flag."""
    receipts, has_looked, waiting = [], threading.Event(), release._waiting
    first_look = waiting._first_reading

    def look_first():
        try:
            return first_look()
        finally:
            has_looked.set()

    waiting._first_reading = look_first
    thread = threading.Thread(target=lambda: receipts.append(release.wait(LIMIT)))
    thread.start()
    assert has_looked.wait(LIMIT)
    waiting._first_reading = first_look
    return thread, receipts


def test_a_push_releases_long_before_the_next_poll(both, real, gate):
    """The signal makes the process look; the receipt says so and is written."""
    with Release(both, gate, interval=NEVER) as release:
        until(lambda: release.mode == BOTH)
        thread, receipts = waited_in_thread(release)
        assert real.gate_operator.open(gate, by="ann").unsignalled == ""
        thread.join()
    assert receipts[0].how is SeenBy.PUSH
    assert [(one.epoch, one.how) for one in real.receipts.of_epochs(gate, 1)] == [(1, SeenBy.PUSH)]


def test_a_forged_signal_releases_nobody(both, real, gate):
    """A signal for a gate that is closed makes it look, and nothing more."""
    with Release(both, gate, interval=NEVER) as release:
        until(lambda: release.mode == BOTH)
        thread, receipts = waited_in_thread(release)
        looks = []
        real_look = release._waiting._watch.flag.look
        release._waiting._watch.flag.look = lambda: looks.append(1) or real_look()
        signals = Stores(both).gate_operator._signals
        signals.send(gate, 99)
        until(lambda: looks)
        assert receipts == []
        real.gate_operator.open(gate, by="ann")
        thread.join()
    assert receipts[0].epoch == 1


def test_one_signal_wakes_everybody_who_waits_in_a_process(both, real, gate):
    """One listener is fanned out, and each one is released once."""
    with Release(both, gate, interval=NEVER) as one, Release(both, gate, interval=NEVER) as other:
        until(lambda: one.mode == BOTH)
        waits = [waited_in_thread(release) for release in (one, other, one)]
        real.gate_operator.open(gate, by="ann")
        for thread, _ in waits:
            thread.join()
    assert [receipts[0].how for _, receipts in waits] == [SeenBy.PUSH] * 3


async def test_listening_alone_hears_a_push_and_is_not_late_for_an_open_gate(both, real, gate):
    """The listening form looks once at the start, then only when it hears something."""
    async with ListeningRelease(both, gate) as release:
        await asyncio.to_thread(until, lambda: release.mode == LISTENING)
        wait = asyncio.create_task(release.wait_async(LIMIT))
        await asyncio.to_thread(real.gate_operator.open, gate, by="ann")
        assert (await wait).how in {SeenBy.PUSH, SeenBy.START_UP}
    async with ListeningRelease(both, gate) as late:
        assert (await late.wait_async(LIMIT)).how is SeenBy.START_UP


def test_without_a_bus_it_polls_and_says_so(provisioned, gate, connections):
    """No bus is no failure: the release comes by the next poll."""
    with Connections(provisioned.connection_string) as no_bus, Release(no_bus, gate, interval=0.05) as release:
        assert (release.mode, release.problem) == (POLLING, "there is no bus")
        thread, receipts = waited_in_thread(release)
        Stores(no_bus).gate_operator.open(gate, by="ann")
        thread.join()
    assert receipts[0].how is SeenBy.POLL


def test_a_dead_bus_leaves_polling(provisioned, gate, caplog):
    """A bus that does not answer is named in the log and in `problem`."""
    nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    with Connections(provisioned.connection_string, nowhere) as dead, Release(dead, gate, interval=0.05) as release:
        until(lambda: "does not answer" in release.problem)
        assert release.mode == POLLING
        Stores(dead, clock=SystemClock()).gate_operator.open(gate, by="ann")
        assert release.wait(LIMIT).epoch == 1
    assert "sluice.listener.polling" in caplog.text


def all_free(connections):
    """Lease every subscription that is free."""
    container = connections.blobs.get_container_client("gates")
    return list(iter(lambda: lease_one(container), None))


def test_a_taken_pool_leaves_polling(both, gate):
    """The seventeenth process polls, and says why."""
    leases = all_free(both)
    try:
        assert len({one.subscription for one in leases}) == 16
        with Release(both, gate) as release:
            until(lambda: "taken by another process" in release.problem)
            assert release.mode == POLLING
    finally:
        for one in leases:
            one.lease.release()


def test_a_subscription_is_free_again_after_its_listener_ended(both, gate):
    """A process that ends well leaves its subscription to the next one at once."""
    with Release(both, gate) as release:
        until(lambda: release.mode == BOTH)
        leases = all_free(both)
        assert len(leases) == 15
    leases += all_free(both)
    assert len(leases) == 16
    for one in leases:
        one.lease.release()


def test_the_flag_of_presence_is_what_the_seed_has(connections):
    """Set is there, reset is not there, both may be repeated, and a wait on it releases each time that it is set."""
    container = connections.blobs.get_container_client("flags")
    flag = BlobGlobalFlag(container, "start-order-processing.dat")
    assert not flag.get_flag()
    flag.set_flag(False)
    with PollingRelease(flag, interval=0.02) as release:
        with pytest.raises(ReleaseExpiredError):
            release.wait(0.05)
        flag.set_flag(True)
        flag.set_flag(True)
        assert flag.get_flag()
        assert release.wait(LIMIT).epoch == 0
        assert release.wait(LIMIT).epoch == 0
        flag.set_flag(False)
        with pytest.raises(ReleaseExpiredError):
            release.wait(0.05)
    container.delete_container()


def test_polling_a_gate_misses_no_pulse(house, gate):
    """The polling form on a gate has epochs, which the flag of presence has not."""
    with PollingRelease(GateFlag(house.gates, gate), interval=0.02) as release:
        with pytest.raises(ReleaseExpiredError):
            release.wait(0)
        thread, receipts = waited_in_thread(release)
        house.gate_operator.open(gate, by="ann")
        house.gate_operator.close(gate, by="ann")
        thread.join()
    assert receipts[0].epoch == 1


def receipt(node, epoch, lag, how=SeenBy.POLL):
    """Make a receipt of a node that polls every two seconds."""
    return Receipt(
        gate="g",
        epoch=epoch,
        node=node,
        how=how,
        seen_at=NOON,
        lag=timedelta(seconds=lag),
        interval=timedelta(seconds=2),
    )


def test_receipts_tell_who_is_late_and_who_is_missing():
    """A straggler came after its interval, or was there an epoch before and has not come; a late start is none."""
    known = [
        *(receipt(f"n{n}", 1, 1) for n in range(4)),
        receipt("n0", 2, 0.5, SeenBy.PUSH),
        receipt("n1", 2, 3.5),
        receipt("n2", 2, 500, SeenBy.START_UP),
    ]
    assert stragglers(known, 2) == {"n1": "3.5 s late", "n3": "saw epoch 1, not 2"}
    assert spread(timedelta(seconds=lag) for lag in range(1, 101)).p99 == 99
    assert spread([]) is None
