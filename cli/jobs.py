"""`sluice jobs`: accepted jobs, their progress and results. Reads the ledger, so the app may be down."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli import job_view as view
from cli.options import PROBLEM_FOUND, ByOption, JsonOption, SettingsOption, WhyOption, YesOption, connected
from cli.parked_view import entry_document
from cli.screen import Screen, clean
from cli.settings_file import load
from shared.app import Stores
from shared.errors import SettingsError
from shared.ledger import FINISHED, Job, JobState, Wanted
from shared.operating import LEAST, WRITTEN, AuditedAct, JobReader, OutputKind, complete_prefix
from shared.parked import Entry

#: Seconds between two reads of `watch`: each read is a billed request.
LOOK_EVERY = 1.0
#: `watch` ends in these states: the next step is a person's.
STOPS = FINISHED | {JobState.PAUSED, JobState.BURIED}
GOOD = frozenset({JobState.COMPLETE})

#: Jobs whose ids begin as one that was typed: more than an error shows.
LOOKED_THROUGH = 20
#: Jobs after which `reindex` says how far it is.
SAY_EVERY = 500

app = typer.Typer(
    help="Jobs: list them, look at one, watch one to its end.\n\nStatus: 0 done (`watch`: the job is complete), 1 there "
    "is no such job or it did not end well, 2 the call makes no sense, 3 `watch` ended before the job did.",
    no_args_is_help=True,
)
NOT_ENDED = 3
#: Looks of `watch` at a job before one at the door, for a job that is not there. From this look on, an entry from before the
#: watch is believed too.
LOOK_AT_THE_DOOR = 5
LATE_LOOK = 15

JobArgument = Annotated[str, typer.Argument(help="The job's id; its beginning is enough.", metavar="JOB")]


@app.command("list")
def list_jobs(  # noqa: PLR0913 - the filters of the list
    most: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    *,
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    workload: Annotated[str | None, typer.Option(help="Only jobs of this workload.")] = None,
    gate: Annotated[str | None, typer.Option(help="Only jobs of this gate.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only jobs accepted since this time, in UTC.")] = None,
    before: Annotated[datetime | None, typer.Option(help="Only jobs accepted before this time, in UTC.")] = None,
    after: Annotated[str, typer.Option(help="Go on where an earlier page ended, as it says.")] = "",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that were accepted last, by one request. Counts are as of the last news of each job."""
    wanted = Wanted(state, workload, gate, *(moment and moment.replace(tzinfo=UTC) for moment in (since, before)))
    with connected(settings) as connections:
        page = Stores(connections).job_list.page(wanted, most, after)
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps({"jobs": [view.listed_document(one, now) for one in page.jobs], "after": page.after}))
        return
    Screen().show(view.list_table(page.jobs, now))
    if page.after:
        typer.echo(f"there may be more: the same with --after '{page.after}'", err=True)


@app.command()
def reindex(settings: SettingsOption = None) -> None:
    """Fill in the states of jobs that an earlier version listed. Two requests per job. It may be stopped and repeated."""
    told = gone = 0
    with connected(settings) as connections:
        stores = Stores(connections)
        for listed in stores.job_list.untold():
            job = stores.ledger.read(listed.job)
            if job is None:
                gone += 1
                continue
            stores.job_list.tell(job)
            told += 1
            if told % SAY_EVERY == 0:
                typer.echo(f"{told:,} jobs filled in", err=True)
    typer.echo(f"{told:,} jobs filled in" + (f", {gone:,} have no row any more" if gone else ""))


