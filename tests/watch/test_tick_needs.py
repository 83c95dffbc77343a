"""The needs that the steps of a tick find: no request while nothing changes, and none that stands for ever."""

from datetime import timedelta

from shared.errors import StorageUnavailableError
from shared.watch import NeedKind, Standing, TickNeeds
from tests.ledger.builders import NOON
from tests.watch.conftest import Clock, Noted

GATE = NeedKind.GATE_HOLDS


class Ticks:
    """Processes that tick over one watch."""

    def __init__(self):
        self.noted, self.clock = Noted(), Clock()

    def process(self):
        """Return what one more process knows."""
        return TickNeeds(self.noted, self.clock)

    def learn(self, needs):
        """Read the needs, as a tick does at the full hour."""
        needs.learn(Standing(list(self.noted.stands.values())))


def test_a_need_costs_a_request_when_it_begins_changes_and_ends():
    """And none in the ticks between."""
    ticks = Ticks()
    needs = ticks.process()
    for _ in range(5):
        needs.judge(GATE, "nihgtly", "it holds work")
    assert ticks.noted.requests == 1
    needs.judge(GATE, "nihgtly", "it holds work. Did you mean nightly?")
    for _ in range(5):
        needs.judge(GATE, "nihgtly", "")
    assert (ticks.noted.requests, ticks.noted.stands) == (3, {})


def test_it_keeps_since_when_and_is_told_again_each_hour():
    """A reader sees when it was last found so."""
    ticks = Ticks()
    needs = ticks.process()
    for minute in range(0, 181, 5):
        ticks.clock.at = NOON + timedelta(minutes=minute)
        needs.judge(GATE, "x", "it holds work")
    (need,) = ticks.noted.stands.values()
    assert (need.since, need.at, ticks.noted.requests) == (NOON, NOON + timedelta(hours=3), 4)
    assert need.until == NOON + timedelta(hours=5)


def test_another_process_ends_what_one_has_begun():
    """From the next full hour on, because it has read it."""
    ticks = Ticks()
    one, other = ticks.process(), ticks.process()
    one.judge(GATE, "x", "it holds work")
    other.judge(GATE, "x", "")
    assert len(ticks.noted.stands) == 1
    ticks.learn(other)
    other.judge(GATE, "x", "")
    assert ticks.noted.stands == {}


def test_what_no_step_tells_for_two_hours_is_over():
    """The process that found it has ended, and what it found is not looked at any more."""
    ticks = Ticks()
    ticks.process().judge(GATE, "x", "it holds work")
    ticks.process().stand("k-order-unsettled", "o-1", "payment p-1 confirmed nothing", is_grave=False)
    later = ticks.process()
    ticks.clock.at = NOON + timedelta(hours=2)
    ticks.learn(later)
    assert len(ticks.noted.stands) == 2
    ticks.clock.at += timedelta(seconds=1)
    ticks.learn(later)
    assert ticks.noted.said() == {"order unsettled o-1": "payment p-1 confirmed nothing"}


def test_a_step_that_saw_everything_ends_the_rest():
    """Of its own kind alone."""
    ticks = Ticks()
    needs = ticks.process()
    needs.judge(NeedKind.GATE_UNREADABLE, "b", "torn")
    needs.judge_all(GATE, {"a": "holds", "b": "holds"}, is_grave=False)
    needs.judge_all(GATE, {"b": "holds"}, is_grave=False)
    assert sorted(ticks.noted.said()) == ["gate holds b", "gate unreadable b"]


def test_without_an_answer_the_next_tick_does_it():
    """Nothing fails, and what was not written counts as unknown."""
    ticks = Ticks()
    needs = ticks.process()
    begin, end = ticks.noted.begin, ticks.noted.end

    def fail(*_given):
        raise StorageUnavailableError("down")

    ticks.noted.begin = fail
    needs.judge(GATE, "x", "it holds work")
    ticks.noted.begin = begin
    needs.judge(GATE, "x", "it holds work")
    ticks.noted.end = fail
    needs.judge(GATE, "x", "")
    ticks.noted.end = end
    assert len(ticks.noted.stands) == 1
    needs.judge(GATE, "x", "")
    assert ticks.noted.stands == {}
