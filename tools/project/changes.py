"""What becomes of each file of a project when it comes to another release. Pure: hashes in, decisions out."""

import json
import re
from enum import StrEnum
from typing import Any, Final

#: Made by `make lock`: the release's counts, with the packages that a person added.
LOCKS: Final = frozenset(
    {
        "requirements.txt",
        "tools/requirements-dev.txt",
        "tools/requirements-browser.txt",
        "tools/requirements-parquet.txt",
    }
)
_ABSENT: Final = object()
_NAME: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)")


class Kind(StrEnum):
    """What becomes of a file."""

    SAME = "same"
    REPLACE = "replaced"
    REMOVE = "removed"
    NEW = "new"
    #: The person changed or removed it, and the release did not change it, or the person removed it.
    KEEP = "kept"
    #: Both changed it.
    MERGE = "merged"
    #: Only the person can say which one counts.
    CONFLICT = "conflict"


def decide(mine: str | None, old: str | None, new: str | None) -> Kind:
    """Decide by the hashes: of the person's file, of the release that the project has, and of the one that comes."""
    if mine == new:
        return Kind.SAME
    if mine == old:
        return Kind.NEW if old is None else Kind.REMOVE if new is None else Kind.REPLACE
    if old == new or mine is None:
        return Kind.KEEP
    # A name of the person's own that the release takes, or a file that they changed and that goes.
    return Kind.CONFLICT if old is None or new is None else Kind.MERGE


def join_lock(mine: str, old: str, new: str) -> str:
    """Return the release's lock with the packages that a person's own lock has beside those of their release."""
    known = _packages(old) | _packages(new)
    added = [line for line in mine.splitlines() if (name := _package(line)) and name not in known]
    lines = new.splitlines()
    head = [line for line in lines if not _package(line)]
    rest = sorted([line for line in lines if _package(line)] + added, key=_package)
    return "\n".join([*head, *rest]) + "\n"


def _packages(text: str) -> set[str]:
    return {name for line in text.splitlines() if (name := _package(line))}


def _package(line: str) -> str:
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


class DisagreeingError(Exception):
    """Raised when both changed one value of a document, each in another way."""


def join_documents(mine: bytes, old: bytes, new: bytes) -> bytes | None:
    """Return a person's JSON with what the release changed, value by value, or None where both changed one.

    An editor that lays a file out anew changes each of its lines, so a merge of lines finds conflicts alone.
    """
    try:
        joined = _join(json.loads(mine), json.loads(old), json.loads(new))
    except (ValueError, DisagreeingError):
        return None
    end = "\n" if mine.endswith(b"\n") else ""
    return (json.dumps(joined, indent=2, ensure_ascii=False) + end).encode()


def _join(mine: Any, old: Any, new: Any) -> Any:
    if mine == old:
        return new
    if new in (old, mine):
        return mine
    if not (isinstance(mine, dict) and isinstance(old, dict) and isinstance(new, dict)):
        raise DisagreeingError
    names = dict.fromkeys([*mine, *new])
    values = {name: _join(*(one.get(name, _ABSENT) for one in (mine, old, new))) for name in names}
    return {name: value for name, value in values.items() if value is not _ABSENT}


def name_lines(text: str) -> str:
    """Return where a merged text has marks of a conflict, for a person."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("<<<<<<< ")]
    ends = [number for number, line in enumerate(lines, 1) if line.startswith(">>>>>>> ")]
    return ", ".join(f"{start}-{end}" for start, end in zip(starts, ends, strict=False))
