"""`sluice submit`: drops a file of transactions as a job, and prints the next commands."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Final, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from shared.app import Stores
from shared.grammar import ROOMS_A_TICK, check_bound, read_rooms, room_job
from shared.payload import DEFAULT_WORKLOAD, OPTIONS, Form, SourceFiles, SubmissionOptions
from shared.publish import ITEMS, Publisher, Sent
from tools.cli import job_view as view
from tools.cli.cost_idle import ROOMS
from tools.cli.jobs import count_work_queues
from tools.cli.options import JsonOption, SettingsOption, connected, moment, room_name
from tools.cli.screen import Screen
from tools.cli.settings_file import load
from tools.cli.submit_checks import SameJob, check_fit, check_gate, check_workload, say
from tools.cli.transactions_file import (
    ColumnsOption,
    CountedFile,
    DelimiterOption,
    FileForm,
    FileOrJobs,
    NumbersOption,
)
from tools.cli.watching import STATUS_WORDS, Watch, Watched, refused_lines, status_of

#: How much of a file's hash is in the job id that is made of it.
_HASH_SHOWN: Final = 12
_LONGEST_STEM: Final = 60


def _help(name: str) -> str:
    """Return the text of an option as the docs have it, as a sentence."""
    text = next(option.help for option in OPTIONS if option.name == name).replace("`", "")
    return f"{text[0].upper()}{text[1:]}."


def _checked_bound(text: str | None) -> str | None:
    try:
        return None if text is None else check_bound(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="JOBS",
        help="In place of a file: the jobs whose output lines are the transactions, with commas between. A --sum is "
        "then NAME=THEIRS: as much as they accepted of THEIRS.",
    ),
]
FilesOption = Annotated[
    SourceFiles | None, typer.Option(help="With --from: which lines; by default `lines` where a source has them.")
]


def submit(  # noqa: PLR0913 - each option of the command is an argument
    file: FileOrJobs = None,
    *,
    from_jobs: FromOption = None,
    files: FilesOption = None,
    csv: DelimiterOption = None,
    columns: ColumnsOption = None,
    numbers: NumbersOption = None,
    job: Annotated[
        str | None, typer.Option(help="The job's id; by default made from the file's name and content.")
    ] = None,
    room: Annotated[
        str, typer.Option(help="The room to drop it into; without it the common one.", callback=room_name)
    ] = "",
    workload: Annotated[str, typer.Option(help=_help("workload"))] = DEFAULT_WORKLOAD,
    gate: Annotated[str | None, typer.Option(help=_help("gate"))] = None,
    deadline: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help=_help("deadline")),
    ] = None,
    most_rejected: Annotated[
        str | None,
        typer.Option("--most-rejected", metavar="N|N%", help=_help("most_rejected"), callback=_checked_bound),
    ] = None,
    sums: Annotated[
        list[str] | None,
        typer.Option("--sum", help="A field to add up exactly and to declare the sum of; may be repeated."),
    ] = None,
    declared: Annotated[
        list[str] | None,
        typer.Option(
            "--declare",
            metavar="FIELD=AMOUNT",
            help="A total that another system knows; items=N is the number of transactions. May be repeated.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read every line strictly before anything is sent, as with --sum.")
    ] = False,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit/--no-fit", help="Send nothing if none of the first 10,000 lines fits the workload of these settings."
        ),
    ] = True,
    after: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help=f"{_help('after')} One JOB each time; may be repeated.")
    ] = None,
    after_parked: Annotated[
        bool, typer.Option("--after-parked", help="A job that it waits for may have parked transactions.")
    ] = False,
    night: Annotated[str | None, typer.Option(help=_help("night"))] = None,
    hint: Annotated[
        bool, typer.Option("--hint/--no-hint", help="Tell the app to look at once. Else its next poll finds the job.")
    ] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job's end, and end with its status.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="With --wait: seconds to wait at most; else until the job ends.")
    ] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of transactions as one job. The same file again is the same job and counts once."""
    declare = _totals(declared or (), sums or ())
    added = [name.partition("=")[0] for name in sums or ()]
    options: SubmissionOptions = {
        "workload": workload,
        "gate": gate,
        "deadline": deadline,
        "most_rejected": most_rejected,
        "after": [_in_room(name, room) for name in after] if after else None,
        "after_parked": after_parked or None,
        "night": night,
    }
    send: Callable[[Publisher], Sent]
    form = FileForm(csv, columns, tuple(numbers or ()))
    if from_jobs is not None:
        if file is not None or not job or declare or check or csv or columns or numbers:
            raise typer.BadParameter("--from takes --job, and no file nor what is said of one", param_hint="--from")
        jobs = [_in_room(name, room) for name in from_jobs.split(",")]
        of_sources = {own: theirs or own for own, _, theirs in (one.partition("=") for one in sums or ())}
        send = partial(_send_jobs, job=job, jobs=jobs, sums=of_sources, files=files, options=options)
    elif file is None or files:
        raise typer.BadParameter("give a FILE, or --from JOBS, where --files goes with", param_hint="FILE")
    else:
        job = job or _name_job(file)
        send = partial(
            _send_file,
            file=file,
            form=form,
            is_shown=not as_json,
            job=job,
            begun=_Begun(room_job(room, job), is_shown=not as_json),
            sums=sums or (),
            declare=declare,
            check=check,
            options=options,
        )
    with connected(settings) as connections:
        stores = Stores(connections)
        if gate:
            check_gate(stores, gate)
        known = check_workload(load(settings), settings, workload, added)
        check_fit(known, form, file if fit else None)
        same = SameJob(stores, room, is_needed=wait)
        with Publisher.connect(connections, room, hints=hint) as publisher:
            publisher.before_send = same
            sent = send(publisher)
        _warn(sent, room, load(settings), is_hint_due=hint and connections.has_bus)
        if not as_json:
            typer.echo(_in_words(sent, room, same))
        reader, name = stores.job_reader(count_work_queues(settings)), room_job(room, sent.job)
        watch = Watch(reader, name, timeout, is_shown=not as_json, hashes=same.hashes)
        watched = watch.run() if wait else None
    if as_json:
        typer.echo(_as_json(sent, room, same, watched))
    if watched:
        _end(watched, is_shown=not as_json)


