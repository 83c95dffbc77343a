"""`make release`, in a scratch repository: what it freezes, and what it refuses. And the releases that are here."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from shared import __version__
from tests.release import manifest, surface
from tests.waiting import LIMIT
from tools.local.paths import ROOT
from tools.project.files import MANIFEST, TESTS, belongs

NEXT = "99.0.0"


def git(folder, *words):
    """Run git in a folder, as nobody in particular."""
    who = {f"GIT_{role}_{what}": "somebody" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    # A test that a commit hook starts has that commit's repository in its environment.
    own = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", *words], cwd=folder, env=own | who, capture_output=True, text=True, check=True).stdout


def raise_version(folder):
    """Write the next version, with its section."""
    for name, before, after in (
        ("shared/__init__.py", f'"{__version__}"', f'"{NEXT}"'),
        ("CHANGELOG.md", "\n## ", f"\n## {NEXT}\n\nNothing new.\n\n## "),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1), encoding="utf-8")


def commit(folder):
    """Commit all that is there."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")


@pytest.fixture
def scratch(tmp_path):
    """A repository with the tree as it is, and the next version."""
    folder = tmp_path / "scratch"
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    raise_version(folder)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def release(folder):
    """Run the command there."""
    return subprocess.run(
        [sys.executable, "-m", "tests.release"], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT
    )


@pytest.mark.ci("builds, installs or resolves packages")
def test_a_release_is_frozen_and_committed(scratch):
    """Golden documents, surface, wheel, driver and manifest; and after that nothing is left to release."""
    (scratch / "tests" / "versions").mkdir(exist_ok=True)
    (scratch / "tests" / "versions" / "driver.py").write_text('"""Drives a version."""\n')
    (scratch / "tests" / "versions" / "sluice-0.0.1-py3-none-any.whl").touch()
    commit(scratch)
    done = release(scratch)
    assert done.returncode == 0, done.stderr
    frozen = scratch / "tests" / "golden" / "releases" / NEXT
    golden = {file.name: file.read_bytes() for file in (scratch / "tests" / "golden").glob("*.json")}
    assert {file.name: file.read_bytes() for file in frozen.iterdir() if file.name != "surface.json"} == golden
    assert json.loads((frozen / "surface.json").read_text()) == json.loads(json.dumps(surface.surface()))
    wheel, driver = sorted(
        file for file in (scratch / "tests" / "versions").iterdir() if NEXT in file.name or ".whl" in file.name
    )[::-1]
    assert (wheel.name, driver.name) == (
        f"sluice-{NEXT}-py3-none-any.whl",
        f"sluice-{NEXT}-py3-none-any.driver.py",
    )
    assert f'__version__ = "{NEXT}"' in inside(wheel, "sluice/_shared/__init__.py")
    check_manifest(scratch, NEXT)
    again = release(scratch)
    assert "files are not committed" in again.stderr
    commit(scratch)
    # The release before is named by it no more.
    named = json.loads((scratch / MANIFEST).read_text())
    assert {name for one in ("files", "tests") for name in named[one]} <= set(git(scratch, "ls-files").splitlines())
    again = release(scratch)
    assert f"{NEXT} is the last release and shared.__version__ is {NEXT}: raise it" in again.stderr
    assert again.returncode == 1


def inside(wheel, name):
    """Return a file of a wheel."""
    with zipfile.ZipFile(wheel) as content:
        return content.read(name).decode()


def check_manifest(folder, version):
    """Hold the manifest against the files as git has them."""
    said = json.loads((folder / MANIFEST).read_text())
    names = [name for name in git(folder, "ls-files").splitlines() if belongs(name)]
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    assert (said["version"], said["files"]) == (version, hashes)
    assert all(name.startswith(TESTS) for name in said["tests"])
    assert {"function_app.py", "sluice/publish.py", "CHANGELOG.md", "infra/main.bicep"} <= said["files"].keys()
    assert not [name for name in said["files"] if name.startswith(("own/", *TESTS))]


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        (
            "tests/golden/gates.json",
            '"content"',
            '"contents"',
            "tests/golden differs at gates: `python -m tests.golden`",
        ),
        ("CHANGELOG.md", f"## {NEXT}", "## 98.0.0", "CHANGELOG.md begins with '98.0.0': write the section of 99.0.0"),
        (
            "sluice/ids.py",
            "resume as resume",
            "explain_in as explain_in",
            "CHANGELOG.md has no entry about sluice.ids.explain_in",
        ),
    ],
)
def test_a_tree_that_is_not_ready_is_refused(scratch, file, before, after, said):
    """With the file that is in the way; nothing is written."""
    text = (scratch / file).read_text(encoding="utf-8")
    assert before in text
    (scratch / file).write_text(text.replace(before, after), encoding="utf-8")
    commit(scratch)
    done = release(scratch)
    assert said in done.stderr
    assert done.returncode == 1
    assert git(scratch, "status", "--porcelain") == ""


def test_the_last_release_is_here_as_it_was_made():
    """One wheel, the manifest and the newest frozen documents are of one version, once a release was made so."""
    wheels = sorted((ROOT / "tests" / "versions").glob("*.whl"))
    file = ROOT / MANIFEST
    assert bool(wheels) == file.exists()
    if not wheels:
        # The documents of 0.1.0 were frozen before there was a command.
        assert surface.releases() == ["0.1.0"]
        return
    version = json.loads(file.read_text())["version"]
    assert [wheel.name for wheel in wheels] == [f"sluice-{version}-py3-none-any.whl"]
    assert surface.releases()[-1] == version
    assert f'__version__ = "{version}"' in inside(wheels[0], "sluice/_shared/__init__.py")


def test_the_manifest_is_that_of_its_commit():
    """Its hashes are those of the files in the commit that wrote it."""
    if git(ROOT, "rev-parse", "--is-shallow-repository") == "true\n":
        pytest.skip("a shallow clone does not have the commit")
    written = git(ROOT, "log", "-1", "--format=%H", "--", MANIFEST).strip()
    if not written:
        assert not (ROOT / MANIFEST).exists() or git(ROOT, "status", "--porcelain", MANIFEST)
        return
    files = manifest.files_of(written)
    said = json.loads(files[MANIFEST])
    hashes = said["files"] | said.get("tests", {})
    assert {name: hashlib.sha256(files[name]).hexdigest() for name in hashes} == hashes
    assert {name for name in files if belongs(name)} <= said["files"].keys()
