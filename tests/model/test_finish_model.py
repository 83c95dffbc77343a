"""Every interleaving of finishing in segments and shards, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.finish_model import Bug, Scope, search

ALONE = Scope(has_replay=False, workers=1)
REPLAYED = Scope(workers=1)
LOST_LINES = "a complete job lacks rejected lines, or has one twice"
LOST_TOTALS = "a complete job lacks totals, or has those of another revision"

#: The smallest scope that shows the bug, and the harm.
BUGS = {
    Bug.SEGMENTS_BY_DONE_ROWS: (REPLAYED, "a chunk is in two segments"),
    Bug.SHARD_BEFORE_BALANCE: (
        Scope(has_replay=False, is_balanced=False, workers=1), "a job that does not add up has published"
    ),
    Bug.SHARD_BLOB_BEFORE_TOTALS: (ALONE, LOST_TOTALS),
    Bug.NO_FENCE_IN_ONE_PARTITION: (Scope(), LOST_TOTALS),
    Bug.COUNT_FROM_THE_PARTIAL: (ALONE, "a row of this revision has other chunks than the revision"),
    Bug.SEGMENT_BLOB_BEFORE_REJECTED: (ALONE, LOST_LINES),
    Bug.FOLDER_OF_ALL_REVISIONS: (REPLAYED, LOST_LINES),
    Bug.PLAN_MEANS_SENT: (ALONE, "the job is stuck"),
    Bug.END_WITHOUT_SHARDS: (ALONE, "a complete job lacks lines, or has one twice"),
}  # fmt: skip


LARGE = pytest.mark.ci("a model above 25,000 states")


@pytest.mark.parametrize(
    ("scope", "least"),
    [
        pytest.param(Scope(shards=1), 80_000, marks=LARGE),
        (REPLAYED, 20_000),
        (Scope(has_replay=False), 4_000),
        pytest.param(Scope(is_balanced=False), 25_000, marks=LARGE),
    ],
    ids=str,
)
def test_no_interleaving_publishes_anything_but_the_whole_or_leaves_the_job_behind(scope, least):
    """Two finishers, or one beside a replay: every kill, loss and double is in the search."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > least


@pytest.mark.parametrize(
    "bug",
    # Two finishers beside a replay, in two shards: no smaller scope shows it, and it is 170,000 states away.
    [pytest.param(bug, marks=LARGE if bug is Bug.NO_FENCE_IN_ONE_PARTITION else ()) for bug in Bug],
    ids=lambda bug: bug.name.lower(),
)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    scope, harm = BUGS[bug]
    found = search(replace(scope, bug=bug))
    assert found.harm == harm
    assert found.way
