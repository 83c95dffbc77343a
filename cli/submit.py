"""`sluice submit`: drops a file of transactions as a job, and prints the next commands."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from cli.options import JsonOption, SettingsOption, connected, moment, room_name
from cli.settings_file import load
from shared.app import Stores
from shared.errors import UnknownWorkloadError
from shared.gate import GateState
from shared.grammar import room_job
from shared.payload import DEFAULT_WORKLOAD, OPTIONS
from shared.publish import Publisher, Sent, read_file
from shared.workloads import Workloads

#: How much of a file's hash is in the job id that is made of it.
_HASH_SHOWN: Final = 12
_LONGEST_STEM: Final = 60
_WORKLOADS: Final = "SLUICE_WORKLOADS"


def _help(name: str) -> str:
    """Return the text of an option as the docs have it, as a sentence."""
    text = next(option.help for option in OPTIONS if option.name == name).replace("`", "")
    return f"{text[0].upper()}{text[1:]}."


def submit(  # noqa: PLR0913 - each option of the command is an argument
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            readable=True,
            metavar="FILE",
            help="Newline-delimited JSON, plain or as .gz or .zst.",
        ),
    ],
    *,
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
    sums: Annotated[
        list[str] | None,
        typer.Option("--sum", help="A field to add up exactly and to declare the sum of; may be repeated."),
    ] = None,
    hint: Annotated[
        bool, typer.Option("--hint/--no-hint", help="Tell the app to look at once. Else its next poll finds the job.")
    ] = True,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of transactions as one job. The same file again is the same job and counts once."""
    with connected(settings) as connections:
        if gate and Stores(connections).gates.read(gate) == GateState():
            typer.echo(
                f"sluice: gate {gate!r} was never opened or closed: the job waits until "
                f"`sluice gate open {gate}` (check the spelling)",
                err=True,
            )
        with (
            Publisher.connect(connections, room, hints=hint) as publisher,
            file.open("rb") as opened,
            _progress(is_shown=not as_json) as progress,
        ):
            _warn_of_refusal(load(settings), workload, sums or ())
            # Closed by `opened`: the wrapper only counts.
            counted: IO[bytes] = progress.wrap_file(opened, file.stat().st_size, description=f"sending {file.name}")
            sent = publisher.submit_lines(
                job=job or job_id(file),
                lines=read_file(counted),
                workload=workload,
                gate=gate,
                deadline=deadline,
                sums=sums or (),
            )
        if hint and connections.has_bus and not sent.is_hinted:
            typer.echo("sluice: the bus took no hint: the app finds the job at its next poll", err=True)
    for field in (field for field, total in sent.sums.items() if not total and sent.items):
        typer.echo(f"sluice: the sum of {field} is 0: if no transaction has that field, check its spelling", err=True)
    typer.echo(_as_json(sent, room) if as_json else _in_words(sent, room))


def _warn_of_refusal(settings: Mapping[str, str], workload: str, sums: Sequence[str]) -> None:
    """Say what the app will refuse, where the settings name its workloads and this machine has their code."""
    if not settings.get(_WORKLOADS):
        return
    try:
        known = Workloads.load(settings[_WORKLOADS], settings)
    except Exception:  # noqa: BLE001 - a publisher need not have the code, which may raise anything
        return
    try:
        added = known.find(workload).sums
    except UnknownWorkloadError as error:
        typer.echo(f"sluice: the app will park this submission until it has the workload: {error}", err=True)
        return
    if unknown := sorted(set(sums) - set(added)):
        typer.echo(
            f"sluice: the app will refuse this submission: workload {workload} adds up {', '.join(added) or 'nothing'}, "
            f"not {', '.join(unknown)}",
            err=True,
        )


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


def _in_words(sent: Sent, room: str) -> str:
    where = f"in blob {sent.blob}" if sent.blob else "in the message"
    lines = [
        f"sent {sent.items:,} transactions as job {room_job(room, sent.job)}",
        f"{sent.stored_bytes:,} bytes in {sent.frames:,} frames, {where}",
        *(f"declared sum of {field}: {total:f}" for field, total in sent.sums.items()),
        f"watch it with: sluice jobs watch {room_job(room, sent.job)}",
    ]
    return "\n".join(lines)


def _as_json(sent: Sent, room: str) -> str:
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
            "hinted": sent.is_hinted,
        }
    )