submit.__doc__ = (
    f"{submit.__doc__}\n\nStatus: 0 sent, 1 not sent, 2 the call makes no sense. With --wait: {STATUS_WORDS}."
)


def _in_room(name: str, room: str) -> str:
    """Return the name of a job as its room's publishers have it, also where a person copied its whole id."""
    return name.removeprefix(room_job(room, "")) if room else name


def _send_jobs(  # noqa: PLR0913 - the parts of a job from others
    publisher: Publisher,
    *,
    job: str,
    jobs: Sequence[str],
    sums: Mapping[str, str],
    files: SourceFiles | None,
    options: SubmissionOptions,
) -> Sent:
    return publisher.submit_jobs(job=job, jobs=jobs, sums=sums, files=files, **options)


def _name_job(file: Path) -> str:
    if not file.is_file():
        raise typer.BadParameter("it is no file that can be read twice: name its job", param_hint="--job")
    return job_id(file)


def _send_file(  # noqa: PLR0913 - the parts of a job from a file
    publisher: Publisher,
    *,
    file: Path,
    form: FileForm,
    begun: "_Begun",
    is_shown: bool,
    options: SubmissionOptions,
    **claims: Any,
) -> Sent:
    publisher.on_stretch = begun
    with file.open("rb") as opened, _progress(is_shown=is_shown) as progress:
        task = progress.add_task(f"sending {file.name}", total=file.stat().st_size if file.is_file() else None)
        counted = cast("IO[bytes]", CountedFile(opened, lambda size: progress.advance(task, size)))
        return form.submit(publisher, file, counted, **claims, **options)


class _Begun:
    """Says that a job began before all of it was sent, and where it goes on."""

    def __init__(self, job: str, *, is_shown: bool) -> None:
        self._job, self._is_shown, self._found = job, is_shown, 0

    def __call__(self, number: int, is_found: bool, /) -> None:  # noqa: FBT001 - as the publisher calls it
        if is_found:
            self._found = number
        elif self._is_shown and number == 1:
            say(f"job {self._job} began with its first stretch; watch it with: sluice jobs watch {self._job}")
        elif self._is_shown and number == self._found + 1:
            say(f"{self._found} of its stretches are there and are the same; goes on with number {number}")


