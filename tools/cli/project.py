"""`sluice new` makes a project, and `sluice upgrade` brings one to another release, or back to the one before."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from shared import __version__
from shared.capability import find_known, names_of_settings
from shared.names import RETIRED, RETIRED_OF_AZD, misspelt, unread
from shared.own import FILE as OWN_SETTINGS
from shared.settings import NAMES
from tools.cli.options import PROBLEM_FOUND, WRONG_CALL, end
from tools.project.bases import Bases, run_git
from tools.project.changes import Kind
from tools.project.files import NoReleaseError, Release, carried, read_archive
from tools.project.new import NotEmptyError, make
from tools.project.plan import Change, Project, left_tests, plan
from tools.project.upgrade import ChangedSinceError, finish, pending, prepare

#: The first job of a new project, by the workload that it has. docs/workloads.md has the same.
FIRST_JOB: Final = r"""
    cd {folder}
    make up                             # installs below the folder at first, and stays in this terminal
In another terminal, in the same folder:
    . .venv/bin/activate
    printf '{{"units": %s}}\n' 2 3 4 > sales.ndjson
    sluice submit sales.ndjson --job sales-1 --workload sales --sum units
    sluice jobs watch sales-1
    sluice jobs output sales-1          # {{"units":9}}
Your code is in own/; `make check` and `make test` look at it, and `make deploy` takes it to Azure."""
#: Files of a kind that are named one by one. Of more there is a number.
_MOST_NAMED: Final = 10
#: The name of a setting, as code says it.
_QUOTED_NAME: Final = re.compile(r"""["'](SLUICE_[A-Z0-9_]+)["']""")


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that does not exist, or an empty one.")],
) -> None:
    """Make a project with an example of a workload, and say how to run its first job."""
    try:
        count = make(folder, carried(__version__))
    except NotEmptyError as error:
        end(str(error), WRONG_CALL)
    typer.echo(f"{folder}: {count} files, Sluice {__version__}{FIRST_JOB.format(folder=folder)}")


def upgrade(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The project.")] = Path(),
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the changes. Else they are only shown.")] = False,
    release: Annotated[
        Path | None,
        typer.Option(
            "--release", metavar="FILE", help="The release to come to: a wheel or an archive; else this command's."
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base", metavar="FILE", help="The release that the project has, for merges: a wheel or an archive."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on although git has changes that are not committed.")
    ] = False,
) -> None:
    """Bring a project to this release. Files that you changed are merged, own/ stays, and a conflict writes nothing."""
    try:
        _upgrade(folder, release, base, is_wanted=write, is_forced=force)
    except (NoReleaseError, ChangedSinceError) as error:
        end(str(error), WRONG_CALL)


def _upgrade(folder: Path, to: Path | None, base: Path | None, *, is_wanted: bool, is_forced: bool) -> None:
    if begun := pending(folder):
        _go_on(folder, begun, is_wanted=is_wanted)
        return
    project = Project.read(folder)
    if not is_forced and (
        changed := (run_git(folder, "status", "--porcelain", "--", ".") or b"").decode().splitlines()
    ):
        end(
            f"git has {len(changed)} changes in {folder} that are not committed, such as {changed[0].strip()!r}: commit them, "
            "so that you can see what the upgrade does, or add --force",
            WRONG_CALL,
        )
    ours = carried(__version__)
    wanted = read_archive(to) if to else ours
    changes = plan(project, wanted, Bases(folder, [read_archive(base)] if base else [ours]))
    typer.echo(f"sluice upgrade: {project.version} → {wanted.version}")
    for line in (*_summary(project, changes), *_setting_lines(folder)):
        typer.echo(f"  {line}")
    if conflicts := [one for one in changes if one.kind is Kind.CONFLICT]:
        end(
            f"{len(conflicts)} of your changes stand against the release, and nothing was written. Move them to own/ where "
            "that is possible, or restore these files and make the change again after the upgrade",
            PROBLEM_FOUND,
        )
    if not is_wanted:
        typer.echo("Nothing was written. Add --write to do it.")
        return
    _write(project, wanted, changes)


def _go_on(folder: Path, begun: tuple[str, str], *, is_wanted: bool) -> None:
    typer.echo(f"sluice upgrade: {begun[0]} → {begun[1]} was begun in {folder} and has not ended")
    if not is_wanted:
        typer.echo("Nothing was written. Add --write to end it.")
        return
    finish(folder)
    typer.echo(f"It has ended now: Sluice {begun[1]}. Then: make check && make test")


def _write(project: Project, release: Release, changes: Iterable[Change]) -> None:
    made = [one for one in changes if one.after is not None or one.kind is Kind.REMOVE]
    prepare(project.folder, project.version, release, made)
    finish(project.folder)
    typer.echo(f"Written: Sluice {release.version}. Read CHANGELOG.md, then: make lock && make check && make test")


def _summary(project: Project, changes: list[Change]) -> Iterator[str]:
    numbers = [f"{sum(one.kind is kind for one in changes)} {kind}" for kind in (Kind.REPLACE, Kind.REMOVE, Kind.NEW)]
    yield f"{', '.join(numbers)}; nothing that is in own/ changes"
    for kind, said in (
        (Kind.KEEP, "yours, and kept"),
        (Kind.MERGE, "yours, merged with the release's"),
        (Kind.CONFLICT, "CONFLICT"),
    ):
        found = [one for one in changes if one.kind is kind]
        for one in found[:_MOST_NAMED]:
            yield f"{said}: {one.name}{f' ({one.why})' if one.why else ''}"
        if len(found) > _MOST_NAMED:
            yield f"{said}: {len(found) - _MOST_NAMED} more"
    if left_tests(project, changes):
        yield (
            "tests/ has tests of the engine, and the project does not say which are unchanged: name an archive of your release "
            "by --base, or remove them, for a project needs own/tests alone"
        )


def _setting_lines(folder: Path) -> Iterator[str]:
    """Yield a line for each setting of the project that nothing reads, with its remedy."""
    known = NAMES | names_of_settings(find_known()) | _own_names(folder)
    files = [folder / OWN_SETTINGS, folder / "local.settings.json", *sorted(folder.glob(".azure/*/.env"))]
    for file in files:
        names = list(_names(file)) if file.exists() else []
        where = file.relative_to(folder)
        yield from (f"settings: {one} ({where})" for one in misspelt(names, known))
        for name, remedy in unread(names, known).items():
            said = f"does nothing any more: {remedy}" if name in RETIRED else f"is no setting: {remedy}"
            yield f"settings: {name} {said} ({where})"
        for name in sorted(RETIRED_OF_AZD.keys() & set(names)):
            yield f"settings: {name} does nothing any more: {RETIRED_OF_AZD[name]} ({where})"


def _own_names(folder: Path) -> set[str]:
    """Return the settings that the code of own/ names. It is read and not imported: the command may be another release's."""
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in (folder / "own").rglob("*.py"))
    return {name for text in texts for name in _QUOTED_NAME.findall(text)} - RETIRED.keys()


def _names(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if file.name == ".env":
        yield from (line.partition("=")[0] for line in text.splitlines() if "=" in line)
        return
    try:
        said: Any = json.loads(text)
        yield from said.get("Values", said)
    except (ValueError, AttributeError, TypeError) as error:
        raise NoReleaseError(f"{file} is not JSON with an object of settings: {error}") from error
