"""What a wrong word costs: nothing. And what `make up` writes beside the code: nothing that git would take."""

import subprocess

import pytest

from tools.local import commands, up
from tools.local.stack import _account


@pytest.fixture
def never_installed(monkeypatch):
    """A fresh clone: whatever begins to install fails the test."""
    monkeypatch.setattr(commands.installation, "ensure", lambda: pytest.fail("it began to install"))


@pytest.mark.parametrize("word", ["--instnces=3", "--instances=0", "--instances=many", "--host=fnc"])
def test_a_wrong_option_of_up_is_found_before_an_installation(never_installed, capsys, word):
    """With the word that was wrong, and the usage."""
    with pytest.raises(SystemExit) as ended:
        commands.main(["up", word])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert word.partition("=")[0] in said
    assert "usage: make up" in said


def test_the_help_of_up_needs_no_installation(never_installed, capsys):
    """Who asks what there is waits for nothing."""
    with pytest.raises(SystemExit) as ended:
        commands.main(["up", "--help"])
    assert (ended.value.code, "--instances" in capsys.readouterr().out) == (0, True)


def test_up_itself_takes_the_same_options():
    """The command that is started after the installation reads them by the same parser."""
    assert up.up_options.parse(["--instances", "3"]).instances == 3


@pytest.mark.parametrize("words", [["demo", "--host=func"], ["setup", "--browsr"], ["check", "tests"], ["clean", "-n"]])
def test_a_word_that_a_command_does_not_know_is_refused(never_installed, capsys, words):
    """It was ignored, and the command did something else than what was asked for."""
    assert commands.main(words) == 1
    assert capsys.readouterr().err == (
        f"sluice {words[0]}: it does not know {words[1]!r}; it takes "
        f"{'--browser or --others or --parquet' if words[0] == 'setup' else 'no options'}\n"
    )


def seen(folder):
    """Return what git would add of a folder."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_git_ignores_a_data_folder_of_any_name(tmp_path):
    """It has the payloads of a stack, and the key of its account. A second start finds the same account."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    account = _account(tmp_path / "anywhere" / "mine")
    (tmp_path / "anywhere" / "mine" / "payload").touch()
    assert seen(tmp_path) == []
    assert _account(tmp_path / "anywhere" / "mine") == account


def test_a_folder_with_other_files_keeps_them_for_git(tmp_path):
    """Whoever names a folder of code finds its files in git as before."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").touch()
    _account(tmp_path / "code")
    assert "?? code/mine.py" in seen(tmp_path)
