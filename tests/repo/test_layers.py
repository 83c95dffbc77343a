"""The rules of the layout, held by reading every module's imports."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.repo.layers import ORDER

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "sluice",
    "shared",
    "functions",
    "capabilities",
    "capabilities.console",
    "tools.planning",
    "tools.conformance",
    "tools.cli",
    "tools.project",
    "tools.local",
    "functions_local_host",
    "servicebus_local",
)
#: Where the two packages of the local stack lie; any other unit has its name.
STANDING_ALONE = {
    "functions_local_host": "tools/packages/functions-local-host/src/functions_local_host",
    "servicebus_local": "tools/packages/servicebus-local/src/servicebus_local",
}
#: Which of the project's own packages each one may import.
ALLOWED = {
    # The command is its script's alone.
    "sluice": {"sluice", "shared", "tools.cli", "capabilities.console"},
    "shared": {"shared"},
    "functions": {"functions", "shared"},
    # The command alone imports `commands` of one, and the console its `pages`.
    "capabilities": {"capabilities", "shared", "capabilities.console", "tools.cli"},
    "tools.planning": {"tools.planning", "shared"},
    # Not `tools.cli`: the console is deployed, the command never.
    "capabilities.console": {"capabilities.console", "shared"},
    "tools.conformance": {"tools.conformance", "shared"},
    # The wheel is built with it.
    "tools.project": {"tools.project"},
    "tools.cli": {
        "tools.cli",
        "tools.project",
        "shared",
        "tools.planning",
        "tools.conformance",
        "capabilities.console",
    },
    "tools.local": {
        "tools.local",
        "tools.project",
        "capabilities",
        "shared",
        "tools.planning",
        "tools.conformance",
        "tools.cli",
        "capabilities.console",
        "functions_local_host",
        "servicebus_local",
    },
    "functions_local_host": {"functions_local_host"},
    "servicebus_local": {"servicebus_local"},
}
#: Runs before anything is installed.
STANDARD_LIBRARY_ONLY = (
    "__init__",
    "__main__",
    "commands",
    "debian",
    "errors",
    "installation",
    "lock",
    "paths",
    "up_options",
    "verify_clone",
)


@cache
def modules(package):
    """Return every module of a package."""
    folder = ROOT / STANDING_ALONE.get(package, package.replace(".", "/"))
    return sorted(one for one in folder.rglob("*.py") if "tests" not in one.relative_to(ROOT).parts)


def unit_of_import(name):
    """Return what of the project a name belongs to: its first part, or its first two below `tools`, and for the console."""
    in_two = name.startswith("tools.") or f"{name}.".startswith("capabilities.console.")
    return ".".join(name.split(".")[: 2 if in_two else 1])


@cache
def imports(module):
    """Return the top-level names that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {unit_of_import(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"tools.{alias.name}" for alias in node.names] if node.module == "tools" else [node.module or ""]
            found |= {unit_of_import(name) for name in names}
    return found


@pytest.mark.parametrize("package", SOURCES)
def test_a_package_imports_only_the_layers_below_it(package):
    """`shared` knows nobody, the triggers and the command know `shared`, nothing deployed knows `tools`."""
    wrong = {
        str(module.relative_to(ROOT)): sorted(above)
        for module in modules(package)
        if (above := imports(module) & set(SOURCES) - ALLOWED[package])
    }
    assert wrong == {}


def test_the_facade_only_passes_on():
    """A name there is the engine's own object: a subclass would be a second `Rejected`. The script alone names the command."""
    for module in modules("sluice"):
        tree = ast.parse(module.read_text())
        if module.stem == "__main__":
            continue
        # Commands and pages of a capability of one's own are imported by the command and by the console alone.
        beside = {"commands": {"tools.cli"}, "pages": {"capabilities.console"}}.get(module.stem, set())
        assert imports(module) <= {"shared"} | beside, module.name
        assert ast.get_docstring(tree), module.name
        wrong = [
            ast.unparse(node)
            for node in tree.body[1:]
            if not (
                isinstance(node, ast.ImportFrom)
                and [one.asname for one in node.names] == [one.name for one in node.names]
            )
        ]
        assert wrong == [], module.name


def test_the_design_lists_the_layers():
    """In their order, each unit with its layer; a package is marked by a slash."""
    page = (ROOT / "docs" / "appendix" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([a-z_]+)(/?)` \| ", page, re.MULTILINE)
    assert [(int(layer), unit) for layer, unit, _ in rows] == [
        (number, unit) for number, layer in enumerate(ORDER, 1) for unit in layer
    ]
    assert {unit for _, unit, slash in rows if slash} == {
        path.parent.name for path in ROOT.glob("shared/*/__init__.py")
    }


def test_shared_knows_no_trigger_types():
    """What the work is does not depend on what starts it."""
    users = []
    for module in modules("shared"):
        text = module.read_text()
        if "azure.functions" in text and "import azure.functions" in text:
            users.append(module.name)
    assert users == []


def test_only_function_app_reads_the_environment_of_the_deployed_code():
    """A setting that is read elsewhere would be one that the sample, Bicep and the docs do not know."""
    readers = [
        str(module.relative_to(ROOT))
        for package in ("shared", "functions")
        for module in modules(package)
        if "os.environ" in module.read_text() or "os.getenv" in module.read_text()
    ]
    assert readers == []


@pytest.mark.parametrize("name", STANDARD_LIBRARY_ONLY)
def test_the_entry_needs_nothing_installed(name):
    """What runs before the installation imports the standard library and its own kind only."""
    module = ROOT / "tools" / "local" / f"{name}.py"
    # The choices of an option of `make up` are the host's, in a module that needs nothing either.
    own_kind = {"tools.local", "functions_local_host"} if name == "up_options" else {"tools.local"}
    assert imports(module) - set(sys.stdlib_module_names) - own_kind == set()
    # Without the packages of this environment; `__main__` runs what it imports.
    bare = [sys.executable, "-S", "-c", f"import tools.local.{name}"]
    found = {"PYTHONPATH": str((ROOT / STANDING_ALONE["functions_local_host"]).parent)}
    assert subprocess.run(bare, cwd=ROOT, env=found, check=False).returncode == 0
    text = module.read_text()
    own = {line.split()[1] for line in text.splitlines() if line.startswith("from tools.local.")}
    own |= {
        f"tools.local.{part.strip()}"
        for line in text.splitlines()
        if line.startswith("from tools.local import ")
        for part in line.removeprefix("from tools.local import ").split(",")
    }
    assert own <= {f"tools.local.{allowed}" for allowed in STANDARD_LIBRARY_ONLY}


def test_every_trigger_file_registers_the_function_it_is_named_after():
    """`ls functions/` is the list of the app's functions."""
    # That one registers the functions that a capability lists.
    registered = {module.stem for module in modules("functions")} - {"__init__", "of_capability"}
    for name in registered:
        assert f"def {name}(" in (ROOT / "functions" / f"{name}.py").read_text()
        assert f"{name}.blueprint(" in (ROOT / "function_app.py").read_text()


def test_loading_the_app_loads_no_page():
    """A process that nobody visits pays for no template. The command is not deployed, so no page may need it."""
    script = (
        "import sys, function_app\n"
        "assert 'console' in {one.get_function_name() for one in function_app.app.get_functions()}\n"
        "assert not {'console', 'jinja2'} & set(sys.modules), 'loaded before the first visit'\n"
        "assert 'shared.promises' not in sys.modules, 'a check for people'\n"
        "import capabilities.console.function\n"
        "assert not {'tools', 'typer', 'rich'} & set(sys.modules), 'not deployed'\n"
    )
    values = json.loads((ROOT / "local.settings.sample.json").read_text())["Values"]
    on = {"SLUICE_CAPABILITIES": "console", "WEBSITE_AUTH_ENABLED": "true", "PYTHONPATH": str(ROOT)}
    environ = {**os.environ, **values, **on}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()[-2000:]) == (0, "")
