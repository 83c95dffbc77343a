"""Carries out an upgrade: first all of it in a folder apart, then file by file, and the manifest last.

A process that is killed before the folder is whole leaves a project that was not touched. Killed later, the same command
goes on with the folder, so that the end is the same.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tools.project.changes import Kind
from tools.project.files import MANIFEST, Release, sha256
from tools.project.plan import Change

#: Where the new files wait, below the project: git ignores the folder.
APART: Final = Path(".stack") / "upgrade"
_HALF: Final = Path(".stack") / "upgrade.half"
_PLAN: Final = "plan.json"


class ChangedSinceError(Exception):
    """Raised when a file is neither as it was when the upgrade began, nor as the upgrade makes it."""


def prepare(folder: Path, version: str, release: Release, changes: Iterable[Change]) -> None:
    """Put all new files and the list of changes into the folder apart. Its last name is its commit."""
    half = folder / _HALF
    shutil.rmtree(half, ignore_errors=True)
    (half / "files").mkdir(parents=True)
    changes = [*changes, _manifest(folder, release)]
    steps = [_step(half, number, one) for number, one in enumerate(changes)]
    (half / _PLAN).write_text(json.dumps({"from": version, "to": release.version, "steps": steps}), encoding="utf-8")
    # Without a list there: what an upgrade that ended left behind.
    shutil.rmtree(folder / APART, ignore_errors=True)
    half.rename(folder / APART)


def _manifest(folder: Path, release: Release) -> Change:
    mine = folder / MANIFEST
    return Change(MANIFEST, Kind.REPLACE, before=sha256(mine.read_bytes()), after=release.files[MANIFEST])


def _step(half: Path, number: int, one: Change) -> dict[str, Any]:
    if one.after is not None:
        file = half / "files" / str(number)
        file.write_bytes(one.after.content)
        file.chmod(0o755 if one.after.may_run else 0o644)
    return {"name": one.name, "before": one.before, "after": one.after.hash if one.after else None}


def pending(folder: Path) -> tuple[str, str] | None:
    """Return the releases of an upgrade that was begun and has not ended, or None."""
    try:
        said = json.loads((folder / APART / _PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return said["from"], said["to"]


def finish(folder: Path) -> None:
    """Make the changes of the folder apart that are not made yet."""
    apart = folder / APART
    steps = json.loads((apart / _PLAN).read_text(encoding="utf-8"))["steps"]
    if changed := [step["name"] for step in steps if _now(folder, step["name"]) not in (step["before"], step["after"])]:
        raise ChangedSinceError(
            f"{', '.join(changed[:3])} changed since the upgrade began: restore it, or give the upgrade up by removing {apart}"
        )
    for number, step in enumerate(steps):
        if _now(folder, step["name"]) != step["after"]:
            _make(folder, step["name"], apart / "files" / str(number) if step["after"] else None)
    # The list first: without it nothing is pending.
    (apart / _PLAN).unlink()
    shutil.rmtree(apart)


def _now(folder: Path, name: str) -> str | None:
    file = folder / name
    return sha256(file.read_bytes()) if file.is_file() else None


def _make(folder: Path, name: str, new: Path | None) -> None:
    target = folder / name
    if new is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        new.replace(target)
        return
    target.unlink()
    for parent in target.relative_to(folder).parents:
        # A folder that is empty now goes too.
        if parent == Path() or any((folder / parent).iterdir()):
            break
        (folder / parent).rmdir()
