"""`sluice jobs`: accepted jobs, their progress and results. Reads the ledger, so the app may be down."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from shared.app import Stores
from shared.errors import SettingsError
from shared.ledger import Job, JobState, Wanted
from shared.operating import (
    JOBS,
    LEAST,
    MOST_AT_THE_DOOR,
    WRITTEN,
    NightAct,
    OutputKind,
    choose_chunks,
    complete_prefix,
    describe_proof,
    group_later,
    may_act,
    row_of_job,
)
from shared.parked import Entry
from tools.cli import erasing, job_view as view, rerun
from tools.cli.before_act import say_of_jobs
from tools.cli.completion import complete_job
from tools.cli.diff_view import diff_in_words, list_diff_pieces
from tools.cli.lists import make_list
from tools.cli.options import (
    FORMER_NAMES,
    PROBLEM_FOUND,
    WRONG_CALL,
    ByOption,
    DryRunOption,
    JsonOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
    end,
)
from tools.cli.parked_view import entry_document
from tools.cli.screen import Screen, clean
from tools.cli.settings_file import load
from tools.cli.watchable import watchable
from tools.cli.watching import STATUS_WORDS, Watch, refused_lines, status_of

#: Jobs whose ids begin as one that was typed: more than an error shows.
LOOKED_THROUGH = 20
#: Jobs after which `reindex` says how far it is.
SAY_EVERY = 500

app = typer.Typer(
    help="Jobs: list them, look at one, watch one to its end.\n\nStatus: 0 done, 1 there is no such job or it cannot be "
    "done, 2 the call makes no sense. `watch` has more.",
    no_args_is_help=True,
)

JobArgument = Annotated[
    str, typer.Argument(help="The job's id; its beginning is enough.", metavar="JOB", autocompletion=complete_job)
]


@app.command("list", context_settings=FORMER_NAMES)
@watchable
def list_jobs(  # noqa: PLR0913 - the filters of the list
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
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
    """List the jobs that were accepted last, by four requests. Counts are as of the last news of each job.

    A state that may be another by now says when it was seen. A job whose messages fail again and again is marked "failing".
    """
    wanted = Wanted(state, workload, gate, *(moment and moment.replace(tzinfo=UTC) for moment in (since, before)))
    with connected(settings) as connections:
        stores = Stores(connections)
        reader, page = stores.job_reader(count_work_queues(settings)), stores.job_list.page(wanted, limit, after)
        door = reader.list_door()
        failing, refused = reader.list_failing(page.jobs), group_later(page.jobs, door)
    now = datetime.now(UTC)
    if as_json:
        listed = [
            view.listed_document(one, refused.get(one.job, ()), now, is_failing=one.job in failing) for one in page.jobs
        ]
        typer.echo(json.dumps({"jobs": listed, "after": page.after}))
        return
    rows = [row_of_job(one, now, refused, failing) for one in page.jobs]
    Screen().show(make_list("Jobs", JOBS, rows, now))
    for one in page.jobs:
        for entry in refused.get(one.job, ()):
            typer.echo(f"{one.job}: {view.refused_line(entry, one)}", err=True)
    if len(door) == MOST_AT_THE_DOOR:
        typer.echo(
            f"more than {len(door)} submissions are parked, not all were looked at: sluice parked list", err=True
        )
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
        reader = stores.job_reader(count_work_queues(settings))
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
def output(  # noqa: PLR0913 - each option of the command is an argument
    job: JobArgument,
    *,
    rejected: Annotated[bool, typer.Option("--rejected", help="The rejected lines, with their reasons.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="The lines of the accepted transactions.")] = False,
    totals: Annotated[bool, typer.Option("--totals", help="The totals by account.")] = False,
    parked: Annotated[bool, typer.Option("--parked", help="The transactions that are parked one by one.")] = False,
    settings: SettingsOption = None,
) -> None:
    """Write the outputs of a finished job to standard output, as newline-delimited JSON.

    With --rejected also of a job that is not finished: those of the chunks that are done.
    """
    wanted = {
        OutputKind.REJECTED: rejected,
        OutputKind.LINES: lines,
        OutputKind.TOTALS: totals,
        OutputKind.PARKED: parked,
    }
    kinds = [kind for kind, is_wanted in wanted.items() if is_wanted] or [OutputKind.OUTPUT]
    if len(kinds) > 1:
        raise typer.BadParameter("say --rejected, --lines, --totals or --parked, only one of them")
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        if found.state not in WRITTEN and rejected and found.done:
            typer.echo(
                f"job {found.job} is {found.state.value}: the rejected lines of {found.done:,} of {found.chunks:,} chunks",
                err=True,
            )
            _write_lines(stores.output_reader.read_rejected_so_far(found))
            return
        if found.state not in WRITTEN:
            end(f"job {found.job} is {found.state.value}: {view.no_outputs_words(found)}")
        _write_lines(stores.output_reader.read(found, kinds[0]))


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


@app.command(help=f"Watch one job until it ends, also one that was not accepted yet.\n\nStatus: {STATUS_WORDS}.")
def watch(
    job: Annotated[str, typer.Argument(help="The job's whole id.", metavar="JOB", autocompletion=complete_job)],
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; else until it ends.")] = None,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Watch one job until it ends."""
    with connected(settings) as connections:
        reader = Stores(connections).job_reader(count_work_queues(settings))
        watched = Watch(reader, job, timeout, is_shown=not as_json).run()
    found, now = watched.job, datetime.now(UTC)
    if found is None and watched.refused:
        _end_refused(job, watched.refused, as_json=as_json)
    if found is None:
        end(f"no job {job!r} was accepted within {timeout:g} s: check the id")
    if as_json:
        refused = [entry_document(one) for one in watched.refused]
        typer.echo(json.dumps({**view.job_document(found, now), "refused": refused}))
    else:
        Screen().show(view.job_table(found, now))
        for line in refused_lines(watched):
            typer.echo(f"sluice: {line}", err=True)
    if status := status_of(watched):
        raise typer.Exit(status)


