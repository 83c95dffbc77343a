"""When a call of a service may begin, and what its end means for those behind it."""

import pytest

from shared.dequeue.work_queue import AGAIN_AFTER
from shared.errors import HaltedError, Later, NotCalledError
from shared.pipeline.halts import DRAINS
from shared.workloads.isolate import FIRST_PAUSE, LONGEST_PAUSE, MOST_IN_A_ROW, Calls, Service, pause_after
from tests.dequeue.memory_queue import ManualClock


class Desk:
    """Deliveries of one process, on a clock that its waits move."""

    def __init__(self):
        self.clock, self.service, self.halted = ManualClock(), Service(), False

    def calls(self, seconds=60.0, turns=None):
        """Return those of one more delivery."""
        return Calls(self.service, turns, lambda: self.halted, self.clock.monotonic, self.clock.advance, seconds)

    def fail(self, calls, times=1, error=TimeoutError):
        """Have calls fail, one after the other."""
        for number in range(times):
            with pytest.raises(error):
                calls.call(lambda *_: (_ for _ in ()).throw(error()), None, number)


def test_after_twenty_failures_the_service_rests_and_then_one_call_tries_it():
    """Each further failure makes the rest twice as long, for all deliveries of the process. An answer ends it."""
    desk = Desk()
    calls = desk.calls()
    desk.fail(calls, MOST_IN_A_ROW - 1)
    assert (calls.is_outage, calls.rest) == (False, 0)
    desk.fail(calls)
    for rest in (30, 60, 120, 240, 300, 300):
        assert (calls.is_outage, calls.rest) == (True, rest)
        with pytest.raises(NotCalledError):
            desk.calls().begin()
        desk.clock.advance(rest)
        calls, beside = desk.calls(), desk.calls()
        assert calls.begin()
        # The second one waits for the end of the first.
        assert not beside.begin()
        desk.service.note_failure(TimeoutError(), desk.clock.monotonic(), desk.clock.monotonic(), beside._before)
    desk.clock.advance(300)
    assert desk.calls().call(lambda *_: 7, None, 1) == 7
    assert desk.calls().are_free


def test_failures_with_answers_between_are_no_outage():
    """Some transactions are never answered, and the service is well."""
    desk = Desk()
    calls = desk.calls()
    for _ in range(5):
        desk.fail(calls, MOST_IN_A_ROW - 1)
        calls.call(lambda *_: None, None, 1)
    assert not calls.is_outage


def test_failures_of_deliveries_before_make_no_outage():
    """Two that are never answered fail alone in each delivery, for long enough to be twenty."""
    desk = Desk()
    for _ in range(MOST_IN_A_ROW):
        calls = desk.calls()
        desk.fail(calls, 2)
        assert not calls.is_outage


def test_a_later_of_one_call_holds_all_back_and_is_no_outage():
    """Of those that were under way, none counts again."""
    desk = Desk()
    calls = desk.calls()
    for _ in range(MOST_IN_A_ROW - 1):
        desk.service.note_failure(Later(7), desk.clock.monotonic(), desk.clock.monotonic(), calls._before)
    assert (calls.rest, calls.is_outage, desk.service.rests) == (7, False, 0)
    assert not calls.begin()
    desk.clock.advance(7)
    assert calls.begin()


def test_a_short_later_is_awaited_and_a_long_one_is_not():
    """In the time of this delivery."""
    desk, ends = Desk(), [Later(5), Later(20, "bank: 429"), 7]
    began = desk.clock.monotonic()
    assert desk.calls().call(lambda *_: ends.pop(0), None, 1) == 7
    assert desk.clock.monotonic() - began == 25
    with pytest.raises(Later, match="bank: 429"):
        desk.calls().call(lambda *_: Later(61, "bank: 429"), None, 1)


@pytest.mark.parametrize("change", [lambda desk: desk.clock.advance(60), lambda desk: setattr(desk, "halted", True)])
def test_no_call_begins_after_the_end(change):
    """Of the delivery's minute, or of its job."""
    desk = Desk()
    calls = desk.calls()
    assert calls.begin()
    change(desk)
    with pytest.raises((NotCalledError, HaltedError)):
        calls.begin()


def test_the_pauses_fit_those_around_them():
    """The first is that of any failure. The longest ends before a halt row may go, and a tick looks for lost chunks."""
    assert FIRST_PAUSE == AGAIN_AFTER
    assert DRAINS.total_seconds() >= 2 * LONGEST_PAUSE
    assert [pause_after(tries) for tries in (1, 2, 3, 4, 5, 99)] == [30, 60, 120, 240, 300, 300]
