"""Rules: what a text says, what is wrong with it and on which line, and what the rules ask for."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shared.concurrency.rules import (
    BUILT_IN,
    Condition,
    Observation,
    Ratio,
    Rule,
    RuleInput,
    Rules,
    RuleStep,
    TimeToDrain,
    lint,
    parse,
)
from shared.concurrency.shares import RoomShare, Shares
from shared.errors import RulesRefusedError

SAMPLE = (Path(__file__).resolve().parents[2] / "docs" / "rules.sample.yaml").read_text()
known = st.one_of(st.none(), st.floats(0, 1e6))
observations = st.builds(
    Observation,
    depth=st.integers(0, 10**7),
    hour=st.integers(0, 23),
    oldest_age=known,
    arrival_rate=known,
    drain_rate=known,
    cpu=known,
    latency=st.one_of(st.none(), st.floats(0, 3600)),
    in_flight=st.one_of(st.none(), st.integers(0, 5000)),
)
targets = st.one_of(
    st.builds(RuleStep, st.integers(0, 100)),
    st.builds(Ratio, st.integers(1, 100)),
    st.builds(TimeToDrain, st.floats(1, 1e5), st.integers(1, 100)),
)
conditions = st.builds(
    Condition,
    st.sampled_from(RuleInput),
    st.one_of(st.none(), st.floats(0, 24)),
    st.one_of(st.none(), st.floats(0, 24)),
)
some_rules = st.builds(
    Rules,
    st.integers(1, 9),
    st.lists(
        st.builds(Rule, st.text(max_size=3), st.lists(conditions, max_size=3).map(tuple), targets), max_size=4
    ).map(tuple),
    most=st.integers(1, 200),
    least=st.just(1),
)


@pytest.mark.parametrize(
    ("depth", "tasks"), [(0, 0), (3, 10), (99, 10), (100, 50), (999, 50), (1000, 100), (10**6, 100)]
)
def test_the_sample_has_the_steps_of_the_article(depth, tasks):
    """10, 50 and 100 tasks; none for none."""
    assert parse(SAMPLE).ask(Observation(depth=depth)).tasks == tasks


@given(some_rules, observations)
def test_rules_never_ask_for_more_than_their_bounds_and_for_none_without_work(rules, observation):
    """Whatever is observed, and whatever an operator wrote."""
    asked = rules.ask(observation)
    assert 0 <= asked.tasks <= rules.most
    assert (asked.tasks > 0) == (observation.depth > 0)
    assert asked == rules.ask(observation)


@pytest.mark.parametrize(("hour", "holds"), [(21, False), (22, True), (0, True), (5, True), (6, False), (12, False)])
def test_a_span_of_hours_may_go_over_midnight(hour, holds):
    """From 22 to 6 is a night."""
    assert Condition(RuleInput.HOUR, 22, 6).holds(Observation(depth=1, hour=hour)) is holds


def test_a_condition_on_what_is_not_known_does_not_hold():
    """A rule that looks at the latency waits until there is one."""
    rules = parse(
        "version: 1\nrules:\n- {name: slow, when: {latency: {at_least: 2s}}, tasks: 9}\n- {name: rest, tasks: 2}"
    )
    assert rules.ask(Observation(depth=50)).tasks == 2
    assert rules.ask(Observation(depth=50, latency=3.0)).tasks == 9


def test_a_time_to_drain_counts_what_still_arrives():
    """1,000 messages within 100 s while 5 a second arrive are 15 a second, at half a second each."""
    rules = parse("version: 2\nrules: [{name: all, empty_within: 100s, until_known: 4}]")
    assert rules.ask(Observation(depth=1000)).tasks == 4
    asked = rules.ask(Observation(depth=1000, latency=0.5, arrival_rate=5.0))
    assert asked.tasks == 8
    assert "empty within 100 s" in asked.why


def test_rules_may_be_json_with_tabs():
    """What a program writes is read like what a person writes."""
    assert parse('{\n\t"version": 3,\n\t"rules": [{"name": "all", "messages_each": 5}]}').version == 3


def test_the_built_in_rules_are_those_of_the_sample():
    """Who begins from the sample changes nothing at first."""
    sample = parse(SAMPLE)
    assert (BUILT_IN.rules, BUILT_IN.most, BUILT_IN.least) == (sample.rules, sample.most, sample.least)


#: A rule that always applies, on three lines.
ONE = "version: 1\nrules:\n- {name: a, tasks: 1}\n"
ROOMS = ["alpha", "beta", *(f"r{number}" for number in range(201))]
WRONG = {
    "": (1, "it is empty"),
    "version: 1": (1, "`rules` must be a list with at least one rule"),
    "rules:\n- {name: a, tasks: 1}": (1, "`version` is missing"),
    "version: 1\nrules:\n- {name: a, task: 1}": (3, "a rule has no 'task': did you mean 'tasks'?"),
    "version: 1\nrules:\n- {name: a}": (
        3,
        "rule 'a' must have exactly one of tasks, messages_each, empty_within; it has 0",
    ),
    "version: 1\nrules:\n- {name: a, tasks: 1, messages_each: 2}": (3, "it has 2 of them"),
    "version: 1\nrules:\n- {tasks: 1}": (3, "a rule needs a `name`"),
    "version: 1\nrules:\n- {name: a, tasks: many}": (3, "`tasks` is 'many', expected a whole number"),
    "version: 1\nrules:\n- {name: a, tasks: 101}": (3, "`tasks` is 101, expected 0 to 100"),
    "version: 1\nrules:\n- name: a\n  empty_within: soon\n  until_known: 1": (4, "expected a time such as 90s"),
    "version: 1\nrules:\n- name: a\n  empty_within: 10m": (3, "`until_known` is missing"),
    "version: 1\nrules:\n- name: a\n  when: {depth: 5}\n  tasks: 1": (4, "`depth` must be names with values"),
    "version: 1\nrules:\n- name: a\n  when: {dept: {below: 5}}\n  tasks: 1": (4, "did you mean 'depth'?"),
    "version: 1\nrules:\n- name: a\n  when: {depth: {at_least: 5, below: 5}}\n  tasks: 1": (4, "is never at least 5"),
    "version: 1\nrules:\n- name: a\n  when: {hour: {at_least: 25}}\n  tasks: 1": (4, "`hour` must be from 0 to 24"),
    "version: 1\nrules:\n- {name: a, tasks: 1}\n- {name: b, tasks: 2}": (4, "rule 'b' is never reached: 'a' applies"),
    "version: 1\nrules:\n- {name: a, when: {depth: {below: 9}}, tasks: 1}\n"
    "- {name: b, when: {depth: {below: 5}, cpu: {below: 1}}, tasks: 2}": (4, "rule 'b' is never reached"),
    "version: 1\nrules:\n- {name: a, when: {cpu: {below: 1}}, tasks: 1}\n- {name: a, tasks: 2}": (
        4,
        "another rule has the name 'a'",
    ),
    "version: 1\nversion: 2\nrules:\n- {name: a, tasks: 1}": (2, "'version' occurs twice"),
    "version: 1\nmost: 5\nleast: 6\nrules:\n- {name: a, tasks: 1}": (3, "least 6 is above most 5"),
    "version: &v 1\nrules:\n- {name: a, tasks: *v}": (1, "an anchor is not allowed in rules"),
    "version: !!python/object:os.system 1": (1, "a tag is not allowed in rules"),
    "version: 1\nrules: [": (2, "neither YAML nor JSON"),
    "- a\n- b": (1, "the document must be names with values"),
    f"{ONE}shares: 3": (4, "`shares` must be names with values: rooms, urgent"),
    f"{ONE}shares:\n  urgnt: 5%": (5, "`shares` has no 'urgnt': did you mean 'urgent'?"),
    f"{ONE}shares:\n  urgent: 60%": (5, "`urgent` is 60%, expected 0% to 50%"),
    f"{ONE}shares:\n  urgent: 0.2": (5, "`urgent` is '0.2', expected a share such as 25%"),
    f"{ONE}shares:\n  urgent: nan%": (5, "`urgent` is 'nan%', expected a share such as 25%"),
    f"{ONE}shares:\n  rooms: alpha": (5, "`rooms` must be names of rooms with their shares"),
    f"{ONE}shares:\n  rooms:\n    alhpa: {{weight: 3}}": (6, "`rooms` has no 'alhpa': did you mean 'alpha'?"),
    f"{ONE}shares:\n  rooms:\n    wholesale: {{weight: 3}}": (
        6,
        "`rooms` has no 'wholesale': SLUICE_ROOMS does not name it",
    ),
    f"{ONE}shares:\n  rooms:\n    A_B: {{weight: 3}}": (6, "`rooms` has 'A_B', which cannot be the name of a room"),
    f"{ONE}shares:\n  rooms:\n    alpha: 3": (6, "room 'alpha' must be names with values: most, weight"),
    f"{ONE}shares:\n  rooms:\n    alpha: {{wieght: 3}}": (6, "room 'alpha' has no 'wieght': did you mean 'weight'?"),
    f"{ONE}shares:\n  rooms:\n    alpha: {{weight: 0}}": (6, "`weight` is 0, expected 1 to 1000"),
    f"{ONE}shares:\n  rooms:\n    alpha:\n      weight: 1001": (7, "`weight` is 1001, expected 1 to 1000"),
    f"{ONE}shares:\n  rooms:\n    alpha: {{most: 0}}": (6, "`most` is 0, expected 1 to 1000000"),
    f"{ONE}shares:\n  rooms:\n" + "".join(f"    r{number}: {{}}\n" for number in range(201)): (
        5,
        "`rooms` names 201 rooms, expected at most 200",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_its_line(text):
    """A person who wrote it finds the place, and reads what to write instead."""
    line, said = WRONG[text]
    found = lint(text, ROOMS)
    assert found.rules is None
    assert any(problem.line == line and said in problem.what for problem in found.problems), found.problems


def test_all_problems_are_told_at_once():
    """Nobody corrects one mistake to be told the next."""
    with pytest.raises(RulesRefusedError) as refusal:
        parse("most: x\nrules:\n- {name: a, tasks: y}")
    assert all(part in str(refusal.value) for part in ("line 1", "`version`", "`most`", "line 3", "`tasks`"))


def test_rules_that_are_too_large_are_not_read():
    """A text of megabytes is no list of rules."""
    assert "the text is 20000 bytes, the limit is 16384" in lint("#" * 20_000).problems[0].what


def test_a_gap_is_noted():
    """Rules without a last one for everything else are good, and the operator is told what happens there."""
    found = lint("version: 1\nrules:\n- {name: a, when: {depth: {below: 5}}, tasks: 1}")
    assert found.rules
    assert "`least`" in found.notes[0].what
    assert not lint(SAMPLE).problems


def test_shares_are_read_by_room():
    """A room that is not named has the usual share; the common room has the empty name."""
    text = f'{ONE}shares:\n  urgent: 12.5%\n  rooms:\n    alpha: {{weight: 3}}\n    "": {{most: 40}}\n    beta: {{}}'
    shares = parse(text, ROOMS).shares
    assert shares == Shares(0.125, {"alpha": RoomShare(3), "": RoomShare(1, 40), "beta": RoomShare()})
    assert (shares.of("alpha"), shares.of("gamma")) == (RoomShare(3), RoomShare())
    assert parse(ONE).shares == Shares()


def test_rooms_are_not_checked_where_none_are_known():
    """A note says so. What is in force stays readable when a room is removed from the settings."""
    found = lint(f"{ONE}shares:\n  rooms:\n    gone: {{weight: 3}}")
    assert found.rules
    assert "SLUICE_ROOMS" in found.notes[0].what


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail(text):
    """Whatever somebody pastes is refused by name."""
    found = lint(text)
    assert (found.rules is None) == bool(found.problems)


def test_the_rule_on_the_page_weighs_large_chunks():
    """The built-in steps count messages only; the page shows what to put before them, and it changes nothing else."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "concurrency.md").read_text()
    rule = re.search(r"```yaml\n(  - name: large.*?)```", page, re.DOTALL)[1]
    rules = parse(SAMPLE.replace("rules:\n", f"rules:\n{rule}"))
    assert rules.ask(Observation(depth=50, payload_bytes=264_000)).tasks == 50
    assert (
        rules.ask(Observation(depth=50, payload_bytes=33_000)).tasks == BUILT_IN.ask(Observation(depth=50)).tasks == 10
    )
    assert rules.ask(Observation(depth=50)).tasks == 10
