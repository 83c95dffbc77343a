"""Builds the wheel. Its one top-level package is `sluice`: the engine is inside, under names that meet no other package.

It carries the whole project as an archive too, of which `sluice new` and `sluice upgrade` take the files.

Only setuptools and the standard library: a build has nothing else. pyproject.toml names the two classes.
"""

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

#: The packages that go inside: `shared` becomes `sluice._shared`, and so on.
INSIDE: Final = ("shared", "capabilities", "tools")
#: Read by `sluice cost idle`, from the folder that the command's package is in.
HOST_JSON: Final = "host.json"
#: Names of the example that stay in texts: settings have it, and fingerprints are made with it. The code knows them.
KEPT: Final = ("shared.workloads.billing:Billing", "shared.workloads.billing")
_MODULE: Final = re.compile(rf"({'|'.join(INSIDE)})\.[A-Za-z_][\w.]*(:\w+)?")


class NotMovableError(Exception):
    """Raised when a module names another one in a way that the wheel cannot follow."""


class Edit(NamedTuple):
    """Bytes of a line that become others."""

    line: int
    start: int
    stop: int
    text: str


class BuildPy(build_py):
    """Copies the packages, and then moves those that go inside."""

    def run(self) -> None:
        """Build. An editable installation has the packages where they are."""
        if self.editable_mode:
            super().run()
            return
        # What an earlier build left would be in the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        move(Path(self.build_lib))
        shutil.copy(HOST_JSON, Path(self.build_lib) / "sluice")
        _carry(Path.cwd(), str(self.distribution.get_version()), Path(self.build_lib) / "sluice")


class EggInfo(egg_info):
    """Says which top-level package there is."""

    def run(self) -> None:
        """Write the metadata."""
        super().run()
        (Path(str(self.egg_info)) / "top_level.txt").write_text("sluice\n")


def _carry(root: Path, version: str, package: Path) -> None:
    """Put the project's files into the package, as an archive."""
    # A build has no folder of the project on its path, and loads this module by its file.
    sys.path.insert(0, str(root))
    from tools.project.files import ARCHIVE, release_of, write_archive  # noqa: PLC0415 - see above

    write_archive(release_of(root, version), package / ARCHIVE)


def move(lib: Path) -> None:
    """Move the packages inside, and rewrite every import of one."""
    for name in INSIDE:
        (lib / name).rename(lib / "sluice" / f"_{name}")
    for module in sorted((lib / "sluice").rglob("*.py")):
        module.write_bytes(rewrite(module.read_bytes(), str(module.relative_to(lib))))


def rewrite(source: bytes, name: str) -> bytes:
    """Return a module with its imports rewritten, by their place in the syntax tree."""
    lines = source.splitlines(keepends=True)
    # From the end, so that the places before stay right.
    for edit in sorted(_edits(ast.parse(source), lines, name), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.stop :]
    return b"".join(lines)


def _edits(tree: ast.Module, lines: list[bytes], name: str) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _goes_inside(node.module):
            found = re.compile(rb"from\s+([\w.]+)").match(lines[node.lineno - 1], node.col_offset)
            if found is None or found[1].decode() != node.module:
                raise NotMovableError(
                    f"{name}:{node.lineno}: the module of an import is on another line: put it on one"
                )
            yield Edit(node.lineno, found.start(1), found.end(1), f"sluice._{node.module}")
        elif isinstance(node, ast.Import):
            yield from _moved(node, name)
        elif isinstance(node, ast.Constant) and _names_module(node.value):
            raise NotMovableError(
                f"{name}:{node.lineno}: the text {node.value!r} looks like a module, which has another name in the wheel: "
                "derive it from __name__; a text that names no module goes into KEPT of tools/local/wheel.py"
            )


def _moved(node: ast.Import, name: str) -> Iterator[Edit]:
    for alias in node.names:
        if not _goes_inside(alias.name):
            continue
        if alias.asname is None:
            raise NotMovableError(
                f"{name}:{alias.lineno}: `import {alias.name}` binds a name that the wheel has not: write `from ... import`, "
                "or `import ... as`"
            )
        yield Edit(alias.lineno, alias.col_offset, alias.col_offset + len(alias.name), f"sluice._{alias.name}")


def _names_module(value: object) -> bool:
    return isinstance(value, str) and value not in KEPT and _MODULE.fullmatch(value) is not None


def _goes_inside(module: str | None) -> bool:
    return (module or "").partition(".")[0] in INSIDE
