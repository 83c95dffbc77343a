"""`change`, the one loop that reads, decides and commits: two changers, lost races and lost replies."""

import random
from dataclasses import replace

import pytest

from shared.clock import Retry
from shared.errors import ContentionError
from shared.ledger.ledger import Written, change
from tests.ledger.builders import job
from tests.ledger.interleaved import FAULTS, Schedule, every_schedule, run
from tests.ledger.memory_ledger import MemoryLedger

AT_ONCE = Retry(attempts=3, pause=lambda _seconds: None)


def breach(ledger, ended):
    """Return which promise was broken: each change is there once, with its row, and each changer has seen its own."""
    found, rows = ledger.read("nightly"), [one.chunk for one in ledger.rows("nightly")]
    if (set(found.declared), found.forgiven, rows) != ({"a", "b"}, 2, [0, 1]):
        return f"there are {sorted(found.declared)}, {found.forgiven} changes, rows {rows}"
    unseen = [name for name, one in ended.items() if name not in getattr(one, "declared", ())]
    return f"{unseen} ended without their change: {ended}" if unseen else ""


def explore(ledger_of, schedules, loop=change):
    """Run the schedules, each on a job of its own; return the first breach, how many ran, and what befell them."""
    befell, ran = set(), 0
    for schedule in schedules:
        ledger = ledger_of()
        stored, _ = ledger.insert(job(chunks=2, declared={}))
        found = breach(ledger, run(ledger, stored, schedule, loop))
        ran, befell = ran + 1, befell | set(schedule.befell)
        if found:
            return f"{found} after {schedule.taken}, {schedule.befell}", ran, befell
    return "", ran, befell


def test_no_order_of_requests_loses_or_repeats_a_change():
    """Every order of the requests of two changers, with up to two commits that are lost or whose reply is."""
    found, ran, befell = explore(MemoryLedger, every_schedule(faults=2))
    assert (found, befell) == ("", set(FAULTS))
    assert ran > 500


def test_the_same_holds_on_a_table(table_of):
    """A sample of the same schedules against storage, whose own proof of a lost reply takes part."""
    drawn = random.Random(12)
    schedules = [Schedule(tuple(drawn.randrange(10) for _ in range(20)), faults=2) for _ in range(20)]
    found, _, befell = explore(table_of, schedules)
    assert (found, befell) == ("", set(FAULTS))


def without_reading_again(ledger, name, decide, *, tried, known, retry):
    """Commit what was decided on the first reading until it is taken."""
    known = known or ledger.read(name)
    for _ in retry.tries():
        if (written := ledger.commit(*decide(known))) is not None:
            return written
    raise ContentionError(tried)


def over_every_version(ledger, name, decide, *, tried, known, retry):
    """Decide on what was known, and commit it over the version that is there by now."""
    made = decide(known or ledger.read(name))
    if not isinstance(made, Written):
        return made
    while (written := ledger.commit(replace(made.job, etag=ledger.read(name).etag), made.rows)) is None:
        pass
    return written


def repeated_blindly(ledger, name, decide, *, tried, known, retry):
    """Take an unproven commit for done."""
    made = decide(known or ledger.read(name))
    return ledger.commit(*made) or made.job if isinstance(made, Written) else made


@pytest.mark.parametrize("mistake", [without_reading_again, over_every_version, repeated_blindly])
def test_a_loop_with_a_mistake_is_found(mistake):
    """A search that finds nothing wrong proves nothing, unless it finds a loop that is wrong."""
    assert explore(MemoryLedger, every_schedule(faults=0), mistake)[0]


def test_what_is_decided_already_writes_nothing(ledger):
    """The same object means that nothing is left to do: the job stays in the version that was read."""
    stored, _ = ledger.insert(job())
    assert change(ledger, "nightly", lambda found: found, tried="try") == stored
    assert ledger.read("nightly").etag == stored.etag


def test_a_job_that_is_gone_is_none(ledger):
    """There is nothing to decide on."""
    assert change(ledger, "never", lambda found: replace(found, done=1), tried="try") is None


class Losing(MemoryLedger):
    """Another writer is first, each time."""

    def commit(self, job, rows=(), messages=()):
        """Let the other one write, then come too late."""
        super().commit(replace(self.read(job.job), milliseconds=self.read(job.job).milliseconds + 1))
        return super().commit(job, rows, messages)


def test_races_without_end_name_the_change():
    """Another writer who is always first is no outage: the number of attempts is bounded."""
    ledger = Losing()
    ledger.insert(job())
    with pytest.raises(ContentionError, match="could not count to 1: others changed job 'nightly' 3 times in a row"):
        change(ledger, "nightly", lambda found: replace(found, done=1), tried="count to 1", retry=AT_ONCE)


def test_a_change_that_is_not_urgent_is_given_up_without_a_word():
    """The job comes back as it is, without the change."""
    ledger = Losing()
    ledger.insert(job())
    retry = replace(AT_ONCE, give_up=True)
    found = change(ledger, "nightly", lambda found: replace(found, done=1), tried="count to 1", retry=retry)
    assert (found, found.done, found.milliseconds) == (ledger.read("nightly"), 0, 3)
