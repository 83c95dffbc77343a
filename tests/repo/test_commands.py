"""What README and docs say to type exists: commands, options, modules; and every block of shell is run or parsed."""

import ast
import importlib.util
import re
import shlex
import subprocess

import pytest
import typer

from tools.cli.main import app
from tools.local import docs
from tools.local.paths import ACTIVATE, ROOT

DOCUMENTS = {str(document.relative_to(ROOT)): document.read_text() for document in docs.documents()}
BLOCK = re.compile(r"^( *)```([a-z]+)([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SHELL = [
    (name, found[3].strip(), found[4])
    for name, text in DOCUMENTS.items()
    for found in BLOCK.finditer(text)
    if found[2] == "sh"
]
PYTHON = [
    (name, found[4]) for name, text in DOCUMENTS.items() for found in BLOCK.finditer(text) if found[2] == "python"
]
#: What a block may say instead of being run: it needs something that is not here.
NOT_HERE = {"cloud", "docker"}
#: The test that runs the blocks of a document, or starts what they start.
RUN_BY = {
    "README.md": "tests/e2e/test_up.py",
    # CI runs these targets themselves.
    "docs/contributing.md": "tests/repo/test_documents.py",
    "docs/console.md": "tests/console/test_server.py",
    "docs/cost.md": "tests/e2e/test_documents.py",
    "docs/nights.md": "tests/e2e/test_documents.py",
    "docs/operating.md": "tests/e2e/test_documents.py",
    "docs/parked.md": "tests/e2e/test_documents.py",
    "docs/scaling.md": "tests/e2e/test_documents.py",
    "docs/first-job.md": "tests/e2e/test_documents.py",
    "docs/first-sale.md": "tests/e2e/test_first_sale.py",
    "docs/formats.md": "tests/publish/test_examples_here.py",
    "docs/local-stack.md": "tests/e2e/test_up.py",
    "docs/processes.md": "tests/cli/test_migrate.py",
    "docs/proof.md": "tests/cli/test_deep.py",
    "docs/registration.md": "tests/registration/test_operator.py",
    "docs/workloads.md": "tests/e2e/test_up.py",
}
#: The group of docs/processes.md's own process; tests/e2e/test_returns.py calls it.
MADE_ON_A_PAGE = "returns"


@pytest.mark.parametrize(("name", "kind", "block"), SHELL)
def test_every_block_of_shell_can_be_read_by_a_shell(name, kind, block):
    """Also those that cannot be run here."""
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_block_of_shell_is_run_by_a_test_or_says_why_not():
    """A document with a new block is missing here first."""
    assert {kind for _, kind, _ in SHELL} <= {"", *NOT_HERE}
    assert {name for name, kind, _ in SHELL if not kind} == set(RUN_BY)
    assert [test for test in RUN_BY.values() if not (ROOT / test).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_sluice_command_is_found_as_the_page_says(name):
    """Where a page has a bare `sluice` to be typed, what puts it on the path stands above, or in the block itself."""
    text = DOCUMENTS[name]
    for block in BLOCK.finditer(text):
        if block[2] in {"sh", "text"} and (bare := re.search(r"^\s*sluice ", block[4], re.MULTILINE)):
            assert ACTIVATE in text[: block.start(4) + bare.start()], f"{block[4].splitlines()[0]}: say `{ACTIVATE}`"
            return


def calls():
    """Yield (document, words) of every call of the `sluice` command, in blocks and in sentences."""
    for name, text in DOCUMENTS.items():
        lines = [line for _, _, block in (one for one in SHELL if one[0] == name) for line in block.splitlines()]
        lines += re.findall(r"`(sluice [^`]+)`", text)
        for line in lines:
            for part in re.split(r"\||&&|;|\$\(", line.partition(" #")[0]):
                if found := re.match(r"\s*(?:\.venv/bin/)?sluice (.+)", part):
                    yield name, shlex.split(found[1].partition(" >")[0].removesuffix(')"').rstrip(")"))


def test_what_the_sluice_command_is_asked_it_knows():
    """Its commands and their options are those of the command as it is."""
    whole, every = typer.main.get_command(app), list(calls())
    assert len(every) > 100
    for name, words in every:
        if words[0] == MADE_ON_A_PAGE:
            continue
        found, left = whole, list(words)
        while hasattr(found, "get_command") and left and not left[0].startswith("-"):
            # Several commands may be named at once: `sluice tune show|explain`.
            further = found.get_command(None, left[0])
            assert further, f"{name}: sluice has no {left[0]!r} there"
            found, left = further, left[1:]
        options = {one for each in found.params for one in (*each.opts, *each.secondary_opts)} | {"--help"}
        assert {word.partition("=")[0] for word in left if word.startswith("--")} <= options, f"{name}: {words}"


def test_every_module_that_is_named_can_be_run():
    """`python -m tests.benchmarks.gate` and the like."""
    text = "\n".join(DOCUMENTS.values())
    modules = set(re.findall(r"python3? -m ([a-z_][\w.]*\w)", text))
    assert modules
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


@pytest.mark.parametrize(("name", "block"), PYTHON)
def test_every_block_of_python_imports_what_there_is(name, block):
    """It is Python, and every name that it imports from the project exists."""
    compile(block, name, "exec")
    for module, names in re.findall(r"^from ((?:shared|sluice)[\w.]*) import (.+)$", block, re.MULTILINE):
        found = importlib.import_module(module)
        assert [one for one in names.split(", ") if not hasattr(found, one.strip())] == []


def test_pages_name_what_stays():
    """Where `sluice` has a name, no page and no example says where it is today."""
    public = {
        (node.module, alias.name)
        for module in (ROOT / "sluice").glob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    examples = [(str(file), file.read_text()) for file in (ROOT / "docs" / "examples").glob("*.py")]
    used = {
        (name, module, one.strip())
        for name, text in (*PYTHON, *examples)
        for module, names in re.findall(r"^from (shared[\w.]*) import (.+)$", text, re.MULTILINE)
        for one in names.split(",")
    }
    # That program is for code inside of the engine: it imports four more modules of it.
    assert {one for one in used if one[1:] in public and not one[0].endswith("poll.py")} == set()


def test_every_file_that_is_named_is_there():
    """`tests/gate/test_release.py` and the like, in any document."""
    named = re.findall(
        r"`((?:shared|sluice|capabilities|tests|tools|functions|infra)/[\w./-]+\.(?:py|json|bicep|kql|yaml))`",
        "\n".join(DOCUMENTS.values()),
    )
    assert named
    assert [file for file in named if not (ROOT / file).exists()] == []
