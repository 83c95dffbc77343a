"""docs/deploy.md: nobody can run its cloud commands here, so they are parsed, and what they name is looked up."""

import re
import shlex
import subprocess

import pytest
import typer

from tools.cli.main import app
from tools.local.infra.bicep import read
from tools.local.infra.checks.parameters import default_of, environment_of
from tools.local.infra.project import Project
from tools.local.paths import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()
UNPROVEN = (ROOT / "docs" / "appendix" / "unproven.md").read_text()
AZURE = (ROOT / "docs" / "appendix" / "azure.md").read_text()
BLOCKS = re.findall(r"^( *)```sh cloud\n(.*?)^ *```", PAGE + AZURE, re.DOTALL | re.MULTILINE)
COMMANDS = [line.strip() for _, block in BLOCKS for line in block.splitlines()]
#: What azd and az are asked to do, by their first words.
KNOWN = (
    'CONSOLE="$(az ad sp show',
    'CONSOLE_CLIENT_ID="$(az ad app create',
    'ME="$(az ad signed-in-user show',
    "az ad sp create",
    "az ad sp update",
    "cd .stack/upload",
    "az rest --method post",
    "az role assignment delete",
    "az functionapp list-flexconsumption-locations",
    "az functionapp config appsettings set",
    "az lock delete",
    "az login",
    "az provider register",
    "az storage blob download-batch",
    "azd auth login",
    "azd down",
    "azd env new",
    "azd env set",
    "azd pipeline config",
    "azd provision",
    'eval "$(azd env get-values',
    "func azure functionapp publish",
    "make deploy",
    "make prove",
    ". .venv/bin/activate",
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
    assert len(re.findall(r"^ *```sh", PAGE + AZURE, re.MULTILINE)) == len(BLOCKS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("sluice ")])
def test_a_command_is_one_that_was_looked_up(command):
    """A misspelt word would be found by a person in front of an empty subscription."""
    assert command.startswith((*KNOWN, "echo "))


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("sluice ")])
def test_what_the_sluice_command_is_asked_it_knows(command):
    """Its commands and their options are those of the command as it is."""
    words = shlex.split(command)[1:]
    found = typer.main.get_command(app)
    while hasattr(found, "get_command") and words:
        found = found.get_command(None, words.pop(0))
    options = {name for one in found.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_every_variable_that_is_set_sets_a_parameter():
    """`azd env set` of a name that no parameter reads would do nothing."""
    named = {command.split()[3] for command in COMMANDS if command.startswith("azd env set")}
    assert named
    assert named <= set(environment_of(Project()).values())


def test_the_price_stands_before_the_command_that_costs():
    """Who reads from the top knows what it costs before typing `make deploy`."""
    creates = PAGE.index("   make deploy\n")
    assert all(PAGE.index(f"`make docs`: {name} ") < creates for name in ("deploy-idle", "deploy-work"))


def test_steps_are_numbered_without_a_gap():
    """From the login to the end of the first job."""
    steps = re.search(r"## To the first job\n(.*?)\n## ", PAGE, re.DOTALL)[1]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", steps, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "submit" in steps


def test_every_question_has_the_way_to_its_answer():
    """What is unproven is listed with a command or a measurement, not with a hope."""
    rows = questions()
    assert len(rows) >= 10
    assert [
        question for question, answer in rows if "`" not in answer and "API" not in answer and "time" not in answer
    ] == []


def questions():
    """Return the open questions of the page, each with the way to its answer."""
    return re.findall(r"^\| (.+\?) \| (.+) \|$", UNPROVEN, re.MULTILINE)


def test_the_number_of_open_questions_is_counted():
    """The page says at its top how many there are; each row of the list is one."""
    stated = re.search(r"lists the (\d+) questions that only Azure can answer", " ".join(PAGE.split()))
    rows = [line for line in UNPROVEN.splitlines() if line.startswith("| ")]
    assert int(stated[1]) == len(questions()) == len(rows) - len(("the header", "the line below it"))


def test_core_tools_are_told_the_language():
    """In a fresh clone they cannot find it, and publish nothing."""
    committed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [
        (ROOT / name).read_text(errors="ignore")
        for name in committed
        if not name.endswith(".py") and (ROOT / name).is_file()
    ]
    published = [line for text in texts for line in text.splitlines() if "functionapp publish" in line]
    assert published
    assert [line for line in published if "--python" not in line or "--no-build" not in line] == []


def test_what_the_page_says_of_the_scalers_rights_is_what_bicep_takes():
    """Each choice has its row, here and in the page on security, and the default is called so."""
    rights = read(Project().main).parameters["scalerRights"]
    named = [one.strip("' ") for one in rights.decorators["allowed"].strip("[]").split(",")]
    for page in (AZURE, (ROOT / "docs" / "security.md").read_text()):
        rows = re.findall(
            r"^\| `(\w+)`(, the default)? \|", page.split("\n| `scalerRights` |")[-1].split("\n\n")[0], re.MULTILINE
        )
        assert [name for name, _ in rows] == named
        assert [name for name, default in rows if default] == [default_of(read(Project().main), rights)]
