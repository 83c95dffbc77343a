"""Transactions that wait for a service: called again later, kept apart from faults, and parked at last."""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from shared.errors import Later, PutOffError
from shared.messages import encode
from shared.parked.entry import EntryState, chunk_key, job_note
from shared.parked.parking import mark_again
from shared.parked.poison_policy import DEFAULT_POLICY
from shared.telemetry import events
from shared.workloads import Line
from shared.workloads.isolate import DELIVERY_SECONDS, LONGEST_PAUSE, MOST_IN_A_ROW
from tests.faults.memory.storage import MemoryStorage
from tests.process.test_aside import replays
from tests.process.world import NOON, MemoryWorld, Sales

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
    """A chunk, and a host that delivers it again and again."""

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
        """The words about the chunk, for a person."""
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
    warned = told(events.TRANSACTIONS_STALLED)
    assert len(warned) == DEFAULT_POLICY.later - 6
    assert (warned[0]["left"], warned[0]["kind"]) == (1, "TimeoutError")


@pytest.mark.parametrize("kind", [Bank, SlowBank])
@pytest.mark.parametrize(("items", "ended"), [(150, 30), (150, 0), (10, 0), (1, 0)])
def test_three_hours_without_the_service_park_nothing(items, ended, kind):
    """A process tries it by one call at a time, ever more seldom."""
    night = Night(items, kind)
    night.workload.answers = lambda number: ConnectionRefusedError() if number >= 100 + ended else None
    counts = night.run(3 * HOUR)
    assert (night.entry, night.aside, night.sent) == (None, None, [])
    assert max(counts[1:]) <= min(items, MOST_IN_A_ROW + CONCURRENCY)
    assert sum(counts) - ended <= MOST_IN_A_ROW + CONCURRENCY + len(counts) * min(items, MOST_IN_A_ROW)
    assert night.pauses == sorted(night.pauses)
    assert (night.pauses[0], *{*night.pauses[5:]}) == (30, LONGEST_PAUSE)
    night.workload.answers = lambda _number: None
    night.run()
    assert night.sent[-1].accepted.items == items
    assert {number for _, number in night.workload.calls} == set(range(100, 100 + items))


@pytest.mark.parametrize("kind", [Bank, SlowBank])
def test_a_service_that_says_when_gets_no_call_before(kind):
    """It answers 429 with Retry-After 7 to one call, and the process leaves it alone for 7 s. No answer is lost."""
    night, said = Night(50, kind), []

    def answer(number):
        if number == 120 and not said:
            said.append(night.clock.monotonic())
            return Later(7, "bank: 429")
        return None

    night.workload.answers = answer
    assert night.run() == [51]
    assert night.sent[-1].accepted.items == 50
    calls = [at - said[0] for at, _ in night.workload.calls]
    assert not [after for after in calls if 0 < after < 7]
    assert max(calls) >= 7


@pytest.mark.parametrize("kind", [Bank, SlowBank])
def test_a_service_that_says_later_to_all_parks_nothing(kind):
    """For three hours it answers 429. Its time is obeyed, and calls stay few."""
    night = Night(500, kind)
    night.workload.answers = lambda number: Later(600 if number % 3 else 20, "bank: 429") if number >= 200 else None
    counts = night.run(3 * HOUR)
    assert (night.entry, night.aside, night.sent) == (None, None, [])
    assert max(counts[1:]) <= MOST_IN_A_ROW + CONCURRENCY
    night.workload.answers = lambda _number: None
    night.run()
    assert night.sent[-1].accepted.items == 500


def test_a_person_reads_what_waits_for_what():
    """The chunk has failed at nothing."""
    night = Night(10)
    night.workload.answers = lambda number: Later(90, "bank: 429") if number in {105, 106} else None
    night.run(1)
    assert night.words == "2 of 10 wait for bank: 429, again at 12:01:30, 1st time"
    night.run(1)
    assert night.words == "2 of 10 wait for bank: 429, again at 12:03:00, 2nd time"
    slow = Night(10)
    slow.workload.answers = timing_out(103)
    slow.run(1)
    with slow.process() as process:
        (one,) = process.attempts.list_failures(slow.job)
    assert re.fullmatch(r"1 of 10 waits for TimeoutError at .*, again at 12:00:30, 1st time", one.words)


@pytest.mark.parametrize("kind", [Bank, SlowBank])
def test_a_delivery_ends_after_a_minute_and_the_rest_comes_at_once(kind):
    """A call takes a second: a chunk of 200 ends in four deliveries, and calls each once."""
    night = Night(200, kind)
    night.workload.seconds = 1.0
    if kind is SlowBank:
        # One that waits for nothing runs to its end. One of which a call waited is bound by the same minute.
        night.workload.answers = lambda number: Later(1) if len(night.workload.calls) in {1, 61, 121, 181} else None
    counts = night.run()
    assert max(counts) <= DELIVERY_SECONDS + CONCURRENCY
    assert len({number for _, number in night.workload.calls}) == 200
    assert set(night.pauses) == {0}
    assert night.sent[-1].accepted.items == 200


