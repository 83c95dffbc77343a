"""A project's files: the archive that a wheel carries, those that others pack, and the folder that is made of one."""

import io
import subprocess
import tarfile
import zipfile

import pytest

from shared import __version__
from tests.project.kit import BEFORE, release
from tools.local.paths import ROOT
from tools.project.files import (
    ARCHIVE,
    MANIFEST,
    TESTS,
    NoReleaseError,
    carried,
    read_archive,
    release_of,
    write_archive,
)
from tools.project.new import NotEmptyError, make


def test_a_new_project_has_the_files_of_the_repository_but_its_tests(tmp_path):
    """So a copy by `azd init -t` differs by the tests alone. Programs may still be run."""
    make(tmp_path / "new", carried(__version__))
    made = {one.relative_to(tmp_path / "new").as_posix() for one in (tmp_path / "new").rglob("*") if one.is_file()}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = {name for name in listed if not name.startswith(TESTS) and (ROOT / name).is_file()}
    assert made == wanted | {MANIFEST}
    for name in wanted - {MANIFEST}:
        file, origin = tmp_path / "new" / name, ROOT / name
        assert (file.read_bytes(), file.stat().st_mode & 0o100) == (origin.read_bytes(), origin.stat().st_mode & 0o100)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_place_that_is_taken_is_refused(tmp_path, what):
    """Nothing is written among other files."""
    place = tmp_path / "here"
    if what == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    with pytest.raises(NotEmptyError, match="name a folder that does not exist"):
        make(place, release("1.0.0", a_py="a"))
    assert [one.name for one in tmp_path.rglob("mine")] == (["mine"] if what == "folder" else [])


def test_an_archive_comes_back_as_it_was(tmp_path):
    """And the same files make the same bytes."""
    one = release("1.0.0", a_py="a", own__sales_py="b")
    for name in ("one.zip", "other.zip"):
        write_archive(one, tmp_path / name)
    assert read_archive(tmp_path / "one.zip") == one
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_the_release_before_is_read_from_its_repository():
    """Its manifest is its own, byte for byte, so that the way back ends where it began."""
    before = read_archive(BEFORE)
    assert (before.version, len(before.tests) > 10) == ("0.2.0", True)
    assert {"function_app.py", "infra/main.bicep", "tools/local/up.py"} <= before.hashes.keys()


def test_a_folder_around_all_files_does_not_count(tmp_path):
    """A hosting service packs a repository so."""
    one = release("1.0.0", function_app_py="a")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as archive:
        for name, file in one.files.items():
            info = tarfile.TarInfo(f"sluice-1.0.0/{name.replace('function.app', 'function_app')}")
            info.size = len(file.content)
            archive.addfile(info, io.BytesIO(file.content))
    assert read_archive(tmp_path / "packed.tar.gz").version == "1.0.0"


@pytest.mark.parametrize("kind", ["absent", "text", "wheel"])
def test_a_file_that_holds_no_release_is_refused(tmp_path, kind):
    """With the way to one that does: the wheel of 0.2.0 carries no project."""
    file = tmp_path / "file"
    if kind == "text":
        file.write_text("hello")
    elif kind == "wheel":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("sluice/__init__.py", "")
    with pytest.raises(NoReleaseError, match=r"cannot read|neither a zip|git archive 0\.2\.0"):
        read_archive(file)


def test_what_git_ignores_is_in_no_release(tmp_path):
    """A key of a local account would be in every project that is made of the wheel."""
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    for name in (
        "local.settings.json",
        ".env",
        ".stack/up/x",
        ".azure/dev/.env",
        "a/__pycache__/x.pyc",
        "a/b.py",
        ".git/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert release_of(tmp_path, "1.0.0").files.keys() == {".gitignore", "a/b.py", MANIFEST}
    assert ARCHIVE.endswith(".zip")
