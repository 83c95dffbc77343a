"""How `sluice jobs` shows jobs: tables for people, one documented JSON shape for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from rich.table import Table

from shared.azure import Charge
from shared.grammar import texts
from shared.ledger import (
    JOB_COLUMNS,
    Job,
    JobState,
    Listed,
    Portion,
    describe_state,
    read_progress,
)
from shared.operating import NOT_RECORDED, JobLook, describe_check, describe_proof, describe_refused, explain_pace
from shared.parked import Entry
from tools.cli.gate_view import check_fields
from tools.cli.moments import show_moment
from tools.cli.parked_view import entry_document
from tools.cli.screen import clean

#: Columns of a job that its JSON has as parts of others, or not at all.
_ELSEWHERE: Final = frozenset({"done", "parked_chunks", "started_at"})


def job_document(job: Job, now: datetime) -> dict[str, object]:
    """Return the job as JSON has it, the same in every command."""
    how_far = read_progress(job, now)
    return {
        "job": job.job,
        "state": job.state.value,
        "workload": job.workload,
        "gate": job.gate,
        "revision": job.revision,
        "items": job.items,
        "chunks": {"all": job.chunks, "done": job.done, "parked": job.parked_chunks},
        "stretches": job.stretches,
        "growing": job.growing,
        "accepted": _tally(job.totals.accepted),
        "rejected": _tally(job.totals.rejected),
        "parked": _tally(job.totals.parked),
        "declared": texts(job.declared),
        "first_id": job.id_base,
        "accepted_at": _iso(job.accepted_at),
        "finished_at": _iso(job.finished_at),
        "predicted": _iso(how_far.predicted),
        "deadline": _iso(job.deadline),
        "late": how_far.is_late,
        "risk": how_far.risk,
        "problem": job.problem,
        **_proof(job),
        "requests": dict(job.requests),
        "outputs": f"outputs/{job.job}/{job.revision}/",
        "story": [{**one._asdict(), "at": _iso(one.at)} for one in job.story],
    }


def _proof(job: Job) -> dict[str, object]:
    """Return the fields that the JSON of an erased job has beside those of others."""
    if job.erased_at is None:
        return {}
    return {
        "erased_at": _iso(job.erased_at),
        "by": job.by,
        "proven_at": _iso(job.proven_at),
        "proof": job.proof and dict(job.proof),
    }


def job_table(job: Job, now: datetime, *, is_predictable: bool = True) -> Table:
    """Return everything about one job for a person."""
    table = Table(title=f"Job {job.job}", show_header=False)
    totals = job.totals
    if job.erased_at is not None:
        table.add_row("erased", clean(describe_proof(job)))
    lines: Mapping[str, object] = {
        "state": ": ".join(filter(None, (describe_state(job), job.problem))),
        "workload": job.workload,
        "gate": job.gate or "none",
        "transactions": f"{job.items:,}",
        "chunks": f"{job.done} of {job.chunks} done, {job.parked_chunks} parked",
        "accepted": _words(totals.accepted),
        "rejected": _words(totals.rejected),
        "parked": _words(totals.parked),
        **({"not run": f"{job.not_run:,}"} if job.state is JobState.STOPPED else {}),
        "ids": _ids(job),
        "accepted at": _moment(job.accepted_at),
        "finished at": _moment(job.finished_at),
        "deadline": _deadline(job, now) or "none",
        **_prediction(job, now, is_predictable=is_predictable),
        "storage requests": _requests(job),
        "outputs": f"container outputs, {job.job}/{job.revision}/",
    }
    for name, value in lines.items():
        table.add_row(name, clean(str(value)))
    return table


def _ids(job: Job) -> str:
    if job.id_base is None:
        return "none"
    if job.stretches > 1:
        return f"from {job.id_base} on, adjoining in each of {job.stretches} stretches"
    return f"{job.id_base} to {job.id_base + job.items - 1}"


def _prediction(job: Job, now: datetime, *, is_predictable: bool) -> dict[str, str]:
    if job.finished_at:
        return {}
    return {"predicted end": _moment(read_progress(job, now).predicted) if is_predictable else "unknown: see below"}


def look_document(look: JobLook, now: datetime) -> dict[str, object]:
    """Return the job as JSON has it, with everything around it."""
    if look.job is None:
        raise ValueError("there is no job to show")
    return {
        **job_document(look.job, now),
        # A forecast by the rate so far is wrong while a message fails again and again.
        **({"predicted": None} if look.retried else {}),
        "why": explain_pace(look, now),
        "waits": list(look.job.waits),
        "made": list(look.made),
        "from": list(look.sources),
        "night": look.job.night,
        **check_fields(look.checked),
        "retried": [{**asdict(one), "at": _iso(one.at), "due": _iso(one.due)} for one in look.retried],
        "queues": [{**asdict(one), "oldest_at": _iso(one.oldest_at)} for one in look.queues],
        "refused": [entry_document(one) for one in look.refused],
    }


def look_table(look: JobLook, now: datetime) -> Table:
    """Return everything about one job and what is around it, for a person."""
    if look.job is None:
        raise ValueError("there is no job to show")
    table = job_table(look.job, now, is_predictable=not look.retried)
    for name, words in _around(look, look.job, now):
        table.add_row(name, clean(words))
    return table


def _around(look: JobLook, job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    for entry in look.refused:
        yield "refused", refused_line(entry, job)
    yield from (("from", words) for words in look.sources)
    yield from (("made from it", name) for name in look.made)
    yield from (("last rerun", describe_check(*one)) for one in [look.checked] if one)
    for told in job.story:
        revision = f", revision {told.revision}" if told.revision > 1 else ""
        yield "story", f"{_moment(told.at)} {told.state}{revision}{f': {told.note}' if told.note else ''}"
    if not job.story:
        yield "story", NOT_RECORDED
    for words in explain_pace(look, now):
        yield "why not further", words
    for one in look.retried:
        how = "tried again" if one.due is None else "waits"
        yield how, f"{one.key}, {one.deliveries} times, last {_moment(one.at)}: {one.words}"
    for queue in look.queues:
        oldest = f", the oldest that waits since {_moment(queue.oldest_at)}" if queue.oldest_at else ""
        yield "queue", f"{queue.queue}: {queue.messages} messages{oldest}"
    if job.parked_chunks:
        yield "next", f"sluice parked list --job {job.job}"


def refused_words(job: str, refused: Sequence[Entry]) -> str:
    """Return why there is no such job: its submission was parked."""
    lines = [f"sluice: job {job} was not accepted: its submission is parked"]
    for one in refused:
        lines.append(clean(f"{one.reason}: {one.found}; {one.instead}").plain)
        lines.append(f"sluice parked show {job} {one.key}")
    return "\n".join(lines)


def refused_line(entry: Entry, job: Job | Listed) -> str:
    """Return the fate of another submission under the id of a job, and the next command."""
    return clean(f"{describe_refused(entry, job)}: sluice parked show {job.job} {entry.key}").plain


def stopped_words(job: Job) -> str:
    """Return the numbers of a job that ends before all of it has run."""
    totals = job.totals
    ways = {"accepted": totals.accepted, "rejected": totals.rejected, "parked": totals.parked}
    ended = " + ".join(f"{name} {portion.items:,}" for name, portion in ways.items())
    return f"job {job.job} is {job.state.value} at revision {job.revision}: in {job.items:,} = {ended} + not run {job.not_run:,}"


def no_outputs_words(job: Job) -> str:
    """Return why there are no outputs."""
    if job.state is JobState.UNBALANCED:
        return "what does not balance has no outputs; `sluice jobs show` says what differs"
    if job.state is JobState.BURIED:
        return "its retention is over, and its outputs with it"
    if job.state is JobState.STOPPED:
        return "nothing of it is published"
    if job.state is JobState.ERASED:
        return "they were erased with it"
    return f"outputs come at its end: sluice jobs watch {job.job}"


def listed_document(job: Listed, refused: Sequence[Entry], now: datetime, *, is_failing: bool) -> dict[str, object]:
    """Return a line of the list of jobs as JSON has it."""
    how_far = read_progress(job, now)
    return {
        **{column.name: _plain(getattr(job, column.name)) for column in JOB_COLUMNS if column.name not in _ELSEWHERE},
        "chunks": {"all": job.chunks, "done": job.done, "parked": job.parked_chunks},
        "late": how_far.is_late,
        "risk": how_far.risk,
        "failing": is_failing,
        "refused": [{"key": one.key, "reason": one.reason, "at": _iso(one.last_at)} for one in refused],
    }


def _plain(value: object) -> object:
    return _iso(value) if isinstance(value, datetime) else value


def _tally(tally: Portion) -> dict[str, object]:
    return {"items": tally.items, "sums": texts(tally.sums)}


def _words(tally: Portion) -> str:
    sums = ", ".join(f"{name} {amount}" for name, amount in texts(tally.sums).items())
    unknown = f"; the sums of {tally.unknown} chunks cannot be known" if tally.unknown else ""
    return f"{tally.items:,}{f' ({sums})' if sums else ''}{unknown}"


def on_its_way(job: Job, now: datetime) -> str:
    """Return the progress of a watched job, its predicted end, and whether that is too late."""
    predicted = None if job.finished_at else read_progress(job, now).predicted
    end = f"ends about {predicted.astimezone(UTC):%H:%M:%S} UTC" if predicted else ""
    return ", ".join(words for words in (f"{job.job} {describe_state(job)}", end, _risk(job, now)) if words)


def _risk(job: Job | Listed, now: datetime) -> str:
    risk = read_progress(job, now).risk
    return risk.value.replace("_", " ") if risk else ""


def _deadline(job: Job | Listed, now: datetime) -> str:
    return ": ".join(words for words in (_moment(job.deadline), _risk(job, now)) if words)


def _requests(job: Job) -> str:
    causes: Counter[str] = Counter()
    for text, count in job.requests.items():
        causes[Charge.parse(text).cause] += count
    by_cause = ", ".join(f"{count:,} {cause}" for cause, count in sorted(causes.items()))
    total = sum(job.requests.values())
    return f"{total:,} ({by_cause}), {total / job.items:.4f} a transaction" if total and job.items else "none yet"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else show_moment(moment)