@pytest.mark.parametrize("seconds", [-1, 366 * 86_400, float("nan"), "7"])
def test_a_wrong_later_is_a_fault_that_says_what_is_wrong(seconds):
    """Its entry quotes the number, and what was expected."""
    night = Night(10)
    night.workload.answers = lambda number: Later(seconds) if number == 103 else None
    for count in range(1, DEFAULT_POLICY.deliveries):
        with pytest.raises((ValueError, TypeError), match="expected seconds as a number from 0 to 86400"):
            night.deliver(count)
    night.deliver(DEFAULT_POLICY.deliveries)
    assert night.aside.reason == "failed:ValueError"
    assert f"Later was given {seconds!r}" in night.aside.found


def test_a_fault_beside_one_that_waits_has_its_tries():
    """Both are parked at last, and the others are accepted. Deliveries that were put off are no tries of the fault."""
    night = Night(20)
    night.workload.answers = {103: KeyError("a"), 107: TimeoutError()}.get
    night.run()
    assert (night.aside.items, night.sent[-1].accepted.items, night.entry) == (2, 18, None)
    assert {number for _, number in night.workload.calls[20:]} == {103, 107}


def test_a_fault_after_an_outage_has_all_its_tries():
    """The deliveries of the outage are not its own."""
    night = Night(20)
    night.workload.answers = lambda _number: ConnectionResetError()
    night.run(HOUR)
    night.workload.answers = lambda number: KeyError("a") if number == 103 else None
    tries = 0
    while night.aside is None:
        night.deliveries += 1
        tries += 1
        try:
            night.deliver(night.deliveries)
        except PutOffError as early:
            tries -= 1
            night.clock.advance(early.seconds)
        except KeyError:
            night.clock.advance(30)
    assert tries >= DEFAULT_POLICY.deliveries - 1


def test_an_outage_of_a_day_parks_the_chunk_and_its_replay_calls_the_rest():
    """The outcome of the others stays."""
    night = Night(50)
    night.workload.answers = lambda number: ConnectionResetError() if number >= 120 else None
    night.run(48 * HOUR)
    assert night.entry.reason == "later:ConnectionResetError"
    assert night.clock.at - NOON < timedelta(hours=25)
    before, night.workload.answers = len(night.workload.calls), lambda _number: None
    with night.process() as process:
        process.parked.change(night.entry, replace(night.entry, state=EntryState.REPLAYED))
    night.clock.advance(2 * LONGEST_PAUSE)
    night.deliver(body=mark_again(night.body))
    assert len(night.workload.calls) - before == 30
    assert night.sent[-1].accepted.items == 50


def test_a_message_of_many_deliveries_keeps_few_columns():
    """A row of storage takes 252, and an outage of a night has more deliveries."""
    night = Night(1)
    night.workload.answers = lambda _number: ConnectionResetError()
    night.deliveries = 400
    night.run(HOUR)
    with night.process() as process:
        (one,) = process.attempts.list_failures(night.job)
    assert one.deliveries == night.deliveries


def test_a_replay_of_what_was_set_aside_keeps_what_passes():
    """Of two that were parked one passes, and is not called again while the other waits."""
    night = Night(20)
    night.workload.answers = lambda number: KeyError("a") if number in {103, 107} else None
    for count in range(1, DEFAULT_POLICY.deliveries + 1):
        with suppress(KeyError):
            night.deliver(count)
    night.settle()
    before = len(night.workload.calls)
    night.workload.answers = lambda number: TimeoutError() if number == 107 else None
    body = replays(night)
    for count in (1, 2, 3):
        with pytest.raises(PutOffError) as put_off:
            night.deliver(count, body=body)
        night.clock.advance(put_off.value.seconds)
    night.workload.answers = lambda _number: None
    night.deliver(4, body=body)
    assert [number for _, number in night.workload.calls[before:]] == [103, 107, 107, 107, 107]
    assert night.sent[-1].accepted.items == 20


def test_a_chunk_that_makes_lines_waits_with_one_call_a_try():
    """Its lines are kept with the rest of its outcome, and one is parked by itself."""
    night = Night(12)
    night.workload.answers = timing_out(103)
    night.workload.lines = lambda sale, number, _value: [Line({"number": number, "shop": sale.shop})]
    night.body = encode(structs.replace(night.message, lines=True, v=3))
    counts = night.run()
    assert (night.aside.reason, night.entry) == ("later:TimeoutError", None)
    assert counts == [12] + [1] * (DEFAULT_POLICY.later - 1)
    assert night.sent[-1].accepted.items == 11


def test_a_suspect_waits_with_one_call_a_try():
    """In a process of its own, and one is parked by itself."""
    night = Night(12)
    night.workload.answers = timing_out(103)
    night.deliveries = 2
    with night.process() as process:
        process.attempts.note_begun(job_note(night.job, chunk_key(0, 1)), 2)
    counts = night.run()
    assert (night.aside.reason, night.entry) == ("later:TimeoutError", None)
    assert counts == [12] + [1] * (DEFAULT_POLICY.later - 1)
