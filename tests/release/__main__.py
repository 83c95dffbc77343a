"""`make release`: freezes the version of the tree, from what is committed. It publishes nothing.

Written, to be committed and tagged together: the golden documents and the surface of the release, its wheel and the driver of
the test of mixtures, and the manifest. Everything is made in a folder apart, and put in its place at the end.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shared import __version__
from tests.golden import __main__ as golden
from tests.release import manifest, surface
from tests.release.wheel import build
from tools.local.paths import ROOT
from tools.project.files import MANIFEST, manifest as manifest_text

WHEELS = ROOT / "tests" / "versions"
CHANGELOG = ROOT / "CHANGELOG.md"
DRIVER = "driver.py"


class RefusedError(Exception):
    """Raised when the tree is not to be released as it is."""


def main():
    """Freeze the version, or say what is in the way."""
    try:
        refuse_unready(__version__)
        with tempfile.TemporaryDirectory(prefix="sluice-release-") as folder:
            made = make(__version__, Path(folder))
    except RefusedError as error:
        print(f"sluice release: {error}", file=sys.stderr)  # noqa: T201 - a command prints
        return 1
    for file in made:
        print(f"wrote {file.relative_to(ROOT)}")  # noqa: T201 - a command prints
    print(f"Commit these and tag the commit {__version__}; the wheel is what the release offers.")  # noqa: T201 - a command prints
    return 0


def refuse_unready(version):
    """Raise where the tree is no release yet."""
    if changed := _git("status", "--porcelain").decode().splitlines():
        raise RefusedError(
            f"{len(changed)} files are not committed, {changed[0].strip()!r} first: commit or restore them"
        )
    made = golden.made()
    differing = [
        name for name in made if golden.text_of(made[name]) != golden.file_of(name).read_text(encoding="utf-8")
    ]
    if differing:
        raise RefusedError(f"tests/golden differs at {', '.join(differing)}: `python -m tests.golden`, and commit it")
    last = surface.releases()[-1]
    if surface.number(version) <= surface.number(last):
        raise RefusedError(f"{last} is the last release and shared.__version__ is {version}: raise it")
    changelog = CHANGELOG.read_text(encoding="utf-8")
    if surface.newest(changelog) != version:
        raise RefusedError(f"CHANGELOG.md begins with {surface.newest(changelog)!r}: write the section of {version}")
    if missing := surface.untold(changelog):
        raise RefusedError(
            f"CHANGELOG.md has no entry about {', '.join(missing)}: one begins with the name in backticks"
        )


def make(version, apart):
    """Make everything in a folder, put it in its place, and return the files."""
    files = manifest.files_of("HEAD")
    for name, content in files.items():
        (apart / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (apart / "tree" / name).write_bytes(content)
    wheel = build(apart / "tree", apart / "wheel", at=int(_git("log", "-1", "--format=%ct")))
    frozen = surface.RELEASES / version
    placed = {frozen / f"{name}.json": text.encode() for name, text in surface.documents().items()}
    placed[WHEELS / wheel.name] = wheel.read_bytes()
    if f"tests/versions/{DRIVER}" in files:
        placed[WHEELS / wheel.with_suffix(f".{DRIVER}").name] = files[f"tests/versions/{DRIVER}"]
    formers = [*WHEELS.glob("*.whl"), *WHEELS.glob(f"*.{DRIVER}")]
    # Of the tree as it will be committed.
    left = {name: content for name, content in files.items() if ROOT / name not in formers}
    committed = left | {file.relative_to(ROOT).as_posix(): content for file, content in placed.items()}
    placed[ROOT / MANIFEST] = manifest_text(version, committed).encode()
    # The last release's alone are kept. The manifest is the last write: without it there is no release.
    for former in formers:
        former.unlink()
    shutil.rmtree(frozen, ignore_errors=True)
    for file, content in placed.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return list(placed)


def _git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
