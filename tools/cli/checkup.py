"""`sluice doctor`: whether an installation has all that Sluice needs, with the settings of the deployed one."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from tools.cli.deep import check_deeply
from tools.cli.doctor import Finding, State
from tools.cli.drift import look
from tools.cli.options import PROBLEM_FOUND, JsonOption, SettingsOption, YesOption
from tools.cli.screen import Screen, clean


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
