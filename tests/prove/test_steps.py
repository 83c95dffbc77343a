"""The choice of the next step: what is needed, what goes on, and that whatever was made is removed."""

import pytest

from tools.local.prove.steps import BY_KEY, REMOVE, STEPS, Ended, choose_next, most_hours

KEYS = [one.key for one in STEPS]
MAKES = [one.key for one in STEPS if one.makes]


def walk(wrong=(), interrupted_after=None):
    """Return the keys of the steps of a run in which these fail."""
    ended, is_interrupted = [], False
    while (step := choose_next(ended, is_interrupted=is_interrupted)) is not None:
        ended.append(Ended(step.key, 1.0, problem="broken" if step.key in wrong else ""))
        is_interrupted = is_interrupted or step.key == interrupted_after
    return [one.key for one in ended]


def test_every_step_is_taken_once_and_the_removal_is_the_last():
    """Where nothing fails."""
    assert walk() == KEYS
    assert KEYS[-1] == REMOVE.key


@pytest.mark.parametrize("key", KEYS[:-1])
def test_a_failure_ends_the_examination_only_where_the_rest_needs_it(key):
    """What was made is removed in either case."""
    before = KEYS[: KEYS.index(key) + 1]
    if not BY_KEY[key].is_needed:
        assert walk({key}) == KEYS
    elif key in MAKES:
        assert walk({key}) == [*before, REMOVE.key]
    else:
        assert walk({key}) == before


@pytest.mark.parametrize("key", KEYS)
def test_an_interruption_leads_to_the_removal(key):
    """And to nothing where nothing was made: what is there under the name is somebody else's."""
    before = KEYS[: KEYS.index(key) + 1]
    is_made = any(one in MAKES for one in before) and key != REMOVE.key
    assert walk(interrupted_after=key) == ([*before, REMOVE.key] if is_made else before)


def test_all_that_fail_at_once_still_lead_to_one_removal():
    """Also where the removal itself fails."""
    free = {one.key for one in STEPS if not one.is_needed}
    assert walk(free) == KEYS


def test_the_hours_are_those_in_which_something_is_there():
    """They bound the price that is said before."""
    assert most_hours() == pytest.approx(sum(one.minutes for one in STEPS if one.key not in {"tools", "absent"}) / 60)
