"""A backlog through the real sweep, in simulated time: what waits is not put again, what is lost is found."""

from tests.benchmarks.backlog import OF_AN_END, Case, run


def test_jobs_that_wait_for_minutes_beyond_their_patience_are_put_once():
    """800 chunks of eight jobs, silent for 60 s at most, worked off in seven minutes: 800 puts, and the eight ends."""
    world, _ = run(Case(8, 100, 0, seconds=434, overdue=60))
    assert sum(world.put.values()) == 808
    assert world.count.of["tick"] - OF_AN_END * 8 <= 0.02 * world.count.of.total()


def test_each_lost_chunk_is_put_again_once_when_its_job_had_its_turn():
    """Of three jobs in one backlog on four queues; none that was not lost."""
    world, seconds = run(Case(3, 150, 0.05, seconds=900, overdue=120, queues=4))
    assert world.were_lost > 5
    assert (world.needless, world.lost) == (0, set())
    assert sum(world.put.values()) <= 3 * 151 + world.were_lost * 1.2
    assert seconds <= 900 + 4 * 120


def test_jobs_of_one_chunk_wait_without_a_request_of_their_own():
    """The finish messages wait too, behind all chunks."""
    world, _ = run(Case(300, 1, 0, seconds=1_800, overdue=300))
    assert world.needless <= 3
    # A page, a peek and ten looks at most, each of a read and a note.
    assert world.count.of["tick"] - OF_AN_END * 300 <= 30 * (2 + 2 * 10)
