"""`sluice jobs`: accepted jobs, their progress and results. Reads the ledger, so the app may be down."""

import json
import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli import job_view as view
from cli.options import PROBLEM_FOUND, ByOption, JsonOption, SettingsOption, WhyOption, YesOption, connected
from shared.app import Stores
from shared.ledger import FINISHED, Job, JobState, Ledger
from shared.operating import AuditedAct

#: Seconds between two reads of `watch`: each read is a billed request.
LOOK_EVERY = 1.0
#: `watch` ends in these states: the next step is a person's.
STOPS = FINISHED | {JobState.PAUSED, JobState.BURIED}
GOOD = frozenset({JobState.COMPLETE})

app = typer.Typer(
    help="Jobs: list them, look at one, watch one to its end.\n\nStatus: 0 done (`watch`: the job is complete), 1 there "
    "is no such job or it did not end well, 2 the call makes no sense, 3 `watch` ended before the job did.",
    no_args_is_help=True,
)
NOT_ENDED = 3

JobArgument = Annotated[str, typer.Argument(help="The job's id.", metavar="JOB")]


@app.command("list")
def list_jobs(
    most: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that were accepted last."""
    with connected(settings) as connections:
        ledger = Stores(connections).ledger
        rows = [(listed, ledger.read(listed.job)) for listed in ledger.newest(most)]
    if as_json:
        now = datetime.now(UTC)
        typer.echo(json.dumps({"jobs": [view.job_document(job, now) for _, job in rows if job]}))
        return
    Console().print(view.list_table(rows, datetime.now(UTC)))


@app.command()
def show(job: JobArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show everything about one job."""
    with connected(settings) as connections:
        found = find_job(Stores(connections).ledger, job)
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps(view.job_document(found, now)))
    else:
        Console().print(view.job_table(found, now))


@app.command()
def watch(
    job: JobArgument,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; else until it ends.")] = None,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Watch one job until it ends. Waits for a job that was not accepted yet."""
    with connected(settings) as connections:
        found = _watched(Stores(connections).ledger, job, timeout, is_shown=not as_json)
    if found is None:
        typer.echo(f"sluice: no job {job!r} was accepted within {timeout:g} s: check the id", err=True)
        raise typer.Exit(PROBLEM_FOUND)
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps(view.job_document(found, now)))
    else:
        Console().print(view.job_table(found, now))
    if found.state not in GOOD:
        raise typer.Exit(PROBLEM_FOUND if found.state in STOPS else NOT_ENDED)


@app.command("resume")
def resume_job(
    job: JobArgument,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    yes: YesOption = False,
) -> None:
    """Let a paused job go on: chunks parked so far do not pause it again."""
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores.ledger, job)
        if not yes:
            problem = found.problem or f"{found.parked_chunks} of {found.chunks} chunks are parked"
            typer.confirm(f"job {job} is {found.state.value} ({problem}): let it go on?", abort=True)
        with stores.audit.record(AuditedAct(by, "job resume", job, why)) as command:
            resumed = stores.job_operator.resume(job)
            command.result = resumed.state.value
    typer.echo(f"job {job} is {resumed.state.value}: `sluice jobs watch {job}`")


def _watched(ledger: Ledger, job: str, timeout: float | None, *, is_shown: bool) -> Job | None:
    end = None if timeout is None else time.monotonic() + timeout
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as bar:
        task = bar.add_task("waiting to be accepted", total=None)
        while True:
            found = ledger.read(job)
            _show_progress(bar, task, found)
            if (found and found.state in STOPS) or (end is not None and time.monotonic() >= end):
                return found
            time.sleep(LOOK_EVERY)


def _show_progress(bar: Progress, task: TaskID, job: Job | None) -> None:
    if job is not None:
        said = view.on_its_way(job, datetime.now(UTC))
        bar.update(task, description=said, total=job.chunks or None, completed=job.ended_chunks)


def find_job(ledger: Ledger, job: str) -> Job:
    """Return the job, or end with a remedy if it does not exist."""
    found = ledger.read(job)
    if found is None:
        typer.echo(f"sluice: there is no job {job!r}: `sluice jobs list` shows the last ones", err=True)
        raise typer.Exit(PROBLEM_FOUND)
    return found
