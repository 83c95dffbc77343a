"""The upload of azd has everything that the app imports, and nothing that it does not need."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path
from sys import stdlib_module_names
from typing import Final

from packaging.utils import canonicalize_name

from tools.local.infra import package
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

#: The host and the remote build look for these.
NEEDED: Final = ("function_app.py", "host.json", "own/settings.json", "requirements.txt")
#: What may be in the package beside Python below these folders.
FOLDERS: Final = ("capabilities", "functions", "shared", "sluice")
#: A person's own code, with the data beside it.
OWN: Final = "own"
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)


def check(project: Project) -> Iterator[Finding]:
    """Yield modules that the package lacks, files that it should not hold, and requirements that are missing."""
    files = {file.as_posix() for file in package.files(project.root)}
    for name in NEEDED:
        if name not in files:
            yield Finding(".funcignore", f"the package lacks {name}")
    for name in sorted(files - set(NEEDED)):
        # A module beside function_app.py is a workload of one's own.
        if name.split("/")[0] not in (*FOLDERS, OWN) and not re.fullmatch(r"\w+\.py", name):
            yield Finding(".funcignore", f"{name} would be uploaded, and the app does not need it: name it there")
    for name in sorted(_whole(project.root) - files):
        yield Finding(".funcignore", f"the package lacks {name}")
    found, foreign = _imported(project.root, _roots(project))
    for name in sorted(found - files):
        yield Finding(".funcignore", f"the package lacks {name}, which the app imports")
    yield from _requirements(project, foreign)


def _whole(root: Path) -> set[str]:
    """Return the files of these folders, data included: no module imports a table that is read at run time."""
    found = {file for folder in FOLDERS for file in (root / folder).rglob("*") if file.is_file()}
    return {file.relative_to(root).as_posix() for file in found if "__pycache__" not in file.parts}


def _roots(project: Project) -> list[str]:
    workloads = next((one.default or "" for one in project.settings if one.name == "SLUICE_WORKLOADS"), "")
    return ["function_app", *(one.partition(":")[0].strip() for one in workloads.split(",") if one)]


def _imported(root: Path, modules: list[str]) -> tuple[set[str], dict[str, str]]:
    """Return the project's files that the modules need, and the foreign modules with the file that wants each."""
    found: set[str] = set()
    foreign: dict[str, str] = {}
    waiting, seen = list(modules), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file(root, name)
        if file is None or file in found:
            continue
        found.add(file)
        for wanted in _imports((root / file).read_text()):
            if wanted.split(".")[0] in (*FOLDERS, "function_app"):
                waiting += [".".join(wanted.split(".")[:end]) for end in range(1, wanted.count(".") + 2)]
            elif wanted.split(".")[0] not in stdlib_module_names:
                foreign.setdefault(wanted, file)
    return found, foreign


def _file(root: Path, module: str) -> str | None:
    path = Path(*module.split("."))
    both = (path.with_suffix(".py"), path / "__init__.py")
    return next((file.as_posix() for file in both if (root / file).exists()), None)


@lru_cache(maxsize=1024)
def _imports(source: str) -> Sequence[str]:
    nodes = [*ast.walk(ast.parse(source))]
    optional = {id(inner) for node in nodes for one in _left_out(node) for inner in ast.walk(one)}
    wanted: list[str] = []
    for node in nodes:
        if id(node) in optional:
            continue
        if isinstance(node, ast.Import):
            wanted += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from shared.gate import gates` names a module, `from shared.clock import Clock` does not.
            wanted += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return wanted


def _left_out(node: ast.AST) -> list[ast.AST]:
    """Return the code whose imports need not be there: an import whose failure the code handles, and what only a later Python has."""
    if isinstance(node, ast.Try) and any("ImportError" in ast.dump(one) for one in node.handlers):
        return [node]
    if isinstance(node, ast.If) and ast.unparse(node.test).startswith("sys.version_info >="):
        return list(node.body)
    return []


def _requirements(project: Project, foreign: dict[str, str]) -> Iterator[Finding]:
    deployed: set[str] = {canonicalize_name(name) for name in _REQUIREMENT.findall(project.text("requirements.txt"))}
    for module, file in sorted(foreign.items()):
        if not _is_brought(module, deployed):
            yield Finding("requirements.txt", f"{file} imports {module}, which nothing there brings")


def _is_brought(module: str, deployed: set[str]) -> bool:
    if module.split(".", maxsplit=1)[0] == "azure":
        # A namespace of many packages, each named as the module that it holds.
        name = f"{module.replace('.', '-')}-"
        return any(name.startswith(f"{one}-") or one.startswith(name) for one in deployed)
    owners = _owners().get(module.split(".", maxsplit=1)[0], ())
    return not deployed.isdisjoint(map(canonicalize_name, owners))


@cache
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()
