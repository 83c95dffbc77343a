"""`sluice migrate`: gives a read model a new version, while its readers and its events go on."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from capabilities.registration.commands import migrate_view as view
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.views import READ_MODELS
from shared.app import Stores
from shared.operating import AuditedAct
from shared.readmodels import Migration, ModelPointer, Report
from shared.settings import Settings
from tools.cli.capabilities import chosen
from tools.cli.options import (
    PROBLEM_FOUND,
    ByOption,
    JsonOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
)
from tools.cli.settings_file import load_connected

app = typer.Typer(
    help="New versions of read models without downtime: docs/processes.md has an example.", no_args_is_help=True
)


def _model(name: str) -> str:
    if name not in READ_MODELS:
        raise typer.BadParameter(f"there is no read model {name!r}: choose {' or '.join(READ_MODELS)}")
    return name


ModelArgument = Annotated[str, typer.Argument(help="The read model.", metavar="MODEL", callback=_model)]
ToOption = Annotated[int, typer.Option("--to", help="The version that the migration leads to.", metavar="N", min=1)]


@app.command()
def plan(model: ModelArgument, to: ToOption, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Rehearse: count the homes, and make some rows in memory. Nothing is written."""
    with _opened(settings, model, is_shown=not as_json) as (_, migration_to):
        found = migration_to(to).plan()
    if as_json:
        typer.echo(json.dumps(view.rehearsal_document(model, to, found)))
    else:
        view.print_rehearsal(model, to, found)


@app.command()
def start(  # noqa: PLR0913 - each option of the command is an argument
    model: ModelArgument,
    to: ToOption,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Build the new version. If it is cut off, type it again: it goes on."""
    with _opened(settings, model, is_shown=not as_json) as (stores, migration_to):
        pointer = _audited(stores, AuditedAct(by, "migrate start", f"{model} {to}", why), migration_to(to).start)
    _tell(pointer, as_json=as_json)


@app.command()
def status(model: ModelArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show the current version, and how far a migration is."""
    with _opened(settings, model, is_shown=False) as (_, migration_to):
        pointer = migration_to(READ_MODELS[model].versions[0].version).read()
    _tell(pointer, as_json=as_json)


@app.command()
def verify(
    model: ModelArgument,
    to: ToOption,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare every row of the new version with the log. Without a difference, it may be switched to."""
    with _opened(settings, model, is_shown=not as_json) as (_, migration_to):
        found = migration_to(to).verify()
    if as_json:
        typer.echo(json.dumps({"is_right": found.is_right, **found.figures, "differences": found.differences}))
    else:
        view.print_verification(model, to, found)
    if not found.is_right:
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def switch(  # noqa: PLR0913 - each option of the command is an argument
    model: ModelArgument,
    to: ToOption,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let readers use the new version. Both versions get the events on, so that `rollback` loses nothing."""
    if not yes:
        typer.confirm(f"let all readers of {model} use version {to}?", abort=True, err=True)
    with _opened(settings, model, is_shown=False) as (stores, migration_to):
        pointer = _audited(stores, AuditedAct(by, "migrate switch", f"{model} {to}", why), migration_to(to).switch)
    _tell(pointer, as_json=as_json)


@app.command()
def rollback(  # noqa: PLR0913 - each option of the command is an argument
    model: ModelArgument,
    to: ToOption,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Let readers use the former version again. --to names the version that the migration leads to."""
    with _opened(settings, model, is_shown=False) as (stores, migration_to):
        pointer = _audited(stores, AuditedAct(by, "migrate rollback", f"{model} {to}", why), migration_to(to).roll_back)
    _tell(pointer, as_json=as_json)


@app.command()
def finish(  # noqa: PLR0913 - each option of the command is an argument
    model: ModelArgument,
    to: ToOption,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the version that readers use, and remove the rows of the other one. This cannot be undone."""
    with _opened(settings, model, is_shown=not as_json) as (stores, migration_to):
        migration = migration_to(to)
        if not yes:
            typer.confirm(view.loss(migration.read()), abort=True, err=True)
        pointer = _audited(stores, AuditedAct(by, "migrate finish", f"{model} {to}", why), migration.finish)
    _tell(pointer, as_json=as_json)


def _audited(stores: Stores, act: AuditedAct, change: Callable[[], ModelPointer]) -> ModelPointer:
    with stores.audit.record(act) as record:
        pointer = change()
        record.result = str(pointer.phase)
    return pointer


@contextmanager
def _opened(
    settings: Path | None, model: str, *, is_shown: bool
) -> Iterator[tuple[Stores, Callable[[int], Migration]]]:
    """Open the installation, or end if it has no registration. Yields what makes the migration to a version."""
    chosen(Settings.parse(load_connected(settings)).capabilities, "registration")
    with connected(settings) as connections, _progress(is_shown=is_shown) as report:
        stores = Stores(connections)
        views = RegistrationStores(stores).views
        yield stores, lambda to: Migration(READ_MODELS[model], to, views, report=report)


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Report]:
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as bar:

        def report(act: str, done: int) -> None:
            if act not in tasks:
                tasks[act] = bar.add_task(act, total=None)
            bar.advance(tasks[act], done)

        yield report


def _tell(pointer: ModelPointer, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(view.pointer_document(pointer)))
    else:
        view.print_pointer(pointer)
