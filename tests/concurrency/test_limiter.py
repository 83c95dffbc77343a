"""Slots of a process: never more than allowed, whoever waits gets one, and nobody waits for ever."""

import threading

import pytest

from shared.concurrency.gauge import MOST_HERE, Gauge, Limiter
from shared.errors import NoSlotError
from tests.concurrency.conftest import NOON
from tests.gate.conftest import ManualClock


class Limit:
    """A limit that a test sets."""

    def __init__(self, slots):
        self.slots = slots

    def __call__(self):
        """Return it."""
        return self.slots


def run_in_threads(number, act):
    """Run it in so many threads and wait for all."""
    threads = [threading.Thread(target=act) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_no_more_work_than_allowed_and_everybody_gets_a_turn():
    """Twenty messages, three slots: the most that ever ran together is three, and all are done."""
    limiter, lock, running, seen = Limiter(Limit(3), ManualClock(NOON), look_again=0.01), threading.Lock(), [], []
    together = threading.Barrier(3)

    def work():
        with limiter.slot():
            with lock:
                running.append(1)
                seen.append(len(running))
            if len(seen) <= 3:
                together.wait(10)
            with lock:
                running.pop()

    run_in_threads(20, work)
    assert (max(seen), len(seen), limiter.taken) == (3, 20, 0)


def test_who_waits_notices_a_limit_that_grew():
    """Nobody has to end for it."""
    limit = Limit(1)
    limiter = Limiter(limit, ManualClock(NOON), look_again=0.01)
    got = threading.Event()

    def wait():
        with limiter.slot():
            got.set()

    with limiter.slot():
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.is_set()
        limit.slots = 2
        assert got.wait(10)
        waiting.join(10)


def test_a_message_is_given_back_after_the_patience():
    """It holds its lease no longer than that."""
    clock = ManualClock(NOON)

    def limit():
        clock.advance(seconds=50)
        return 1

    limiter = Limiter(limit, clock, patience=120, look_again=0.001)
    with limiter.slot(), pytest.raises(NoSlotError, match="given back"), limiter.slot():
        pass
    assert limiter.taken == 0


def test_a_limit_of_nothing_is_one():
    """A message that was delivered is not to wait for a decision that allows no task at all."""
    with Limiter(Limit(0), ManualClock(NOON)).slot():
        pass


def test_the_host_gives_a_process_no_more_than_there_are_slots():
    """The constant is what host.json says."""
    import json  # noqa: PLC0415 - one test reads a file
    from pathlib import Path  # noqa: PLC0415 - same reason

    queues = json.loads((Path(__file__).resolve().parents[2] / "host.json").read_text())["extensions"]["queues"]
    assert queues["batchSize"] + queues["newBatchThreshold"] == MOST_HERE


def test_the_gauge_counts_what_is_done_and_how_long_it_took():
    """However the work ends; the CPU is that between two readings."""
    clock, cpu = ManualClock(NOON), iter([0.0, 3.0, 3.0])
    gauge = Gauge(clock, cpu_seconds=lambda: next(cpu))

    def fail():
        with gauge.working():
            clock.advance(seconds=4)
            raise ValueError(gauge.in_flight)

    with pytest.raises(ValueError, match="1"):
        fail()
    counted = gauge.read()
    assert (counted.in_flight, counted.done, counted.busy, counted.cpu) == (0, 1, 4.0, 0.75)
    assert gauge.read().cpu is None
