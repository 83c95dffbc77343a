"""Every interleaving of two workers on one shard, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.span_model import Bug, Scope, search

#: The smallest number of workers that shows the bug, and the harm.
BUGS = {
    Bug.BLOB_BEFORE_ROWS: (1, {"a shard that is done lacks rows"}),
    Bug.BLOB_BEFORE_LINES: (1, {"a shard that is done lacks lines"}),
    Bug.COUNT_OF_ONE_SPAN: (1, {"a shard that is done lacks rows"}),
    Bug.ROWS_FROM_ZERO: (1, {"a shard that is done lacks rows"}),
    Bug.NO_FENCE: (2, {"an account's row is counted twice"}),
    Bug.SPAN_BY_THE_FENCE: (
        1,
        {"a shard that is done lacks lines", "a shard that is done lacks rows", "the shard is stuck"},
    ),
}


def test_no_interleaving_loses_a_row_or_a_line_or_writes_one_twice():
    """Kills, doubles and lost replies are in the search."""
    found = search(Scope())
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 1500


@pytest.mark.parametrize("bug", Bug, ids=lambda bug: bug.name.lower())
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    workers, harms = BUGS[bug]
    found = search(replace(Scope(), workers=workers, bug=bug))
    assert found.harm in harms
    assert found.way
