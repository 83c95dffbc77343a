"""A burst through the app's real entry points, counted from outside: never more in work than the rules allow."""

import pytest

from tests.benchmarks.dequeue_entries import PUSH, TRIGGER, TWO, WORKER, burst, most_at_once

MESSAGES = 100


@pytest.mark.ci("processes that die, or a stack of its own")
@pytest.mark.parametrize("way", [TRIGGER, PUSH, WORKER])
def test_a_burst_keeps_to_a_rule_of_two_tasks_from_its_first_message(way):
    """Two instances, or two worker processes, that knew of nothing: all is done, two at a time, and no slot stays held."""
    found = burst(way, MESSAGES, rules=TWO)
    assert (found.done, found.held_before, found.held_after) == (MESSAGES, 0, 0)
    assert 1 <= found.peak <= 2


def test_the_count_from_outside_sees_what_overlaps():
    """Two that overlap are two; one that begins when another ends is not."""
    lines = ["begin 1 1.0", "begin 2 1.5", "end 1 2.0", "begin 3 2.0", "end 3 2.5", "end 2 3.0"]
    assert most_at_once(lines) == 2
    assert most_at_once([*lines, "begin 4 1.7", "end 4 1.8"]) == 3
    assert most_at_once([]) == 0
