"""The `sluice` command: its options, its output, its exit status. Each command has a module of its own."""

import json
import logging
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from shared import __version__
from shared.errors import SettingsError, SluiceError
from tools.cli import cost, gate, ids, jobs, parked, tune, workload
from tools.cli.audit import audit
from tools.cli.capabilities import Groups
from tools.cli.deep import check_deeply
from tools.cli.doctor import Finding, State
from tools.cli.drift import look
from tools.cli.options import PROBLEM_FOUND, WRONG_CALL, JsonOption, SettingsOption, YesOption
from tools.cli.project import new, upgrade
from tools.cli.provision import provision
from tools.cli.publisher_env import publisher_env
from tools.cli.screen import Screen, clean
from tools.cli.settings_file import NoSettingsError
from tools.cli.submit import submit
from tools.cli.watching import STATUS_WORDS
from tools.cli.web import web
from tools.cli.worker import worker

app = typer.Typer(
    cls=Groups,
    help="Operate Sluice. It reads the app's own settings: the environment, else those of a running `make up`, else "
    "local.settings.json.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)

app.add_typer(jobs.app, name="jobs")
app.add_typer(gate.app, name="gate")
app.add_typer(parked.app, name="parked")
app.add_typer(ids.app, name="ids")
app.add_typer(cost.app, name="cost")
app.add_typer(tune.app, name="tune")
app.add_typer(workload.app, name="workload")
app.command()(audit)
app.command()(new)
app.command()(upgrade)
app.command()(provision)
app.command()(publisher_env)
app.command(
    help=f"{submit.__doc__}\n\nStatus: 0 sent, 1 not sent, 2 the call makes no sense. With --wait: {STATUS_WORDS}."
)(submit)
app.command()(web)
app.command()(worker)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Operate Sluice."""


@app.command()
def doctor(
    settings: SettingsOption = None,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Check what Sluice relies on of storage and bus, in places of its own.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="With --deep: one property or service; may be repeated.", metavar="NAME"),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check that every entity exists, responds and is set as deployed, and what the app and its host are set to."""
    if deep:
        check_deeply(settings, only or (), is_sure=yes, as_json=as_json)
        return
    findings = look(settings)
    problems = [finding for finding in findings if finding.problem]
    if as_json:
        typer.echo(json.dumps({"ok": not problems, "findings": [asdict(finding) for finding in findings]}))
    else:
        Screen().show(_table(findings))
        unchecked = sum(finding.state is State.UNCHECKED for finding in findings)
        right = len(findings) - len(problems) - unchecked
        typer.echo(f"{right} of {len(findings)} are right" + (f", {unchecked} not checked" if unchecked else ""))
    if problems:
        raise typer.Exit(PROBLEM_FOUND)


def _table(findings: list[Finding]) -> Table:
    table = Table("kind", "name", "state", title="What Sluice needs")
    for finding in findings:
        table.add_row(finding.kind, finding.name, clean(finding.problem or finding.note or "ok"))
    return table


def main() -> None:
    """Run the command. A fault of the call or the settings is one line."""
    # The error repeats the library's log lines, and a person needs them once.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        app()
    except (SettingsError, NoSettingsError) as error:
        typer.echo(f"sluice: {error}", err=True)
        sys.exit(WRONG_CALL)
    except SluiceError as error:
        typer.echo(f"sluice: {error}", err=True)
        sys.exit(PROBLEM_FOUND)
