"""The files of a release: which belong to a project, their manifest, and the archive that the wheel carries.

Standard library only, because the wheel is built with it. Tests of the engine are in no project.
"""

import fnmatch
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

#: The version of a project and the SHA-256 of each file that it has of that release.
MANIFEST: Final = ".sluice.json"
#: The archive within the wheel's package.
ARCHIVE: Final = "project.zip"
#: The folder of a person's own code: an upgrade never touches it.
OWN: Final = "own/"
#: The engine's own tests and benchmarks.
TESTS: Final = (
    "tests/",
    "tools/packages/functions-local-host/tests/",
    "tools/packages/servicebus-local/tests/",
)
_APP: Final = "function_app.py"
#: The same files make the same archive, whenever it is made.
_MADE_AT: Final = (1980, 1, 1, 0, 0, 0)
_RUNS: Final = 0o111


class NoReleaseError(Exception):
    """Raised when a file is no archive of a release, or a folder no project."""


@dataclass(frozen=True, slots=True)
class File:
    """The content of a file, and whether it may be run."""

    content: bytes
    may_run: bool = False

    @property
    def hash(self) -> str:
        """The SHA-256 of the content."""
        return sha256(self.content)


@dataclass(frozen=True, slots=True)
class Release:
    """The files of a release by name, those of the manifest and those of own/."""

    version: str
    files: Mapping[str, File]
    #: Tests that an archive of the repository has, and a project has not.
    tests: Mapping[str, File]

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each file that the release replaces in a project."""
        return {name: one.hash for name, one in self.files.items() if belongs(name)}


def sha256(content: bytes) -> str:
    """Return the hash of a content, as the manifest has it."""
    return hashlib.sha256(content).hexdigest()


def belongs(name: str) -> bool:
    """Return whether a file of a release is replaced by the next one."""
    return name != MANIFEST and not name.startswith((OWN, *TESTS))


def manifest(version: str, files: Mapping[str, bytes]) -> str:
    """Return the manifest's text. The hashes of tests are there for copies of the whole repository."""
    hashes = {name: sha256(files[name]) for name in sorted(files) if belongs(name)}
    tests = {name: sha256(files[name]) for name in sorted(files) if name.startswith(TESTS)}
    return json.dumps({"version": version, "files": hashes, "tests": tests}, indent=1) + "\n"


def tree(root: Path) -> Iterator[str]:
    """Yield the names of a folder's files, without those that git would ignore."""
    ignored = [
        line.strip().strip("/")
        for line in (root / ".gitignore").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ] + [".git", "build"]
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = sorted(name for name in folders if not _is_ignored(name, ignored))
        yield from ((here / name).as_posix() for name in sorted(names) if not _is_ignored(name, ignored))


def _is_ignored(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def release_of(root: Path, version: str) -> Release:
    """Return the release that a folder of the repository is."""
    found = {name: _file(root / name) for name in tree(root) if name != MANIFEST}
    return _release(version, found)


def _file(path: Path) -> File:
    return File(path.read_bytes(), may_run=bool(path.stat().st_mode & _RUNS))


def _release(version: str, found: Mapping[str, File]) -> Release:
    files = {name: one for name, one in found.items() if not name.startswith(TESTS)}
    text = manifest(version, {name: one.content for name, one in files.items()})
    tests = {name: one for name, one in found.items() if name.startswith(TESTS)}
    return Release(version, files | {MANIFEST: File(text.encode())}, tests)


def write_archive(release: Release, to: Path) -> None:
    """Write the archive of a release."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in sorted(release.files.items()):
            info = zipfile.ZipInfo(name, _MADE_AT)
            info.external_attr = (0o755 if one.may_run else 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, one.content)


def read_archive(file: Path) -> Release:
    """Return the release of an archive: zip, tar, or a wheel that carries one."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NoReleaseError(f"cannot read {file}: {error.strerror}") from error
    if zipfile.is_zipfile(io.BytesIO(content)):
        found = _unzip(content)
        inside = found.get(f"sluice/{ARCHIVE}")
        found = _unzip(inside.content) if inside else found
    elif tarfile.is_tarfile(io.BytesIO(content)):
        found = _untar(content)
    else:
        raise NoReleaseError(f"{file} is neither a zip, nor a tar, nor a wheel")
    return _read(file, _without_top(found))


def _read(file: Path, found: Mapping[str, File]) -> Release:
    try:
        said = json.loads(found[MANIFEST].content)
        version = str(said["version"])
    except (KeyError, ValueError, TypeError) as error:
        raise NoReleaseError(
            f"{file} holds no release of Sluice: it has no {MANIFEST} with a version. A wheel has one from 0.3.0 on; for 0.2.0 "
            "make an archive of the repository, such as by `git archive 0.2.0`"
        ) from error
    release = _release(version, {name: one for name, one in found.items() if name != MANIFEST})
    # The release's own manifest, unless it is that of the release before, as between two releases.
    is_its_own = said.get("files") == release.hashes
    return replace(release, files={**release.files, MANIFEST: found[MANIFEST]}) if is_its_own else release


def _unzip(content: bytes) -> dict[str, File]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {
            one.filename: File(archive.read(one), may_run=bool((one.external_attr >> 16) & _RUNS))
            for one in archive.infolist()
            if not one.is_dir()
        }


def _untar(content: bytes) -> dict[str, File]:
    found: dict[str, File] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for one in archive:
            if one.isfile() and (opened := archive.extractfile(one)):
                found[one.name.removeprefix("./")] = File(opened.read(), may_run=bool(one.mode & _RUNS))
    return found


def _without_top(found: Mapping[str, File]) -> Mapping[str, File]:
    """Return the files without the one folder that they are in, as a hosting service packs them."""
    tops = {name.partition("/")[0] for name in found}
    if _APP in found or len(tops) != 1:
        return found
    return {name.partition("/")[2]: one for name, one in found.items()}


def carried(version: str) -> Release:
    """Return the release that this program is of: the wheel's archive, or the clone that it is installed from."""
    folder = Path(__file__).resolve().parents[2]
    if (folder / ARCHIVE).exists():
        return read_archive(folder / ARCHIVE)
    return release_of(folder, version)
