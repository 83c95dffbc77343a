"""Packages of `shared` have doors: outside a package one imports the package, inside it the modules."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("sluice", "shared", "functions", "capabilities", "tools")
PACKAGES = sorted(path.parent.name for path in ROOT.glob("shared/*/__init__.py"))
#: Modules that are imported by their own names, each with its reason.
BESIDE_THE_DOOR = {
    "shared.azure.credentials": "loads the library of logins, which a connection string does not need",
    "shared.telemetry.otel": "loads OpenTelemetry, which an app without telemetry does not need",
    "shared.telemetry.printing": "loads OpenTelemetry's SDK, which is not deployed",
    "shared.workloads.billing": "a setting names it",
}


@cache
def imports(path):
    """Return each import of a module or of names from it: (line, module, names)."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append((node.lineno, node.module or "", [one.name for one in node.names]))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, one.name, []) for one in node.names]
    return found


@cache
def whole_tree():
    """Return every module of the repository. Installed ones are no part of it."""
    folders = [one for one in sorted(ROOT.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    return [*ROOT.glob("*.py"), *(path for folder in folders for path in sorted(folder.rglob("*.py")))]


def package_of(module):
    """Return the package of `shared` that a module is in, or nothing."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 and parts[0] == "shared" and parts[1] in PACKAGES else ""


def test_packages_are_entered_by_their_doors():
    """A package that is entered by its modules cannot move one without its users."""
    wrong = []
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            inside = path.parts[len(ROOT.parts) + 1] if source == "shared" else ""
            wrong += [
                f"{path.relative_to(ROOT)}:{line} imports {module}"
                for line, module, _ in imports(path)
                if package_of(module) not in ("", inside) and module not in BESIDE_THE_DOOR
            ]
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_door_lists_what_is_used_outside(package):
    """A name that only its own package uses is no part of its door."""
    door = ROOT / "shared" / package / "__init__.py"
    listed = {name for _, module, names in imports(door) if module.startswith(f"shared.{package}.") for name in names}
    used = set()
    for path in whole_tree():
        if path.is_relative_to(door.parent):
            continue
        used |= {name for _, module, names in imports(path) if module == f"shared.{package}" for name in names}
    pages = "\n".join(page.read_text(encoding="utf-8") for page in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
    assert {name for name in listed - used if f"{name}" not in pages} == set()
