"""The installation: what it refuses, and when it does nothing."""

import ast
import hashlib
import sys

import pytest

from tools.local import debian, installation
from tools.local.__main__ import version_problem
from tools.local.errors import SetupError
from tools.local.paths import ROOT


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 13, 0), (3, 14, 2)])
def test_every_python_of_the_range_is_taken(version):
    """3.11 to 3.14 have no problem."""
    assert version_problem(version) == ""


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 10, 13), (3, 15, 0)])
def test_any_other_python_is_refused_in_one_line(version):
    """The line names what is needed, what was found and how to name another interpreter."""
    problem = version_problem(version)
    assert ".".join(map(str, version)) in problem
    assert "make test PYTHON=" in problem
    assert "\n" not in problem


def test_an_old_python_can_read_the_entry_that_refuses_it():
    """It has nothing that Python 2.7 does not know, or its owner would see a SyntaxError in the place of the line."""
    tree = list(ast.walk(ast.parse((ROOT / "tools" / "local" / "__main__.py").read_text())))
    assert [node.lineno for node in tree if isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.NamedExpr)] == []
    functions = [node for node in tree if isinstance(node, ast.FunctionDef)]
    assert functions
    assert [one.name for one in functions if one.returns or any(part.annotation for part in one.args.args)] == []


def test_a_missing_compiler_is_named_before_anything_is_installed(tmp_path):
    """The one thing that the project cannot bring is asked for by name."""
    assert "install gcc or clang" in installation.compiler_problem(lambda _: None, tmp_path, "gcc -pthread")


def test_microsoft_s_worker_is_refused_where_no_python_can_run_it(monkeypatch, tmp_path):
    """With the version that it needs, before anything is installed. The other software of others is installed."""
    monkeypatch.setattr(installation.sys, "version_info", (3, 12, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installation, "_step", lambda what, *_: pytest.fail(what))
    with pytest.raises(SetupError, match=r"needs Python 3\.13 or later.*this is 3\.12\.1, and neither python3\.13"):
        installation.ensure_worker()
    steps = []
    monkeypatch.setattr(installation, "_step", lambda what, *_: steps.append(what))
    installation.ensure_others()
    assert "JavaScript SDKs" in steps
    assert "worker of Microsoft" not in steps


def test_microsoft_s_worker_has_the_first_python_that_runs(monkeypatch, tmp_path):
    """A command that is there and fails, as pyenv's does for a version that is not installed, is passed over."""
    monkeypatch.setattr(installation.sys, "version_info", (3, 12, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, script in (("python3.13", "exit 127"), ("python3.14", "echo /the/newer/python")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert installation.python_of_worker() == "/the/newer/python"
    monkeypatch.setattr(installation.sys, "version_info", (3, 13, 0))
    assert installation.python_of_worker() == sys.executable


def test_a_linked_environment_is_left_as_it_is(tmp_path, monkeypatch):
    """A second worktree may share the first one's; making it anew would empty it under those who work with it."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    monkeypatch.setattr(installation, "VENV", tmp_path / "link")
    monkeypatch.setattr(installation, "_step", lambda what, *_: pytest.fail(what) if "virtual" in what else None)
    installation.ensure()
    assert (tmp_path / "theirs" / "kept").exists()


def test_missing_headers_are_named(tmp_path):
    """A compiler without Python's headers would fail deep inside pip; it is said here."""
    assert "python3-dev" in installation.compiler_problem(lambda _: "/usr/bin/gcc", tmp_path, "gcc")


def test_a_machine_with_both_has_no_problem(tmp_path):
    """A compiler and the headers are all that is asked for."""
    (tmp_path / "Python.h").touch()
    assert installation.compiler_problem(lambda _: "/usr/bin/gcc", tmp_path, "") == ""


def test_a_step_is_done_once_and_again_only_when_its_input_changed(tmp_path):
    """The second run of a step does nothing; another wanted state makes it run again."""
    runs = []
    for wanted in ("one", "one", "two"):
        installation._step("thing", tmp_path / "stamp", wanted, lambda wanted=wanted: runs.append(wanted))
    assert runs == ["one", "two"]


def test_a_step_that_fails_is_not_taken_as_done(tmp_path):
    """The stamp is written last: an interrupted step starts anew."""

    def fail():
        raise SetupError("no")

    with pytest.raises(SetupError):
        installation._step("thing", tmp_path / "stamp", "one", fail)
    assert not (tmp_path / "stamp").exists()


def test_a_failing_tool_is_reported_in_one_line_with_its_last_words(monkeypatch, tmp_path):
    """The error names the tool, its status, what to look at and how its log ends."""
    monkeypatch.setattr(installation, "LOGS", tmp_path)
    command = [sys.executable, "-c", "print('no such package'); raise SystemExit(7)"]
    with pytest.raises(SetupError, match="pip failed with exit status 7") as error:
        installation._run("pip", command)
    assert "no such package" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_new_package_is_installed_again_and_a_rule_of_ruff_is_not(tmp_path):
    """An editable installation knows the packages of its day: `sluice` would not find a later one."""
    project = tmp_path / "pyproject.toml"
    text = installation.PROJECT.read_text()
    stamps = []
    for changed in (
        text,
        text.replace("line-length = 120", "line-length = 100"),
        text.replace('"tools.cli*"', '"other*"'),
    ):
        project.write_text(changed)
        stamps.append(installation._command_stamp(project))
    assert stamps[0] == stamps[1] != stamps[2]


@pytest.mark.parametrize(
    ("has_uv", "fails", "tools"), [(True, False, ["uv"]), (True, True, ["uv", "pip"]), (False, False, ["pip"])]
)
def test_uv_installs_where_it_is_and_pip_where_it_cannot(monkeypatch, capsys, has_uv, fails, tools):
    """Its registries are set apart from pip's, so a refusal is no end."""
    tried = []

    def run(tool, command, **_options):
        tried.append(tool)
        assert str(installation.venv_python()) in command
        assert command[-2:] == ["--requirement", str(installation.REQUIREMENTS)]
        if fails and tool == "uv":
            raise SetupError("uv failed with exit status 2")

    monkeypatch.setattr(installation.shutil, "which", lambda _name: "/bin/uv" if has_uv else None)
    monkeypatch.setattr(installation, "_run", run)
    installation._install("--requirement", str(installation.REQUIREMENTS))
    assert tried == tools
    assert ("trying pip" in capsys.readouterr().err) == fails


def test_a_package_of_debian_that_is_another_one_than_the_list_s_is_not_unpacked(tmp_path, monkeypatch):
    """Nothing of the others either; without apt it is said before anything is tried."""
    lock = tmp_path / "debian.txt"
    lock.write_text(f"# the list\ngood=1 {hashlib.sha256(b'good').hexdigest()}\nbad=2 {'0' * 64}\n")
    monkeypatch.setattr(debian.shutil, "which", lambda _name: "/usr/bin/apt-get")
    monkeypatch.setattr(debian, "_extract", lambda archive, _: pytest.fail(archive.name))

    def fetch(_tool, command, folder):
        if "download" in command:
            assert command[-2:] == ["good=1", "bad=2"]
            for name in ("good", "bad"):
                (folder / f"{name}.deb").write_bytes(name.encode())

    with pytest.raises(SetupError, match="another bad=2 than the list names"):
        debian.unpack(fetch, lock, tmp_path / "into")
    monkeypatch.setattr(debian.shutil, "which", lambda _name: None)
    with pytest.raises(SetupError, match="apt-get is not here"):
        debian.unpack(lambda *_: pytest.fail("was tried"), lock, tmp_path / "into")