@app.command("pause")
def pause_job(
    job: JobArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="The problem, as lists and the job's page show it.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Pause a job: no chunk begins after ten seconds. Those in work end, and count."""
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        if dry_run:
            say_of_jobs(stores, NightAct.PAUSE, [found])
            return
        paused = stores.job_operator.pause(found.job, by=by, why=why)
    waits = paused.chunks - paused.ended_chunks
    typer.echo(
        f"job {paused.job} is {paused.state.value}: {paused.ended_chunks:,} of {paused.chunks:,} chunks ended, {waits:,} wait. "
        f"Go on: sluice jobs resume {paused.job}. Give up: sluice jobs stop {paused.job}"
    )


@app.command("stop")
def stop_job(  # noqa: PLR0913 - each option of the command is an argument
    job: JobArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why it ends, as lists and the job's page show it.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """End a job for good: its chunks are dropped, nothing is published, and it cannot be resumed."""
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        if dry_run or not yes:
            say_of_jobs(stores, NightAct.STOP, [found])
        if dry_run:
            return
        if not yes:
            typer.confirm(f"{view.stopped_words(found)}. It ends for good, unpublished: stop it?", abort=True)
        stopped = stores.job_operator.stop(found.job, by=by, why=why)
    typer.echo(f"{view.stopped_words(stopped)}\nits outputs are not published")


@app.command("erase")
def erase_jobs(  # noqa: PLR0913 - each option of the command is an argument
    jobs: Annotated[
        list[str],
        typer.Argument(
            help="The ids of the jobs. Name those that were made from a job too.", autocompletion=complete_job
        ),
    ],
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why it goes, as its row keeps it.", metavar="TEXT")],
    file: Annotated[
        str | None, typer.Option(metavar="NAME", help="The publisher's file, where the job's row names none.")
    ] = None,
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Remove everything of a job for good: payload, results, outputs, parked entries. Its id stays used."""
    if file is not None and len(jobs) > 1:
        raise typer.BadParameter("--file belongs to one job: erase it alone")
    with connected(settings) as connections:
        stores = Stores(connections)
        found = [find_job(stores, job) for job in jobs]
        names = [one.job for one in found]
        for name in names:
            stores.job_eraser.check(name, names)
        if dry_run:
            say_of_jobs(stores, NightAct.ERASE, found)
            return
        if not yes:
            erasing.make_sure(stores, found, file)
        for name in names:
            erased = stores.job_eraser.erase(name, by=by, why=why, also=names, file=file)
            typer.echo(f"job {name} is {describe_proof(erased)}")
        if yes:
            for words in erasing.list_kept(stores, found):
                typer.echo(words)


@app.command("resume")
def resume_job(  # noqa: PLR0913 - each option of the command is an argument
    job: JobArgument,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Let a paused job go on: chunks parked so far do not pause it again."""
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        if dry_run or not yes:
            say_of_jobs(stores, NightAct.RESUME, [found])
        if dry_run:
            return
        if not yes:
            typer.confirm("Let it go on?", abort=True)
        resumed = stores.job_operator.resume(found.job, by=by, why=why)
    typer.echo(f"job {found.job} is {resumed.state.value}: `sluice jobs watch {found.job}`")


@app.command("rerun")
def rerun_job(  # noqa: PLR0913 - each option of the command is an argument
    job: JobArgument,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    if_revision: Annotated[
        int | None, typer.Option(min=1, help="Only a job at this revision. One that ran again since is left alone.")
    ] = None,
    yes: YesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare some chunks here, with the code of this folder; write nothing.")
    ] = False,
    chunks: Annotated[
        str, typer.Option(metavar="SHARE", help="Dry run: evenly spaced chunks, as 1%, a number of them, or all.")
    ] = "1%",
    workload: Annotated[str | None, typer.Option(help="Dry run: this workload in place of the job's.")] = None,
    calls_outside: Annotated[
        bool, typer.Option("--calls-outside", help="Dry run: also a workload whose map is async, or has limits.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run all of a job again with the deployed code, under its next revision. The outputs of the run before stay.

    With --dry-run: run stored chunks in this process, with the code of this folder, and compare with their results.
    Status then: 0 nothing differs, 1 something differs or cannot be compared, 2 the call makes no sense.
    """
    if not dry_run:
        if not why or as_json:
            end("say --why to run it again, or --dry-run to compare and write nothing", WRONG_CALL)
        _run_again(job, by, why, settings, if_revision, yes=yes)
        return
    try:
        choose_chunks(chunks, 1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with connected(settings) as connections:
        stores = Stores(connections)
        ran = rerun.run_dry(
            stores,
            find_job(stores, job),
            settings,
            chunks=chunks,
            workload=workload,
            calls_outside=calls_outside,
            is_shown=not as_json,
        )
    typer.echo(json.dumps(rerun.run_document(ran)) if as_json else "\n".join(rerun.in_words(ran)))
    if ran.differs:
        raise typer.Exit(PROBLEM_FOUND)


def _run_again(  # noqa: PLR0913 - options of the command
    job: str, by: str, why: str, settings: Path | None, revision: int | None, *, yes: bool
) -> None:
    with connected(settings) as connections:
        stores = Stores(connections)
        found = find_job(stores, job)
        lines = rerun.find_lines(found, settings)
        if not yes and may_act(found, NightAct.RERUN):
            say_of_jobs(stores, NightAct.RERUN, [found])
            typer.confirm("Run it again?", abort=True)
        # The revision that the person saw: a repeated call begins no second run.
        saw = found.revision if revision is None else revision
        begun = stores.job_operator.rerun(found.job, by=by, why=why, revision=saw, lines=lines)
    typer.echo(
        f"job {begun.job} is {begun.state.value} at revision {begun.revision}: `sluice jobs watch {begun.job}`, then "
        f"`sluice jobs diff {begun.job}`"
    )


@app.command("diff")
def diff_runs(
    job: JobArgument,
    *,
    before: Annotated[
        int | None, typer.Option("--from", min=1, help="A revision; else the last of the run before.")
    ] = None,
    now: Annotated[int | None, typer.Option("--to", min=1, help="A revision; else the last one.")] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the totals of two runs of a job by account, as they are stored.

    Status: 0 nothing differs, 1 something differs or cannot be compared, 2 the call makes no sense.
    """
    with connected(settings) as connections:
        stores = Stores(connections)
        reader = stores.diff_reader
        manifests = reader.choose(find_job(stores, job), before, now)
        found = reader.begin(manifests)
        changes = reader.compare(manifests, found)
        if as_json:
            for piece in list_diff_pieces(found, changes):
                typer.echo(piece, nl=False)
            typer.echo()
        else:
            typer.echo("\n".join(diff_in_words(found, changes)))
    if found.differs:
        raise typer.Exit(PROBLEM_FOUND)


def count_work_queues(settings: Path | None) -> int:
    """Return the number of work queues of the installation, by its settings."""
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
        end(f"there is no job {job!r}: `sluice jobs list` shows the last ones")
    return found
