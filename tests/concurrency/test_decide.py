"""Decisions: the smallest of three terms, damped, for every input that hypothesis can think of."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.azure.pushback import LEAST, QUIET, Governor
from shared.concurrency.fleet import BUDGET, GOVERNOR, RULE, decide_tasks
from shared.concurrency.rules import Observation, Ratio, Rule, Rules, RuleStep
from tests.concurrency.test_rules import observations, some_rules

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
shares = st.builds(Governor, st.floats(LEAST, 1.0))
governors = st.dictionaries(st.sampled_from(["storage", "bus"]), shares)
budgets = st.one_of(st.none(), st.integers(0, 300))
inputs = st.tuples(some_rules, observations, governors, budgets)
EACH = Rules(1, (Rule("each", (), Ratio(1)),))
TWENTY = Rules(1, (Rule("twenty", (), RuleStep(20)),))


def at(seconds):
    """Return a moment."""
    return NOW + timedelta(seconds=seconds)


def fleet(depth, **known):
    """Return an observation."""
    return Observation(depth=depth, **known)


@given(st.lists(inputs, min_size=1, max_size=8), st.integers(1, 90))
def test_a_decision_is_within_every_term_and_says_why(history, seconds):
    """No term but the rules' own is ever exceeded, and each decision has its terms, its binding one and its reason."""
    previous = None
    for number, given_ in enumerate(history):
        previous = decide_tasks(*given_, previous, at(number * seconds))
        pressing = [term for name, term in previous.terms.items() if name != RULE and term is not None]
        assert previous.tasks <= min(pressing)
        assert set(previous.terms) == {RULE, GOVERNOR, BUDGET}
        assert previous.terms[previous.binding] == min(term for term in previous.terms.values() if term is not None)
        assert previous.reason


@given(st.lists(inputs, max_size=8))
def test_decisions_can_be_replayed(history):
    """The same observations give the same decisions."""

    def run():
        made = [None]
        for number, given_ in enumerate(history):
            made.append(decide_tasks(*given_, made[-1], at(number)))
        return made

    assert run() == run()


@given(inputs)
def test_the_first_decision_is_the_smallest_term(given_):
    """With nothing before it there is nothing to be damped."""
    decision = decide_tasks(*given_, None, NOW)
    assert decision.tasks == min(term for term in decision.terms.values() if term is not None)


def test_empty_queues_end_all_tasks_and_work_starts_them_again_at_once():
    """0, what the rules want, 0: whatever was decided just before."""
    none = decide_tasks(TWENTY, fleet(0), {}, None, None, NOW)
    some = decide_tasks(TWENTY, fleet(5000), {}, None, none, at(1))
    gone = decide_tasks(TWENTY, fleet(0), {}, None, some, at(2))
    again = decide_tasks(TWENTY, fleet(5000), {}, None, gone, at(3))
    assert [one.tasks for one in (none, some, gone, again)] == [0, 20, 0, 20]
    assert none.reason == "the queues are empty"


def test_pressure_leaves_a_quiet_time():
    """After a 503 lowered it, nothing grows for a while, and then it does."""
    full = decide_tasks(TWENTY, fleet(900), {}, None, None, NOW)
    pressed = decide_tasks(TWENTY, fleet(900), {"storage": Governor(0.1)}, None, full, at(1))
    early = decide_tasks(TWENTY, fleet(900), {"storage": Governor()}, None, pressed, at(5))
    later = decide_tasks(TWENTY, fleet(900), {"storage": Governor()}, None, early, at(12))
    assert [one.tasks for one in (full, pressed, early, later)] == [20, 10, 10, 20]
    assert pressed.binding == GOVERNOR
    assert "storage pushes back" in pressed.reason
    assert "quiet time" in early.reason


def test_a_rule_that_lowers_it_leaves_no_quiet_time():
    """Less work is no pressure: the next burst is not made to wait."""
    full = decide_tasks(EACH, fleet(80), {}, None, None, NOW)
    less = decide_tasks(EACH, fleet(10), {}, None, full, at(1))
    assert decide_tasks(EACH, fleet(90), {}, None, less, at(2)).tasks == 90


def test_a_small_change_is_none():
    """One message more or less moves no fleet."""
    ninety = decide_tasks(EACH, fleet(90), {}, None, None, NOW)
    assert [decide_tasks(EACH, fleet(depth), {}, None, ninety, at(60)).tasks for depth in (95, 85, 99, 82)] == [
        90,
        90,
        99,
        90,
    ]
    assert decide_tasks(EACH, fleet(80), {}, None, ninety, at(60)).tasks == 80


def test_other_rules_lower_it_at_once_however_little():
    """An operator who writes 19 gets 19, and not one more because the step is small."""
    nineteen = Rules(2, (Rule("nineteen", (), RuleStep(19)),))
    twenty = decide_tasks(TWENTY, fleet(500), {}, None, None, NOW)
    assert decide_tasks(nineteen, fleet(500), {}, None, twenty, at(1)).tasks == 19


def test_the_budget_is_a_term_like_the_others():
    """What is left of the day's money caps the tasks, down to none."""
    decision = decide_tasks(TWENTY, fleet(900), {}, 0, None, NOW)
    assert (decision.tasks, decision.binding) == (0, BUDGET)
    assert "budget" in decision.reason


# The governor.


@given(st.lists(st.tuples(st.floats(0, 120), st.sampled_from(["slow", "busy", "idle"])), max_size=60))
def test_a_governor_stays_within_its_bounds(history):
    """Never above the full rate, never at nothing, and it grows by use alone."""
    governor, now = Governor(), NOW
    for seconds, what in history:
        now += timedelta(seconds=seconds)
        before = governor
        governor = before.slow(now) if what == "slow" else before.grow(now, is_in_use=what == "busy")
        assert LEAST <= governor.share <= 1
        assert governor.limit(1) == 1
        if what == "idle":
            assert governor.share == before.share
        if what == "slow":
            assert governor.share <= before.share
            assert governor.grow(now + QUIET, is_in_use=True).share == governor.share


def test_a_burst_of_refusals_counts_once():
    """Thirty requests that were on their way together are one push-back."""
    governor = Governor()
    for tenth in range(10):
        governor = governor.slow(at(tenth / 10))
    assert governor.share == 0.5


def test_a_storm_of_a_minute_is_over_half_a_minute_after_its_end():
    """It falls to the least, and with work to do it is back at the full rate within twenty seconds."""
    governor = Governor()
    for second in range(61):
        governor = governor.slow(at(second))
    assert governor.share == LEAST
    second = 60
    while not governor.is_full:
        second += 1
        governor = governor.grow(at(second), is_in_use=True)
    assert second <= 80
    assert governor.limit(100) == 100


def test_retry_after_is_believed_within_bounds():
    """No growth before the service said so, and no service stops everything for an hour."""
    governor = Governor().slow(NOW, timedelta(seconds=40))
    assert governor.grow(at(39), is_in_use=True).share == governor.share
    assert governor.grow(at(42), is_in_use=True).share > governor.share
    endless = Governor().slow(NOW, timedelta(hours=1))
    assert endless.grow(at(320), is_in_use=True).is_full


def test_the_newer_view_of_a_resource_wins():
    """Two processes that saw one storm agree on its last push-back."""
    early, late = Governor().slow(NOW), Governor().slow(at(5))
    assert early.after(late) is late
    assert late.after(early) is late
    assert Governor().after(early) is early
