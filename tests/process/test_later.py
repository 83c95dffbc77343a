"""Transactions that wait for a service: called again later, kept apart from faults, and parked at last."""

import asyncio

import pytest

from shared.errors import Later, PutOffError
from shared.parked.entry import EntryState
from shared.parked.poison_policy import DEFAULT_POLICY
from shared.telemetry import events
from shared.workloads.calls import DELIVERY_SECONDS, LONGEST_PAUSE, MOST_IN_A_ROW
from tests.faults.memory.storage import MemoryStorage
from tests.process.world import MemoryWorld, Sales

CONCURRENCY = 32
HOUR = 3600


class Bank(Sales):
    """Calls a service for each sale, which a test has answer."""

    concurrency = CONCURRENCY

    def __init__(self, clock):
        super().__init__()
        self.clock, self.calls, self.answers, self.seconds = clock, [], lambda _number: None, 0.0

    async def map(self, sale, number):
        """Call, which takes so many seconds of this clock."""
        self.calls.append((self.clock.monotonic(), number))
        await asyncio.sleep(0)
        self.clock.advance(self.seconds)
        answer = self.answers(number)
        if isinstance(answer, Later) and number % 2:
            return answer
        if answer is not None:
            raise answer
        return super().map(sale, number)


class SlowBank(Bank):
    """Its calls wait for each other."""

    def map(self, sale, number):
        """Do the same without a loop."""
        self.calls.append((self.clock.monotonic(), number))
        self.clock.advance(self.seconds)
        answer = self.answers(number)
        if answer is not None:
            raise answer
        return Sales.map(self, sale, number)


class Night(MemoryWorld):
    """A chunk, and a host that delivers it as it is wanted."""

    def __init__(self, items, kind=Bank):
        super().__init__(MemoryStorage(), [f'{{"shop":"s{n % 3}","amount":"1.00"}}'.encode() for n in range(items)])
        self.workload, self.deliveries, self.pauses = kind(self.clock), 0, []

    def run(self, seconds=24 * HOUR, process=None):
        """Deliver the chunk until it is done or parked, or for so long. Return the calls of each delivery."""
        until, counts = self.clock.monotonic() + seconds, []
        with self.process() as living:
            while self.clock.monotonic() < until:
                self.deliveries, before = self.deliveries + 1, len(self.workload.calls)
                try:
                    living.deliver(self.body, self.deliveries)
                except PutOffError as error:
                    counts.append(len(self.workload.calls) - before)
                    self.pauses.append(error.seconds)
                    self.clock.advance(max(error.seconds, 1))
                    continue
                counts.append(len(self.workload.calls) - before)
                return counts
        return counts

    @property
    def words(self):
        """What a person reads of the chunk."""
        with self.process() as process:
            (one,) = process.attempts.list_failures(self.job)
            return one.words


def timing_out(*bad):
    """Return the answers of a service that does not answer these."""
    return lambda number: TimeoutError() if number in bad else None


@pytest.mark.parametrize("kind", [Bank, SlowBank])
def test_one_that_always_times_out_costs_eleven_calls_more_and_is_parked(kind, told):
    """Of 500, the other 499 are called once. A person is warned before."""
    night = Night(500, kind)
    night.workload.answers = timing_out(590)
    counts = night.run()
    assert sum(counts) == len(night.workload.calls) == 511
    assert (night.aside.state, night.aside.reason, night.entry) == (EntryState.OPEN, "later:TimeoutError", None)
    assert night.sent[-1].accepted.items == 499
    assert night.pauses == [30, 60, 120, 240, *[300] * 7]
    warned = told(events.TRIED_TOO_LONG)
    assert len(warned) == DEFAULT_POLICY.later - 6
    assert (warned[0]["left"], warned[0]["kind"]) == (1, "TimeoutError")


@pytest.mark.parametrize("kind", [Bank, SlowBank])
@pytest.mark.parametrize(("items", "ended"), [(500, 100), (500, 0), (10, 0), (1, 0)])
def test_three_hours_without_the_service_park_nothing(items, ended, kind):
    """A process tries it by one call at a time, ever more seldom."""
    night = Night(items, kind)
    night.workload.answers = lambda number: ConnectionRefusedError() if number >= 100 + ended else None
    counts = night.run(3 * HOUR)
    assert (night.entry, night.aside, night.sent) == (None, None, [])
    assert max(counts[1:]) <= min(items, MOST_IN_A_ROW + CONCURRENCY)
    assert sum(counts) - ended <= MOST_IN_A_ROW + CONCURRENCY + len(counts) * min(items, MOST_IN_A_ROW)
    assert night.pauses[:4] == [30, 60, 120, 240]
    assert set(night.pauses[4:]) == {LONGEST_PAUSE}
    night.workload.answers = lambda _number: None
    night.run()
    assert night.sent[-1].accepted.items == items
    assert {number for _, number in night.workload.calls} == set(range(100, 100 + items))