def _totals(declared: Sequence[str], sums: Sequence[str]) -> Mapping[str, str]:
    """Return the declared totals by their names, or refuse another text."""
    totals = {name: amount for name, equals, amount in (one.rpartition("=") for one in declared) if name and equals}
    if len(totals) != len(declared):
        raise typer.BadParameter("give each total once, as FIELD=AMOUNT or items=N", param_hint="--declare")
    if not totals.get(ITEMS, "1").isdecimal():
        raise typer.BadParameter(f"{totals[ITEMS]!r} is no number of transactions", param_hint="--declare")
    if twice := set(totals) & set(sums):
        raise typer.BadParameter(f"{min(twice)} is added up by --sum too: leave one out", param_hint="--declare")
    return totals


def _warn(sent: Sent, room: str, environ: Mapping[str, str], *, is_hint_due: bool) -> None:
    if is_hint_due and not sent.is_hinted:
        say("the bus took no hint: the app finds the job at its next poll")
    if room and not sent.is_hinted:
        minutes = -(-len(read_rooms(ROOMS, environ.get(ROOMS, ""), lambda _fault: None)) // ROOMS_A_TICK) or 1
        then = (
            f"{minutes} minutes, and every minute for a day after a message was found so" if minutes > 1 else "minute"
        )
        say(f"without a hint room {room!r} is looked at every {then}")
    for field in (field for field, total in sent.sums.items() if not total and sent.items):
        say(f"the sum of {field} is 0: if no transaction has that field, check its spelling")


def _end(watched: Watched, *, is_shown: bool) -> None:
    """Show how the job ended, or why it is missing, and end with its status."""
    if is_shown:
        _show_end(watched)
    if status := status_of(watched, is_own=True):
        raise typer.Exit(status)


def _show_end(watched: Watched) -> None:
    if watched.is_others:
        say("another submission of this id was accepted first, with other content: this one is refused and parked")
    if watched.job is not None:
        Screen().show(view.job_table(watched.job, datetime.now(UTC)))
    elif watched.refused:
        typer.echo(view.refused_words(watched.refused[0].claimed, watched.refused), err=True)
    else:
        say("the job was not accepted in time")
    for line in refused_lines(watched):
        say(line)


def job_id(file: Path) -> str:
    """Return an id that the same file always gets, and no other content."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", file.name.lower().partition(".")[0]).strip("-._")[:_LONGEST_STEM] or "job"
    with file.open("rb") as opened:
        return f"{stem}-{hashlib.file_digest(opened, 'sha256').hexdigest()[:_HASH_SHOWN]}"


def _progress(*, is_shown: bool) -> Progress:
    # On stderr, so that the output can be piped; nothing is drawn where there is no terminal.
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not is_shown or not console.is_terminal,
    )


def _in_words(sent: Sent, room: str, same: SameJob) -> str:
    where, known = f"in blob {sent.blob}" if sent.blob else "in the message", same.known
    if sent.stretches:
        where = f"in {sent.stretches:,} stretches, {sent.found:,} of which were there"
    is_again = known is not None and sent.found == sent.stretches
    again = (
        f", already submitted: the same content is {known.state.value} and counts once" if known and is_again else ""
    )
    if sent.form is Form.JOBS:
        name = room_job(room, sent.job)
        return (
            f"sent job {name}{again}: it starts when its sources are complete\nwatch it with: sluice jobs watch {name}"
        )
    lines = [
        f"sent {sent.items:,} transactions as job {room_job(room, sent.job)}{again}",
        f"{sent.stored_bytes:,} bytes in {sent.frames:,} frames, {where}",
        f"checked: {_checked(sent)}; the workers read every line",
        *(f"declared sum of {field}: {total:f}" for field, total in sent.sums.items()),
        f"watch it with: sluice jobs watch {room_job(room, sent.job)}",
    ]
    return "\n".join(lines)


def _checked(sent: Sent) -> str:
    if sent.checked == sent.items:
        return f"all {sent.items:,} lines"
    return f"the first {sent.checked:,} of {sent.items:,} lines"


def _as_json(sent: Sent, room: str, same: SameJob, watched: Watched | None) -> str:
    end = watched.job.state.value if watched and watched.job and not watched.is_others else None
    return json.dumps(
        {
            "job": room_job(room, sent.job),
            "form": sent.form,
            "items": sent.items,
            "sums": {field: f"{total:f}" for field, total in sent.sums.items()},
            "frames": sent.frames,
            "stored_bytes": sent.stored_bytes,
            "message_bytes": sent.message_bytes,
            "message_id": sent.message_id,
            "blob": sent.blob,
            "checked": sent.checked,
            "hinted": sent.is_hinted,
            "stretches": sent.stretches,
            "already": same.known and same.known.state.value,
            "end": end,
        }
    )
