"""`sluice workload`: tries the promises of a workload on a file of sample data. It needs no stack."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from shared.errors import RefusedError
from shared.promises import Report, check_named
from tools.cli.loaded import load_workloads
from tools.cli.options import PROBLEM_FOUND, WRONG_CALL, JsonOption, SettingsOption
from tools.cli.screen import clean
from tools.cli.settings_file import add_app_to_path, load
from tools.cli.submit_checks import say
from tools.cli.transactions_file import (
    ColumnsOption,
    CountedFile,
    DelimiterOption,
    FileArgument,
    FileForm,
    NumbersOption,
)

app = typer.Typer(
    help="Workloads of your own.\n\nStatus: 0 every promise is kept, 1 one is broken, 2 the call makes no sense.",
    no_args_is_help=True,
)


@app.callback()
def root() -> None:
    """Try workloads of your own."""


@app.command()
def check(  # noqa: PLR0913 - each option of the command is an argument
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in SLUICE_WORKLOADS: `module:Class`, or `billing`.")],
    file: FileArgument,
    settings: SettingsOption = None,
    *,
    csv: DelimiterOption = None,
    columns: ColumnsOption = None,
    numbers: NumbersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try each promise of docs/workloads.md on sample data, and show the smallest sample that breaks one.

    `map` is called for real, some thirty times for a line. A large file is sampled.
    """
    found = load(settings)
    add_app_to_path(settings)
    _load(name, found)
    with file.open("rb") as opened, _progress(is_shown=not as_json) as progress:
        task = progress.add_task(f"reading {file.name}", total=file.stat().st_size)
        counted = CountedFile(opened, lambda size: progress.advance(task, size))
        form = FileForm(csv, columns, tuple(numbers or ()))
        lines = _lines(form.read(cast("IO[bytes]", counted), file), file)
        report = check_named(name, found, lines, lambda says: progress.update(task, description=f"trying: {says}"))
    if not report.measured.lines:
        _refuse(f"{file} has no line: give a file of newline-delimited JSON, CSV or Parquet")
    typer.echo(json.dumps(_document(name, report)) if as_json else _in_words(name, file, report))
    if report.findings:
        raise typer.Exit(PROBLEM_FOUND)


def _load(name: str, settings: Mapping[str, str]) -> None:
    """End the command if the app could not load the workload."""
    found = list(load_workloads(name, settings))
    if len(found) != 1:
        _refuse(f"{name!r} names {len(found)} workloads, expected one: write module:Class")


def _lines(numbered: Iterator[tuple[int, bytes]], path: Path) -> Iterator[bytes]:
    try:
        for _, line in numbered:
            yield line
    except RefusedError as error:
        _refuse(f"{path} cannot be read: {error}")


def _refuse(words: str) -> NoReturn:
    say(words)
    raise typer.Exit(WRONG_CALL)


def _progress(*, is_shown: bool) -> Progress:
    # On stderr, so that the output can be piped; nothing is drawn where there is no terminal.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    return Progress(*columns, console=console, transient=True, disable=not is_shown or not console.is_terminal)


def _in_words(name: str, file: Path, report: Report) -> str:
    lines = [f"{name} on {report.measured.lines:,} lines of {file.name}", *str(report).splitlines()]
    return "\n".join(clean(line).plain for line in lines)


def _document(name: str, report: Report) -> dict[str, Any]:
    found = report.measured
    return {
        "workload": name,
        "lines": found.lines,
        "ran": found.ran,
        "tried": len(found.sample),
        "random_seed": report.random_seed,
        "rejected": found.rejected.total(),
        "counts": found.rejected,
        "microseconds": found.seconds_each * 1e6,
        "chunk_lines": found.chunk[0],
        "chunk_bytes": found.chunk[1],
        "largest_job": found.largest_job,
        "promises": [
            {
                "promise": one.promise,
                "says": one.says,
                "state": one.state,
                "found": one.found,
                "remedy": one.remedy,
                "sample": [line.decode(errors="replace") for line in one.lines],
            }
            for one in report.trials
        ],
    }
