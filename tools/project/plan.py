"""The plan of an upgrade: each file of a project with what becomes of it, before anything is written."""

import ast
import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.project.bases import Bases
from tools.project.changes import LOCKS, Kind, decide, join_documents, join_lock, name_lines
from tools.project.files import MANIFEST, OWN, TESTS, File, NoReleaseError, Release, belongs, sha256

#: Files of own/ that the rest of a project relies on. One that is missing is made, and none is changed.
NEEDED_OF_OWN: Final = (
    "own/README.md",
    "own/__init__.py",
    "own/infra/capabilities.json",
    "own/infra/main.bicep",
    "own/infra/parameters.json",
    "own/requirements.txt",
    "own/ruff.toml",
    "own/settings.json",
)
#: The settings name the example, which such a project does not get.
_EMPTY: Final = {"own/settings.json": b"{}\n"}


@dataclass(frozen=True, slots=True)
class Change:
    """A file and what becomes of it. Without `after` it is removed, or stays."""

    name: str
    kind: Kind
    #: The hash of the person's file: it must still be so when the change is made.
    before: str | None = None
    after: File | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """A person's project: its folder, and the manifest of the release that it has."""

    folder: Path
    version: str
    hashes: dict[str, str]
    tests: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> "Project":
        """Read the manifest of a folder."""
        file = folder / MANIFEST
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            return cls(folder, said["version"], said["files"], said.get("tests", {}))
        except FileNotFoundError as error:
            raise NoReleaseError(
                f"{folder} has no {MANIFEST}, so it is no project of Sluice, or one from before 0.2.0"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoReleaseError(f"{file} cannot be read ({error!r}): take it from git again") from error

    def hash_of(self, name: str) -> str | None:
        """Return the hash of a person's file, or None if there is none."""
        file = self.folder / name
        return sha256(file.read_bytes()) if file.is_file() else None


def plan(project: Project, release: Release, bases: Bases) -> list[Change]:
    """Return what becomes of each file. The manifest is in no change: it is written last."""
    names = sorted({*project.hashes, *release.hashes})
    changes = [_change(name, project, release, bases) for name in names if belongs(name)]
    return [*changes, *_own(project, release), *_tests(project, bases)]


def _change(name: str, project: Project, release: Release, bases: Bases) -> Change:
    mine, old = project.hash_of(name), project.hashes.get(name)
    new = release.files.get(name)
    kind = decide(mine, old, new.hash if new else None)
    if kind is Kind.MERGE and new is not None and mine is not None:
        return _merge(name, project, bases, new, mine)
    if kind is Kind.CONFLICT:
        why = "the release has a file of this name" if old is None else "you changed it, and the release has it no more"
        return Change(name, kind, mine, new, why)
    return Change(name, kind, mine, new if kind in (Kind.NEW, Kind.REPLACE) else None)


def _merge(name: str, project: Project, bases: Bases, new: File, mine: str) -> Change:
    base = bases.find(name, project.hashes[name])
    own = (project.folder / name).read_bytes()
    if name in LOCKS:
        old = base.content.decode() if base else ""
        merged = join_lock(own.decode(), old, new.content.decode()).encode()
        return Change(name, Kind.MERGE, mine, File(merged, new.may_run), "run `make lock`")
    if base is None:
        why = f"both changed it, and its text in {project.version} is not at hand: name an archive by --base"
        return Change(name, Kind.CONFLICT, mine, None, why)
    merged, why = merge_texts(own, base.content, new.content, ("yours", project.version, "the release"))
    if why and name.endswith(".json") and (joined := join_documents(own, base.content, new.content)):
        merged, why = joined, ""
    why = why or _unreadable(name, merged)
    return Change(name, Kind.CONFLICT if why else Kind.MERGE, mine, File(merged, new.may_run), why)


def merge_texts(mine: bytes, base: bytes, new: bytes, labels: tuple[str, str, str]) -> tuple[bytes, str]:
    """Merge three texts by git, and return why that is a conflict, or nothing."""
    git = shutil.which("git")
    if git is None:
        return mine, "both changed it, and git, which merges them, is not on the PATH"
    with tempfile.TemporaryDirectory(prefix="sluice-merge-") as folder:
        files = [Path(folder) / name for name in ("mine", "base", "new")]
        for file, text in zip(files, (mine, base, new), strict=True):
            file.write_bytes(text)
        named = [word for label in labels for word in ("-L", label)]
        command = [git, "merge-file", "-p", *named, *map(str, files)]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - git, by absolute path
    if done.returncode == 0:
        return done.stdout, ""
    if not done.stdout:
        return mine, f"both changed it, and git cannot merge it: {done.stderr.decode(errors='replace').strip()}"
    return (
        done.stdout,
        f"both changed the same lines: {name_lines(done.stdout.decode(errors='replace'))} of the merged text",
    )


def _unreadable(name: str, merged: bytes) -> str:
    """Return why a merged file is of no use, or nothing."""
    try:
        if name.endswith(".py"):
            ast.parse(merged)
        elif name.endswith(".json"):
            json.loads(merged)
        elif name.endswith(".toml"):
            tomllib.loads(merged.decode())
    except (SyntaxError, ValueError) as error:
        return f"the merged text cannot be read: {error}"
    return ""


def _own(project: Project, release: Release) -> Iterator[Change]:
    is_new = not (project.folder / OWN).exists()
    for name in NEEDED_OF_OWN:
        if name in release.files and project.hash_of(name) is None:
            empty = _EMPTY.get(name) if is_new else None
            yield Change(name, Kind.NEW, None, File(empty) if empty else release.files[name])


def _tests(project: Project, bases: Bases) -> Iterator[Change]:
    """Yield the tests of the engine that came with a copy of the repository. A project has none of them."""
    for name, old in sorted({**bases.tests(), **project.tests}.items()):
        if name.startswith(TESTS) and project.hash_of(name) == old:
            yield Change(name, Kind.REMOVE, old)


def left_tests(project: Project, changes: list[Change]) -> bool:
    """Return whether tests of the engine stay in the project, because nothing says which are unchanged."""
    gone = {one.name for one in changes if one.kind is Kind.REMOVE}
    name = "tests/left_out.py"
    return (project.folder / name).exists() and name not in gone
