"""Projects of people for tests: of the release before, with changes of their own, and small ones for each moment."""

import json
import subprocess

from tools.local.paths import ROOT
from tools.project.files import File, Release, belongs, manifest, read_archive

#: The repository at 0.2.0, without pictures and most tests: that release's wheel carries no project yet.
BEFORE = ROOT / "tests" / "versions" / "sluice-0.2.0.project.tar.xz"
SALES = (ROOT / "own" / "sales.py").read_text()


def git(folder, *words):
    """Run git in a folder, as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def committed(folder, why="as released"):
    """Commit all of a folder."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", why)
    return folder


def unpacked(release, folder):
    """Write the files of a release, with the tests that a copy of the repository has."""
    for name, one in {**release.files, **release.tests}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(one.content)
        file.chmod(0o755 if one.may_run else 0o644)
    return folder


def changed(folder, name, old, new):
    """Change a text of a file."""
    file = folder / name
    text = file.read_text()
    assert old in text, f"{name} has no {old!r}"
    file.write_text(text.replace(old, new, 1))


def persons_project(folder):
    """Return a committed project of 0.2.0 with a workload, a package, a setting, a room and parameters of a person's own."""
    committed(unpacked(read_archive(BEFORE), folder))
    (folder / "sales.py").write_text(SALES)
    (folder / "functions" / "mine.py").write_text('"""A trigger of my own."""\n')
    changed(folder, "pyproject.toml", "dependencies = [\n", 'dependencies = [\n    "aiohttp>=3.14,<4",\n')
    for name in ("requirements.txt", "tools/requirements-dev.txt", "tools/requirements-browser.txt"):
        changed(folder, name, "azure-core==", "aiohttp==3.14.1\nazure-core==")
    file = folder / "infra" / "main.parameters.json"
    said = json.loads(file.read_text())
    said["parameters"] |= {
        "rooms": {"value": [{"name": "team-a", "publishers": []}]},
        "settings": {"value": {"SLUICE_RETENTION_DAYS": "60"}},
        "alwaysReady": {"value": {"drain_work": 2}},
    }
    file.write_text(json.dumps(said, indent=2))
    changed(folder, "host.json", '"functionTimeout": "00:10:00"', '"functionTimeout": "00:20:00"')
    (folder / "local.settings.json").write_text(
        json.dumps({"Values": {"SLUICE_WORKLOADS": "billing,sales:Sales", "SLUICE_IDLE_STEP_MS": "5"}})
    )
    return committed(folder, "my changes")


def release(version, **files):
    """Return a small release: `a__b_py` is the file a/b.py."""
    named = {name.replace("__", "/").replace("_", "."): text.encode() for name, text in files.items()}
    text = manifest(version, named)
    return Release(
        version, {name: File(one) for name, one in named.items()} | {".sluice.json": File(text.encode())}, {}
    )


def content(folder):
    """Return the content of each file of a project, without what git ignores."""
    ignored = (".git", ".stack")
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] not in ignored
    }


def engine(contents):
    """Return the files of the engine among those of a project."""
    return {name: one for name, one in contents.items() if belongs(name)}
