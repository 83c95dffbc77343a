"""Loads another version of `shared` into this process, under a name of its own."""

import importlib
import re
import sys
import zipfile
from pathlib import Path

_IMPORT = r"^(\s*(?:from|import)\s+){root}(?=[.\s])"


def load_folder(source, name, target, *, edits=()):
    """Return the finder of the modules in a folder `shared`, copied as the package `name` below the folder `target`.

    `edits`: (file, text, its replacement), to plant a change in a version that does not exist.
    """
    files = {str(path.relative_to(source)): path.read_bytes() for path in Path(source).rglob("*") if path.is_file()}
    return _load(files, "shared", name, target, edits)


def load_wheel(wheel, name, target):
    """Return the finder of the modules in a wheel's engine."""
    inside = "sluice/_shared/"
    with zipfile.ZipFile(wheel) as content:
        files = {one.removeprefix(inside): content.read(one) for one in content.namelist() if one.startswith(inside)}
    return _load(files, "sluice._shared", name, target, ())


def find_today(module):
    """Return a module of this tree by its name below `shared`."""
    return importlib.import_module(f"shared.{module}")


def _load(files, root, name, target, edits):
    assert {file for file, _, _ in edits} <= set(files), "a planted change is in a file that is not there"
    pattern = re.compile(_IMPORT.format(root=re.escape(root)), re.MULTILINE)
    for path, content in files.items():
        if "__pycache__" in path:
            continue
        place = Path(target) / name / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".py"):
            text = pattern.sub(rf"\g<1>{name}", content.decode())
            for file, before, after in edits:
                if file == path:
                    assert before in text, f"{file} has no {before!r}"
                    text = text.replace(before, after)
            place.write_bytes(text.encode())
        else:
            place.write_bytes(content)
    if str(target) not in sys.path:
        sys.path.insert(0, str(target))
    importlib.invalidate_caches()
    return lambda module: importlib.import_module(f"{name}.{module}")
