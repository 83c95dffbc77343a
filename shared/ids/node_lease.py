"""Which process may use which node number until when: a value and pure functions.

A lease grants a node number for an interval of time, and an id carries both. The intervals of one number never overlap,
because each begins where the one before it ended at the latest and is granted by a conditional write. So ids are unique
whatever the clocks of the processes say: a wrong clock can only make a process refuse, or wait.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from shared.errors import NodesTakenError, SequenceCorruptError

FORMAT: Final = 1
#: Ten bits of an id.
NODES: Final = 1024


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one holder to make ids of one node number, from one millisecond up to another."""

    node: int
    holder: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """The content of the blob that grants node numbers."""

    writes: int
    nonce: str
    at: datetime
    #: By node number: one row for each number ever used.
    leases: tuple[Lease, ...]

    @property
    def is_unused(self) -> bool:
        """Whether nothing was granted yet."""
        return not self.leases

    def contains(self, earlier: "LeaseTable") -> bool:
        """Whether this can have grown out of `earlier`."""
        if self.writes == earlier.writes:
            return self.nonce == earlier.nonce
        return self.writes > earlier.writes and len(self.leases) >= len(earlier.leases)

    def held_by(self, holder: str) -> Lease | None:
        """Return the lease that the holder has, expired or not."""
        return next((lease for lease in self.leases if lease.holder == holder), None)

    def encode(self) -> bytes:
        """Return the bytes to store."""
        rows = ",\n".join(json.dumps([lease.holder, lease.begin, lease.end]) for lease in self.leases)
        head = json.dumps({"v": FORMAT, "writes": self.writes, "nonce": self.nonce, "at": self.at.isoformat()})
        return f'{head[:-1]}, "leases": [\n{rows}\n]}}\n'.encode()


def empty(nonce: str, at: datetime) -> LeaseTable:
    """Return a table that grants nothing."""
    return LeaseTable(0, nonce, at, ())


def granted(table: LeaseTable, holder: str, now: int, end: int, nonce: str, at: datetime) -> LeaseTable:  # noqa: PLR0913, PLR0917  # one write, whole
    """Return the table after the holder got or prolonged a lease up to `end`, or raise NodesTakenError."""
    own = table.held_by(holder)
    lease = replace(own, end=max(own.end, end)) if own else _new_lease(table, holder, now, end)
    rows = list(table.leases)
    rows[lease.node : lease.node + 1] = [lease]
    return LeaseTable(table.writes + 1, nonce, at, tuple(rows))


def released(table: LeaseTable, holder: str, end: int, nonce: str, at: datetime) -> LeaseTable:
    """Return the table after the holder gave up what is left of its lease; it made no id at or after `end`."""
    own = table.held_by(holder)
    if own is None:
        return table
    rows = list(table.leases)
    rows[own.node] = Lease(own.node, "", own.begin, min(own.end, max(own.begin, end)))
    return LeaseTable(table.writes + 1, nonce, at, tuple(rows))


def _new_lease(table: LeaseTable, holder: str, now: int, end: int) -> Lease:
    expired = next((lease for lease in table.leases if lease.end <= now), None)
    if expired is not None:
        return Lease(expired.node, holder, max(now, expired.end), end)
    if len(table.leases) < NODES:
        return Lease(len(table.leases), holder, now, end)
    soonest = min(lease.end for lease in table.leases) - now
    raise NodesTakenError(
        f"all {NODES} node numbers are leased; the first one is free in {soonest} ms: "
        "close generators that are not used, or use a second name for a second set of ids"
    )


def parse(value: bytes, name: str) -> LeaseTable:
    """Return what the bytes say, or raise SequenceCorruptError with what is wrong with them."""
    try:
        document: dict[str, Any] = json.loads(value)
        _check_format(document["v"])
        leases = tuple(_lease(node, *row) for node, row in enumerate(document["leases"]))
        at = datetime.fromisoformat(document["at"]).astimezone(UTC)
        return LeaseTable(int(document["writes"]), str(document["nonce"]), at, leases)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise SequenceCorruptError(
            f"blob {name!r} is not a table of node leases: {problem!r}; it begins with {value[:40]!r}. No id is made "
            "from it: restore its latest version, or delete it and its marker a minute after the last process ended"
        ) from problem


def _check_format(found: object) -> None:
    if found != FORMAT:
        raise ValueError(f"its format is {found!r}, this program knows {FORMAT}")


def _lease(node: int, holder: Any, begin: Any, end: Any) -> Lease:
    if [type(holder), type(begin), type(end)] != [str, int, int] or not 0 <= begin <= end:
        raise ValueError(f"row {node} is not a lease: {holder!r} from {begin!r} to {end!r}")
    return Lease(node, holder, begin, end)
