"""The simulator: nothing is lost or invented, every request is counted, and the same trace gives the same figures."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

from shared.concurrency.rules import BUILT_IN, Ratio, Rule, Rules, RuleStep
from shared.concurrency.tuning import Stretch, Trace, TraceHeader, read, write
from shared.errors import TraceRefusedError
from shared.simulation.simulator import DAY, Push, Simulation, bursty_day
from shared.usage.bill import load
from tests.benchmarks import concurrency as benchmark
from tests.benchmarks.rivals import Fixed, Host, Keda, Seed

stretches = st.lists(
    st.builds(
        Stretch,
        at=st.integers(0, 86_399).map(lambda second: DAY + timedelta(seconds=second)),
        seconds=st.floats(0, 200),
        arrived=st.integers(0, 120),
        latency=st.one_of(st.none(), st.floats(0.01, 20)),
    ),
    max_size=6,
).map(lambda found: Trace(TraceHeader(), sorted(found, key=lambda one: one.at)))
#: Each runs several days.
FEW = settings(max_examples=settings.default.max_examples // 5)
FIVE = Rules(1, (Rule("five", (), RuleStep(5)),), most=5)


def one_message(hour=12):
    """Return a day with one message."""
    return Trace(TraceHeader(), [Stretch(at=DAY + timedelta(hours=hour), arrived=1, latency=1.0)])


def strategies():
    """Return one of each."""
    return [Push(BUILT_IN), Push(FIVE, "five"), Fixed(3), Host(), Keda(), Seed(BUILT_IN)]


@FEW
@given(stretches)
def test_whatever_arrives_is_worked_on_once_and_never_before_it_came(trace):
    """By every strategy; each message is put, received and deleted."""
    for strategy in strategies():
        outcome = Simulation(trace, strategy).run()
        arrived = sum(one.arrived for one in trace.stretches)
        assert outcome.messages == len(outcome.delays) == arrived
        assert all(delay >= 0 for delay in outcome.delays)
        assert outcome.count("queue") >= 2 * arrived


@FEW
@given(stretches, st.integers(1, 12), st.integers(1, 8))
def test_there_are_never_more_tasks_than_the_rules_allow(trace, most, each):
    """However often work comes, and however many permits are sent."""
    rules = Rules(1, (Rule("all", (), Ratio(1)),), most=most)
    assert Simulation(trace, Push(rules, permit_tasks=each)).run().most_tasks <= most


@FEW
@given(stretches, st.integers(0, 3))
def test_a_budget_caps_the_tasks(trace, budget):
    """Down to none: then nobody is woken, and the replay ends nevertheless."""
    outcome = Simulation(trace, Push(BUILT_IN, budget=budget)).run()
    assert outcome.most_tasks <= budget
    assert bool(outcome.messages) == bool(budget and any(one.arrived for one in trace.stretches))


def test_a_replay_is_the_same_every_time():
    """A trace and rules give one outcome."""
    day = bursty_day(3)
    assert Simulation(day, Push(FIVE)).run() == Simulation(day, Push(FIVE)).run()


def test_every_step_of_a_burst_has_a_decision_with_its_reason():
    """0, what the rules want, 0."""
    push = Push(FIVE)
    Simulation(Trace(TraceHeader(), [Stretch(at=DAY + timedelta(hours=1), arrived=5000, latency=0.1)]), push).run()
    assert [one.tasks for one in push.decisions] == [0, 5, 0] or [one.tasks for one in push.decisions] == [5, 0]
    assert all(one.reason for one in push.decisions)


def test_what_an_idle_day_costs_by_strategy():
    """Sluice ticks; the others poll, each as its algorithm says."""
    counted = {one.name: Simulation(one_message(), one).run() for one in strategies()}
    push, _five, fixed, host, keda, article = counted.values()
    ticks = 1440
    assert push.count("table") < 2 * ticks + 40
    assert push.count("queue") < 2 * (ticks // 15) + 20
    assert fixed.count() == pytest.approx(3 * 86_400, abs=10)
    assert host.count() == pytest.approx(ticks + 30, abs=30)
    assert keda.count() == pytest.approx(2880 + 40, abs=60)
    assert article.count() == pytest.approx(2 * 86_400, rel=0.01)


def test_who_polls_finds_work_within_its_interval():
    """Fixed polling within its second, the host within a minute, a permit after its flight."""
    delays = {one.name: Simulation(one_message(), one).run().delays[0] for one in strategies()}
    assert delays["fixed 1 s polling, 3 tasks"] <= 1.0
    assert delays["the Functions host's queue trigger"] <= 60.0
    assert delays["ratio of 5 messages (KEDA's defaults)"] <= 30.0
    assert delays["Sluice, push"] == pytest.approx(0.25)


def test_the_goal_is_reached_on_the_documented_day():
    """A p95 no worse than the best of the others, at least 30 % cheaper than whoever is as fast."""
    found = benchmark.verdict(*benchmark.compared(bursty_day()))
    assert found.is_reached, found.words


def test_the_synthetic_day_is_the_same_for_the_same_seed_and_says_what_it_is():
    """Nobody takes it for a recording."""
    day = bursty_day(5)
    assert day == bursty_day(5)
    assert day != bursty_day(6)
    assert (day.header.what, day.header.seed) == ("synthetic", 5)
    assert read(write(day).splitlines()) == day


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "line 1 is not a valid header"),
        ([b'{"trace":2}'], "version 2"),
        ([b'{"trace":1}', b'{"at":"soon"}'], "line 2 is not a valid stretch"),
    ],
)
def test_what_is_no_trace_is_refused(lines, said):
    """With its line."""
    with pytest.raises(TraceRefusedError, match=said):
        read(lines)


def test_the_requests_of_a_replay_are_of_kinds_that_have_a_price():
    """A request that no table prices would make a strategy look cheap."""
    names = Counter(charge.meter for charge in Simulation(bursty_day(1), Push(BUILT_IN)).run().usage)
    assert set(names) <= {*load().requests, "bus"}
