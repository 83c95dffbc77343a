"""Doors of packages that open name by name: the command imports what it uses of `shared`, and no package whole.

The app imports all of it in any case, and type checkers and readers see the usual doors. So only the command has these.
"""

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import shared as engine

_PREFIX: Final = f"{engine.__name__}."


class _Door(ModuleType):
    """A package that imports a name when the name is used."""

    def __init__(self, name: str, names: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(name)
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = self._names[name]
        value = getattr(import_module(module), original)
        setattr(self, name, value)
        return value


class _DoorLoader(Loader):
    def __init__(self, names: Mapping[str, tuple[str, str]]) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the door."""
        return _Door(spec.name, self._names)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing: each name is imported when it is asked of the door."""


class _DoorFinder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return the spec of a package that consists of imports, or None for the ordinary way."""
        if not fullname.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or spec.submodule_search_locations is None:
            return spec
        names = read_names(Path(spec.origin).read_bytes())
        if names is not None:
            spec.loader = _DoorLoader(names)
        return spec


def read_names(source: bytes) -> Mapping[str, tuple[str, str]] | None:
    """Return the names of a door, each with its module and its name there, or None where it has more than imports."""
    names: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names |= {one.asname or one.name: (statement.module, one.name) for one in statement.names}
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            return None
    return names


def open_by_name() -> None:
    """Have every package that is imported from now on open name by name."""
    sys.meta_path.insert(0, _DoorFinder())
