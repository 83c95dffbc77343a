"""docs/deploy.md: nobody can run its cloud commands here, so they are parsed, and what they name is looked up."""

import re
import shlex
import subprocess

import pytest
import typer

from cli.main import app
from local.infra.checks.parameters import environment_of
from local.infra.project import Project
from local.paths import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()
BLOCKS = re.findall(r"^( *)```sh cloud\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line.strip() for _, block in BLOCKS for line in block.splitlines()]
#: What azd and az are asked to do, by their first words.
KNOWN = (
    "az functionapp list-flexconsumption-locations",
    "az login",
    "az storage blob download-batch",
    "azd auth login",
    "azd down",
    "azd env new",
    "azd env set",
    "azd pipeline config",
    "azd provision --preview",
    "azd up",
    'eval "$(azd env get-values',
    "func azure functionapp publish",
)


def test_every_block_is_a_script():
    """A shell can read each block; nothing in it is left for the reader to fill in."""
    for _, block in BLOCKS:
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "<" not in block
        assert "…" not in block


def test_there_is_no_block_that_nobody_checks():
    """Each block of shell is either parsed here or run by another test."""
    assert len(re.findall(r"^ *```sh", PAGE, re.MULTILINE)) == len(BLOCKS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if ".venv/bin/sluice" not in command])
def test_a_command_is_one_that_was_looked_up(command):
    """A misspelt word would be found by a person in front of an empty subscription."""
    assert command.startswith((*KNOWN, "echo "))


@pytest.mark.parametrize("command", [command for command in COMMANDS if ".venv/bin/sluice" in command])
def test_what_the_sluice_command_is_asked_it_knows(command):
    """Its commands and their options are those of the command as it is."""
    words = shlex.split(command)[1:]
    found = typer.main.get_command(app)
    while hasattr(found, "commands") and words:
        found = found.commands[words.pop(0)]
    options = {name for one in found.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_every_variable_that_is_set_sets_a_parameter():
    """`azd env set` of a name that no parameter reads would do nothing."""
    named = {command.split()[3] for command in COMMANDS if command.startswith("azd env set")}
    assert named
    assert named <= set(environment_of(Project()).values())


def test_the_price_stands_before_the_command_that_costs():
    """Who reads from the top knows what it costs before typing `azd up`."""
    up = PAGE.index("azd up\n")
    assert all(PAGE.index(f"`make docs`: {name} ") < up for name in ("deploy-idle", "deploy-work", "deploy-parts"))


def test_steps_are_numbered_without_a_gap():
    """From the login to the end of the first job."""
    steps = re.search(r"## To the first job\n(.*?)\n## ", PAGE, re.DOTALL)[1]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", steps, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "submit" in steps


def test_every_question_has_the_way_to_its_answer():
    """What is unproven is listed with a command or a measurement, not with a hope."""
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", PAGE.split("## Unproven on Azure")[1], re.MULTILINE)
    assert len(rows) >= 10
    assert [
        question for question, answer in rows if "`" not in answer and "API" not in answer and "time" not in answer
    ] == []
