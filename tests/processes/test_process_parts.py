"""The entities of a process of one's own follow from its name."""

import pytest

from shared.process_parts import process_entities, process_triggers


def test_each_trigger_of_a_process_has_its_entity():
    """A function that listens to an entity which is not there stops the host."""
    (part,) = process_entities("returns")
    there = {*part.queues, *(queue.name for queue in part.bus.queues)}
    assert {trigger.source for trigger in process_triggers("returns")} <= there


@pytest.mark.parametrize("name", ["", "Returns", "my-returns", "9returns", "r" * 41])
def test_a_name_that_no_table_can_have_is_refused(name):
    """At the start, with the value and its limit."""
    with pytest.raises(ValueError, match="use up to 40 of a-z and 0-9"):
        process_entities(name)
