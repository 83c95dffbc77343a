"""Completes the beginning of a name that a person typed, where one known name fits. Pure."""

from collections.abc import Iterable
from typing import Final

from shared.errors import AmbiguousError

#: Fewer characters would select by accident.
LEAST: Final = 4
#: Names that an error shows.
_SHOWN: Final = 5


def complete_prefix(typed: str, known: Iterable[str], what: str) -> str:
    """Return the known name that is typed, else the only one that begins with it, else what was typed.

    Raise AmbiguousError where several begin with it.
    """
    names = set(known)
    if typed in names or len(typed) < LEAST:
        return typed
    found = sorted(name for name in names if name.startswith(typed))
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        raise AmbiguousError(f"{len(found)} {what} begin with {typed!r}: {shown}; type more of it")
    return found[0] if found else typed
