"""A slice of the chaos that `python -m tests.benchmarks.ids_chaos` runs in full."""

from dataclasses import replace

import pytest

from tests.ids.chaos import Chaos, run

SLICE = Chaos(processes=4, ids=9_000, kills=10, loss=0.35, range_size=100, first_pause=0.005)


@pytest.mark.ci("processes that die, or a stack of its own")
def test_kills_and_lost_replies_never_repeat_an_id_and_every_gap_is_explained(azurite, tmp_path):
    """Processes that are killed at random, and whose replies are lost, draw no id twice and leave no gap untold."""
    account = run(SLICE, azurite.connection_string, tmp_path)
    assert (account.ids, account.duplicates, account.unexplained) == (36_000, 0, 0)
    assert account.kills == 10
    assert account.lost_replies >= 100


@pytest.mark.ci("processes that die, or a stack of its own")
def test_the_seeds_generator_repeats_ids_in_the_same_chaos(azurite, tmp_path):
    """The same chaos catches the generator as Twist published it, so the test above would notice."""
    account = run(replace(SLICE, ids=3000, generator="Twist"), azurite.connection_string, tmp_path)
    assert account.duplicates > 0
