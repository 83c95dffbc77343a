"""What `sluice jobs erase` and `sluice jobs show` say: what goes, what the account keeps of it, and the proof."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import typer

from shared.app import Stores
from shared.errors import PlanLostError
from shared.grammar import room_of
from shared.ledger import Job, PlanBlob
from shared.operating import read_keeping
from shared.pipeline import CONTAINERS, SECOND_LOOK
from shared.topology import payload_container
from tools.cli.options import end


def make_sure(stores: Stores, jobs: Sequence[Job], file: str | None) -> None:
    """Show what goes for good, and have the id of each job typed, or end."""
    for job in jobs:
        named = f", and {file or job.file}" if file or job.file else ""
        typer.echo(
            f"this removes payload, plan, results, outputs, totals and parked entries of {job.job} ({job.items:,} "
            f"transactions){named}, for good"
        )
        if not named and _is_framed_by_app(stores, job):
            typer.echo(
                "its row names no file of its publisher, for an earlier version accepted it: if it was made from one, "
                "add --file NAME"
            )
    for words in list_kept(stores, jobs):
        typer.echo(words)
    for job in jobs:
        if typer.prompt("Type the job's id") != job.job:
            end("that is not its id: nothing was done")


def _is_framed_by_app(stores: Stores, job: Job) -> bool:
    with suppress(PlanLostError):
        return isinstance(job.plan, PlanBlob) and stores.plans.read(job.job, job.plan).source.is_kept
    return False


def list_kept(stores: Stores, jobs: Sequence[Job]) -> Iterator[str]:
    """Yield what the account keeps of removed blobs. Seven requests, and one more for each room."""
    names = [payload_container(room) for room in sorted({room_of(job.job) for job in jobs})]
    containers = [*names, *(name for name in CONTAINERS if name != payload_container())]
    return read_keeping(stores.connections.blobs, containers).words(datetime.now(UTC))


def describe_proof(job: Job) -> str:
    """Return how far it is proven that nothing of an erased job is left."""
    if job.erased_at is None:
        return ""
    erased = f"erased {_time(job.erased_at)} by {job.by}"
    if job.proven_at is None or job.proof is None:
        return f"{erased}; proof follows when its queues are empty: sluice jobs show {job.job}"
    looked = ", ".join(f"{job.proof[name]} {name}" for name in ("tables", "containers", "queues"))
    second = "second look done" if job.proof["looks"] > 1 else f"second look on {job.proven_at + SECOND_LOOK:%Y-%m-%d}"
    return f"{erased}, proven {_time(job.proven_at)}: {looked} looked at, {job.proof['found']} found; {second}"


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
