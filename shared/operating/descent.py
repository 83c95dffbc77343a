"""Says for whom a job waits, from which jobs it was made, and which jobs were made from it."""

from collections.abc import Iterator

from shared.ledger import Job, JobState, Ledger, Passage, is_made_from, judge_predecessor, waits_now_for


def describe_waiting(ledger: Ledger, job: Job) -> str:
    """Say for whom a job waits now, and why that one has not ended. Empty: it waits for none. One request at most."""
    name = waits_now_for(job)
    if name is None:
        return "it looks at the jobs that it waits for" if job.awaits_others else ""
    verdict = judge_predecessor(ledger.read(name), after_parked=bool(job.after_parked))
    # Passed, and its own row does not say so yet.
    words = "has ended: it starts within a minute" if verdict.standing is Passage.PASSED else verdict.words
    left = len(job.waits) - job.waits_at - 1
    return f"it waits for {name}, which {words}" + (f"; then for {left} more" if left else "")


def describe_sources(ledger: Ledger, job: Job) -> Iterator[str]:
    """Yield what a job was made from with the proof of its totals, and which sources have moved on. One request for each."""
    if job.from_jobs is None:
        return
    if not job.used:
        yield f"{', '.join(job.sources)}: their lines are read when all have ended"
        return
    named = ", ".join(f"{name} rev {revision}" for name, revision in job.used.items())
    ways = {"accepted": job.totals.accepted, "rejected": job.totals.rejected, "parked": job.totals.parked}
    ended = " + ".join(f"{one.items:,} {way}" for way, one in ways.items() if one.items) or "0 ended"
    sums = "".join(f"; {name} {job.declared[name]:f} = accepted there" for name in job.from_jobs.sums)
    is_proven = job.state is JobState.COMPLETE and not job.totals.has_unknown_sums
    proven = "proven" if is_proven else "not proven yet"
    yield f"{named}: {job.items:,} lines = {job.items:,} declared = {ended}{sums}: {proven}"
    for name, revision in job.used.items():
        found = ledger.read(name)
        if found is not None and found.revision != revision:
            yield (
                f"{name} is at revision {found.revision} now, this job used {revision}: sluice jobs rerun {job.job} takes "
                "the newest"
            )


def list_made_from(ledger: Ledger, job: Job) -> list[Job]:
    """Return the jobs whose transactions are what this one made, or will be. One request for each that waits for it."""
    found = map(ledger.read, job.waiters)
    return [one for one in found if one is not None and is_made_from(one, job.job)]