@app.command()
def show(job: JobArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show everything about one job."""
    with connected(settings) as connections:
        stores = Stores(connections)
        reader = stores.job_reader(_work_queues(settings))
        look = reader.look(job)
        if look.job is None and not look.refused:
            look = reader.look(find_job(stores, job).job)
    now = datetime.now(UTC)
    if look.job is None:
        _end_refused(job, look.refused, as_json=as_json)
    elif as_json:
        typer.echo(json.dumps(view.look_document(look, now)))
    else:
        Screen().show(view.look_table(look, now))


@app.command()
def output(
    job: JobArgument,
    *,
    rejected: Annotated[bool, typer.Option("--rejected", help="The rejected lines, with their reasons.")] = False,
    totals: Annotated[bool, typer.Option("--totals", help="The totals by account.")] = False,
    settings: SettingsOption = None,
) -> None:
    """Write the outputs of a finished job to standard output, as newline-delimited JSON."""
    if rejected and totals:
        raise typer.BadParameter("say --rejected or --totals, not both")
    kind = OutputKind.REJECTED if rejected else OutputKind.TOTALS if totals else OutputKind.OUTPUT
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        if found.state not in WRITTEN:
            typer.echo(f"sluice: job {found.job} is {found.state.value}: {view.no_outputs_words(found)}", err=True)
            raise typer.Exit(PROBLEM_FOUND)
        _write_lines(stores.output_reader.read(found, kind))


def _write_lines(pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        if sys.stdout.isatty():
            # JSON hides most control characters, but not text that runs backwards.
            typer.echo("\n".join(clean(line).plain for line in piece.decode(errors="replace").split("\n")), nl=False)
        else:
            sys.stdout.buffer.write(piece)
    sys.stdout.flush()


def _end_refused(job: str, refused: Sequence[Entry], *, as_json: bool) -> NoReturn:
    """Tell that the submission was parked at acceptance, and end."""
    if as_json:
        typer.echo(json.dumps({"job": job, "state": None, "refused": [entry_document(one) for one in refused]}))
    else:
        typer.echo(view.refused_words(job, refused), err=True)
    raise typer.Exit(PROBLEM_FOUND)


@app.command()
def watch(
    job: JobArgument,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; else until it ends.")] = None,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Watch one job until it ends. Needs the whole id: it waits for a job that was not accepted yet."""
    with connected(settings) as connections:
        reader = Stores(connections).job_reader(_work_queues(settings))
        found = _watched(reader, job, timeout, is_shown=not as_json)
    if isinstance(found, list):
        _end_refused(job, found, as_json=as_json)
    if found is None:
        typer.echo(f"sluice: no job {job!r} was accepted within {timeout:g} s: check the id", err=True)
        raise typer.Exit(PROBLEM_FOUND)
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps(view.job_document(found, now)))
    else:
        Screen().show(view.job_table(found, now))
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
        found = find_job(stores, job)
        if not yes:
            problem = found.problem or f"{found.parked_chunks} of {found.chunks} chunks are parked"
            typer.confirm(f"job {found.job} is {found.state.value} ({problem}): let it go on?", abort=True)
        with stores.audit.record(AuditedAct(by, "job resume", found.job, why)) as command:
            resumed = stores.job_operator.resume(found.job)
            command.result = resumed.state.value
    typer.echo(f"job {found.job} is {resumed.state.value}: `sluice jobs watch {found.job}`")


def _watched(reader: JobReader, job: str, timeout: float | None, *, is_shown: bool) -> Job | list[Entry] | None:
    """Return the job at its end or after the time, or the entries if it was parked at acceptance."""
    began, looks = datetime.now(UTC), 0
    end = None if timeout is None else time.monotonic() + timeout
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as bar:
        task = bar.add_task("waiting to be accepted", total=None)
        while True:
            found = reader.ledger.read(job)
            _show_progress(bar, task, found)
            is_over = end is not None and time.monotonic() >= end
            if found is None and (is_over or looks % LOOK_AT_THE_DOOR == 0):
                # One that was parked before may have been sent again since, and be on its way.
                is_patient = is_over or looks >= LATE_LOOK
                refused = [one for one in reader.list_refused(job) if is_patient or one.last_at >= began]
                if refused:
                    return refused
            if (found and found.state in STOPS) or is_over:
                return found
            looks += 1
            time.sleep(LOOK_EVERY)


def _show_progress(bar: Progress, task: TaskID, job: Job | None) -> None:
    if job is not None:
        said = view.on_its_way(job, datetime.now(UTC))
        bar.update(task, description=said, total=job.chunks or None, completed=job.ended_chunks)


def _work_queues(settings: Path | None) -> int:
    try:
        return int(load(settings).get("SLUICE_WORK_QUEUES") or 1)
    except ValueError as error:
        raise SettingsError("SLUICE_WORK_QUEUES is not a number, expected 1 to 100") from error


def find_job(stores: Stores, job: str) -> Job:
    """Return the job, or the only one whose id begins so, or end with a remedy."""
    found, jobs = stores.ledger.read(job), stores.job_list
    if found is None:
        named = {one.job: one for one in jobs.find(job, LOOKED_THROUGH)} if len(job) >= LEAST else {}
        found = named.get(complete_prefix(job, named, "jobs"))
    if found is None:
        typer.echo(f"sluice: there is no job {job!r}: `sluice jobs list` shows the last ones", err=True)
        raise typer.Exit(PROBLEM_FOUND)
    return found
