"""What a gate decides, for every history that hypothesis can think of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import GateCorruptError, NameRefusedError, NewerVersionError
from shared.gate.state import (
    MOST_CHANGES,
    GateState,
    Opening,
    Reading,
    after_close,
    after_open,
    check_name,
    close_after_once,
    close_gate,
    decode,
    encode,
    is_released,
    must_dispatch,
    needs_pointer,
    open_gate,
    open_if_due,
    schedule,
    sign,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
moments = st.datetimes(
    min_value=datetime(2026, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2027, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    timezones=st.just(UTC),
)
openings = st.builds(Opening, at=moments, by=st.text(), why=st.text(), once=st.booleans())
commands = st.lists(
    st.one_of(
        st.tuples(st.just("open"), openings),
        st.tuples(st.just("schedule"), openings),
        st.tuples(st.just("close"), st.text()),
        st.tuples(st.just("due"), moments),
        st.tuples(st.just("once"), st.none()),
    ),
    max_size=70,
)


def apply(state, command):
    """Apply one command to a gate."""
    what, given_ = command
    if what == "open":
        return open_gate(state, given_, NOW)
    if what == "schedule":
        return schedule(state, given_, NOW)
    if what == "close":
        return close_gate(state, "ann", given_, NOW)
    return open_if_due(state, given_) if what == "due" else close_after_once(state, state.epoch, NOW)


@given(commands)
def test_an_epoch_grows_by_one_with_each_opening_and_by_nothing_else(history):
    """The epoch is the number of times that the gate went from closed to open."""
    state, openings_seen = GateState(), 0
    for command in history:
        before, state = state, apply(state, command)
        openings_seen += state.is_open and not before.is_open
        assert state.epoch == openings_seen


@given(commands)
def test_any_gate_is_read_back_as_it_was_written(history):
    """The blob holds everything, whatever people type as their reasons."""
    state = GateState()
    for number, command in enumerate(history):
        state = sign(state, apply(state, command), str(number))
    assert decode(encode(state), "g") == state
    assert len(state.changes) <= MOST_CHANGES


@given(commands, st.integers(0, 60))
def test_work_that_met_a_closed_gate_starts_exactly_when_it_was_opened_afterwards(history, position):
    """Whatever opened and closed in between, the epoch tells: a pulse is not missed, and nothing starts without one."""
    state, held_at, was_open_since = GateState(), None, False
    for number, command in enumerate(history):
        if number >= position and held_at is None and not state.is_open:
            held_at = state.epoch
        state = apply(state, command)
        was_open_since |= held_at is not None and state.is_open
    if held_at is not None:
        assert must_dispatch(held_at, state.reading) == was_open_since


@given(commands)
def test_who_serves_every_release_serves_each_epoch_once(history):
    """A worker that remembers what it served is released once for an epoch, also by a pulse, never for an old one."""
    state, served, releases = GateState(), 0, []
    for command in history:
        state = apply(state, command)
        if is_released(state.reading, served):
            served = state.epoch
            releases.append(served)
    assert releases == list(range(1, state.epoch + 1))


def test_who_served_nothing_passes_an_open_gate_only():
    """A late worker is released at once; one that comes after a pulse waits for the next opening."""
    assert is_released(Reading(3, is_open=True), None)
    assert not is_released(Reading(3, is_open=False), None)


@given(commands)
def test_a_repeated_command_changes_nothing(history):
    """Opening an open gate and closing a closed one keep the state, so nothing is written."""
    state = GateState()
    for command in history:
        state = apply(state, command)
        if command[0] != "due":
            assert apply(state, command) is state


@given(commands, openings)
def test_what_a_person_commands_replaces_what_was_scheduled(history, plan):
    """After open or close by a person no opening is to come."""
    state = GateState()
    for command in history:
        state = apply(state, command)
    planned = schedule(state, plan, NOW)
    assert open_gate(planned, replace(plan, by="x"), NOW).scheduled is None
    assert close_gate(planned, "ann", "", NOW).scheduled is None
    assert close_after_once(planned, planned.epoch, NOW).scheduled == plan


@given(commands, moments)
def test_a_gate_that_waits_for_the_tick_keeps_its_pointer(history, now):
    """Whatever is to come or to be closed has a pending row that counts as needed."""
    state = GateState()
    for command in history:
        state = apply(state, command)
        if state.scheduled:
            assert needs_pointer(state, state.scheduled.at)
        if state.is_open and state.once:
            assert needs_pointer(state, now)
        if not state.scheduled and not (state.is_open and state.once):
            assert not needs_pointer(state, now)


def test_a_plan_opens_when_its_time_has_come_and_not_before():
    """The tick opens in the planner's name, once."""
    plan = Opening(at=NOW + timedelta(hours=1), by="ann", why="batch")
    state = schedule(GateState(), plan, NOW)
    assert open_if_due(state, NOW) is state
    done = open_if_due(state, plan.at)
    assert (done.epoch, done.is_open, done.opened_by, done.scheduled) == (1, True, "ann", None)
    assert open_if_due(close_gate(done, "bob", "", NOW), plan.at).is_open is False


def test_a_late_close_of_once_does_not_close_the_next_epoch():
    """A tick that served epoch 1 leaves epoch 2 open, however late it comes."""
    once = Opening(at=NOW, by="a", why="", once=True)
    again = open_gate(close_gate(open_gate(GateState(), once, NOW), "a", "", NOW), once, NOW)
    assert close_after_once(again, 1, NOW) is again
    assert not close_after_once(again, 2, NOW).is_open


def test_epochs_follow_the_arithmetic_that_the_model_searches():
    """The functions of the model and those of the blob are the same."""
    state = open_gate(GateState(), Opening(at=NOW, by="a", why=""), NOW)
    assert state.reading == after_open(GateState().reading)
    assert close_gate(state, "a", "", NOW).reading == after_close(state.reading)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"Set", b"{}", b"[]", b"\xff", b'{"v": 1}',
        encode(GateState()).replace(b'"closed"', b'"ajar"'),
        encode(GateState()).replace(b'"epoch": 0', b'"epoch": -1'),
        encode(GateState()).replace(b'"epoch": 0', b'"epoch": true'),
        encode(GateState(at=NOW)).replace(b"12:00:00Z", b"12:00:00"),
    ],
)  # fmt: skip
def test_what_no_writer_wrote_is_refused(content):
    """A blob that is not a gate opens nothing, and the error names the gate."""
    with pytest.raises(GateCorruptError, match="gate 'nightly' is not a gate"):
        decode(content, "nightly")


def test_a_newer_format_says_what_to_do():
    """A gate written by a later version is not guessed at."""
    with pytest.raises(NewerVersionError, match="deploy the newer version"):
        decode(encode(GateState()).replace(b'"v": 1', b'"v": 2'), "g")


@pytest.mark.parametrize("name", ["", "A", "-a", "_a", "../a", "a/b", "a b", "a\n", "x" * 101, "é", "a%2e"])
def test_a_name_outside_the_grammar_is_refused(name):
    """No name can lead to another blob or break a key."""
    with pytest.raises(NameRefusedError, match="is not a valid gate name"):
        check_name(name)
