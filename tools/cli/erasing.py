"""The words of `sluice jobs erase`: the things that go for good, and those that the account keeps."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import typer

from shared.app import Stores
from shared.errors import PlanLostError
from shared.grammar import room_of
from shared.ledger import Job, PlanBlob
from shared.operating import read_keeping
from shared.pipeline import CONTAINERS
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
