"""What a folder imports, pyproject.toml declares: no library is used because another one happens to bring it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tools.local.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("tools/packages/functions-local-host/src", "tools/packages/servicebus-local/src")
#: Folders, and the extras that they may import from, besides the base.
FOLDERS = {
    ("shared", "sluice"): (),
    ("functions", "capabilities/console", "function_app.py"): ("app",),
    ("tools/cli", "tools/planning", "tools/conformance", "tools/project"): ("app", "cli"),
    ("tools/local", *PACKAGES): ("app", "cli", "local", "dev"),
}
#: Imported only where the environment has them: an extra, an operator, another environment, a newer Python or
#: a tests' app brings them.
BROUGHT = {
    "shared": {"compression", "opentelemetry", "pyarrow", "yaml"},
    PACKAGES[0]: {"azure_functions_worker", "triggers"},
}
DISTRIBUTIONS = packages_distributions()
#: The part of a module's name that names its distribution, where several have one namespace.
NAMESPACE = re.compile(r"azure\.(storage\.\w+|data\.\w+|\w+)|backports\.\w+")


def imported(path):
    """Return the names of the modules that a file imports, and of what it imports from a namespace."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (
                [f"{node.module}.{one.name}" for one in node.names]
                if node.module in {"azure", "azure.storage", "azure.data", "backports"}
                else [node.module]
            )


def distribution_of(module):
    """Return what is declared for a module, in the form of pyproject.toml."""
    if found := NAMESPACE.match(module):
        return found[0].replace(".", "-")
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, [top])[0].lower().replace("_", "-")


def declared(extras):
    """Return the distributions of the base and of these extras."""
    entries = PROJECT["dependencies"] + [one for extra in extras for one in PROJECT["optional-dependencies"][extra]]
    return {re.sub("[._]", "-", re.match(r"[\w.-]+", entry)[0].lower()) for entry in entries}


@pytest.mark.parametrize("folders", FOLDERS, ids=" ".join)
def test_what_is_imported_is_declared(folders):
    """The file that imports it is named beside the missing entry."""
    ours = {
        path.name.removesuffix(".py")
        for folder in (ROOT, *(ROOT / one for one in PACKAGES))
        for path in folder.iterdir()
    }
    known, missing = declared(FOLDERS[folders]), set()
    for folder in folders:
        path = ROOT / folder
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for module in imported(file):
                top = module.partition(".")[0]
                if top in sys.stdlib_module_names or top in ours or top in BROUGHT.get(folder, ()):
                    continue
                if distribution_of(module) not in known:
                    missing.add((str(file.relative_to(ROOT)), distribution_of(module)))
    assert missing == set()
