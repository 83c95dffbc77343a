"""The bed for a process under trial: the page's own test is held by it, and it shows what a stack would show late."""

from dataclasses import replace
from datetime import timedelta
from importlib import import_module

import pytest

from sluice.processes import Event, ProcessDecision, Timeout
from sluice.testing import ProcessBed
from tests.own_returns import add_returns


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The process of the page, and its test."""
    add_returns(tmp_path / "own", monkeypatch)
    test = import_module("own.returns.test_returns").test_a_late_answer_changes_nothing
    return import_module("own.returns.process"), test


def test_the_test_of_the_page_passes(page):
    """As it stands."""
    page[1]()


def test_the_test_of_the_page_finds_a_process_that_heeds_late_answers(page, monkeypatch):
    """It fails for a process that goes by no generation."""
    process, test = page
    hear = process.Returns.hear
    monkeypatch.setattr(process.Returns, "hear", lambda self, state, _, now: hear(self, state, state.generation, now))
    with pytest.raises(AssertionError):
        test()


def test_the_test_of_the_page_finds_a_process_that_asks_twice_for_one_timeout(page, monkeypatch):
    """It fails, because each timeout comes twice."""
    process, test = page
    decide = process.Returns.decide

    def heedless(self, state, message, now):
        """Ask the next carrier at each timeout, also at one that came before."""
        return self.ask(state, now) if message.kind == "late" else decide(self, state, message, now)

    monkeypatch.setattr(process.Returns, "decide", heedless)
    with pytest.raises(AssertionError):
        test()


class Alarm:
    """Rings once, a while after it was set."""

    format = 1
    wait = timedelta(seconds=90)

    def upgrade(self, row, _):
        """Return the row."""
        return row

    def restore(self, row, _):
        """Return the state."""
        return dict(row or {})

    def store(self, state):
        """Return the row of the state."""
        return state

    def decide(self, state, message, now):
        """Set, stop or ring."""
        if message.kind == "set":
            due = now + self.wait
            own = (Event("set", message.body, now),)
            return ProcessDecision(state={"due": str(due)}, timeouts=(Timeout("ring", due),), own=own)
        if message.kind == "stop":
            dropped = (Timeout("ring", now.fromisoformat(state["due"])),)
            return ProcessDecision(state={}, dropped=dropped, own=(Event("stopped", {}, now),))
        if str(message.at) != state.get("due"):
            return ProcessDecision(state=state)
        return ProcessDecision(state={}, own=(Event("rang", {}, now),))


def kinds(bed):
    """Return the kinds of the events of the home."""
    return [event.kind for event in bed.events("alarm-1")]


def test_a_timeout_comes_when_it_is_due_and_not_after_it_was_dropped():
    """It comes at its own time, however far the clock moves."""
    bed = ProcessBed(Alarm())
    bed.give("alarm-1", "set")
    bed.move(timedelta(seconds=89))
    assert kinds(bed) == ["set"]
    bed.move(timedelta(hours=1))
    assert kinds(bed) == ["set", "rang"]
    assert bed.events("alarm-1")[-1].at == bed.events("alarm-1")[0].at + Alarm.wait
    bed.give("alarm-1", "set")
    bed.give("alarm-1", "stop")
    bed.move(timedelta(hours=1))
    assert kinds(bed) == ["set", "rang", "set", "stopped"]
    assert [event.version for event in bed.events("alarm-1")] == [1, 2, 3, 4]


def test_a_due_time_within_a_second_comes_at_the_whole_one_as_from_the_agenda():
    """So a process that compares the times never hears it."""
    bed = ProcessBed(Alarm())
    bed.now += timedelta(microseconds=7)
    bed.give("alarm-1", "set")
    bed.move(timedelta(hours=1))
    assert kinds(bed) == ["set"]


def test_a_state_or_a_body_that_is_no_json_is_an_error():
    """A table could not store it either."""
    bed = ProcessBed(Alarm())
    with pytest.raises(TypeError):
        bed.give("alarm-1", "set", {"at": bed.now})
    alarm = Alarm()
    alarm.store = lambda state: {"due": bed.now}
    with pytest.raises(TypeError):
        ProcessBed(alarm).give("alarm-1", "set")


def test_a_decision_that_differs_the_second_time_is_an_error():
    """It is named by its message and its home."""
    alarm, decide, waits = Alarm(), Alarm().decide, iter(range(9))

    def unsteady(state, message, now):
        decision = decide(state, message, now)
        return replace(decision, timeouts=(Timeout("ring", now + timedelta(seconds=next(waits))),))

    alarm.decide = unsteady
    with pytest.raises(AssertionError, match="two decisions of the same 'set' for 'alarm-1'"):
        ProcessBed(alarm).give("alarm-1", "set")
