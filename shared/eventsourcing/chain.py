"""The chain of a home: each event carries the hash of the former one, and the head that of the last one. Pure.

    e|1 former ""   <-- hash of e|1 -- e|2 former   <-- hash of e|2 -- head

So an event that was changed, replaced or removed after it was written differs from what the row after it says. Versions
of Sluice before the chain write no hash. The next event of this version then begins anew, from the former one if the
writer has read it. It is no signature: who may write all rows of a home can make all hashes anew.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

#: The column of an event with the hash of the former one. Empty: the writer did not know it. Earlier versions lack it.
FORMER: Final = "former"
#: The column of the head: the version of the last event that was written with a hash, and its own.
CHAIN: Final = "chain"
_dumps: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Proof:
    """What the chain of a home says about its events, by their versions."""

    #: These are not as they were written, or are gone.
    changed: tuple[int, ...]
    #: The first and the last of each range whose content no hash proves.
    unproven: tuple[tuple[int, int], ...]


def hash_row(row: Mapping[str, Any]) -> str:
    """Return the hash of an event's row, with all its columns."""
    return sha256(_dumps(dict(row)).encode()).hexdigest()


def write_anchor(version: int, hash_: str) -> str:
    """Return the column of the head."""
    return f"{version}:{hash_}"


def read_anchor(head: Mapping[str, Any]) -> tuple[int, str]:
    """Return the version and the hash in a head, or 0 and nothing."""
    version, _, hash_ = str(head.get(CHAIN, "")).partition(":")
    return (int(version), hash_) if version.isdecimal() else (0, "")


def prove(rows: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> Proof:
    """Compare each event with the hash in the row after it. `rows` are all events of a home, in their order."""
    anchored, anchor = read_anchor(head)
    # A head that a version before the chain wrote keeps the hash of an earlier event, which proves that one.
    said = [anchor if number == anchored else None for number in range(1, len(rows) + 1)]
    for number, following in enumerate(rows[1:]):
        said[number] = following.get(FORMER) or said[number]
    changed = [number for number, hash_ in enumerate(said, 1) if hash_ and hash_ != hash_row(rows[number - 1])]
    gone = range(len(rows) + 1, anchored + 1)
    return Proof((*changed, *gone), tuple(_ranges([number for number, hash_ in enumerate(said, 1) if not hash_])))


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    # Of neighbours, the difference between number and place is the same.
    runs = (list(run) for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]))
    return [(run[0][1], run[-1][1]) for run in runs]
