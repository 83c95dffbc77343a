"""Compares two results of the same transactions: rejections, lines, totals by account. Pure.

Of each kind all are counted, and the first hundred kept. Of accounts all are kept: they are as many as a merged partial holds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from shared.errors import FinishRefusedError, RefusedError
from shared.grammar import NO_AMOUNTS, Amounts, minus, plus, read_amount
from shared.ledger import Portion
from shared.versions import decode

T = TypeVar("T")
#: Differences of one kind that are kept; all are counted.
MOST_KEPT: Final = 100
#: Bytes of output lines of one side up to which they are kept.
LINES_KEPT: Final = 1024 * 1024
_HASHES: Final = 1 << 256


class Sides(NamedTuple, Generic[T]):
    """The two sides of a comparison."""

    before: T
    now: T


@dataclass(slots=True)
class Counted(Generic[T]):
    """Differences of one kind: how many, and the first of them."""

    count: int = 0
    first: list[T] = field(default_factory=list)

    def add(self, one: T) -> None:
        """Count one more."""
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append(one)


@dataclass(frozen=True, slots=True)
class RejectionChange:
    """A transaction that is rejected otherwise. None stands for an accepted one."""

    number: int
    before: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line of a chunk that is another, by its place there. None stands for a line that is not there."""

    chunk: int
    place: int
    before: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class AccountChange:
    """An account whose total is another. None stands for a total that is not there."""

    account: str
    before: Mapping[str, Any] | None
    now: Mapping[str, Any] | None


@dataclass(slots=True)
class TotalsDifference:
    """The totals by account: how many differ, by how much the amounts do, and which, where they are kept."""

    equal: int = 0
    differ: int = 0
    new: int = 0
    gone: int = 0
    changes: list[AccountChange] = field(default_factory=list)
    #: By property, over all accounts that differ.
    amounts: Amounts = field(default_factory=lambda: NO_AMOUNTS)

    @property
    def changed(self) -> int:
        """How many accounts have another total, none any more, or one now."""
        return self.differ + self.new + self.gone

    def add(self, change: AccountChange) -> None:
        """Count an account that differs, and keep it."""
        self.changes.append(change)
        self.count(change)

    def count(self, change: AccountChange) -> None:
        """Count an account that differs."""
        if change.before is None:
            self.new += 1
        elif change.now is None:
            self.gone += 1
        else:
            self.differ += 1
        self.amounts = plus(self.amounts, minus(_read_amounts(change.now), _read_amounts(change.before)))


class _Rejection(Struct):
    number: int
    reason: str
    found: str = ""


def is_same_portion(sides: Sides[Portion]) -> bool:
    """Check whether both have the same items and sums. A sum of zero counts as none."""
    before, now = sides
    same_sums = _leave_zeros_out(before.sums) == _leave_zeros_out(now.sums)
    return (before.items, before.unknown) == (now.items, now.unknown) and same_sums


def _leave_zeros_out(sums: Amounts) -> dict[str, Decimal]:
    return {name: amount for name, amount in sums.items() if amount}


def compare_rejections(before: bytes, now: bytes) -> Iterator[RejectionChange]:
    """Yield the transactions of a chunk that are rejected otherwise, by number. Both are lines as results have them."""
    if before == now:
        return
    sides = Sides(_read_rejections(before), _read_rejections(now))
    for number in sorted({*sides.before, *sides.now}):
        old, new = sides.before.get(number), sides.now.get(number)
        if old != new:
            yield RejectionChange(number, _describe(old), _describe(new))


def _read_rejections(lines: bytes) -> dict[int, _Rejection]:
    each = (decode(line, _Rejection) for line in lines.split(b"\n") if line)
    return {one.number: one for one in each}


def _describe(one: _Rejection | None) -> str | None:
    return None if one is None else ": ".join(filter(None, (one.reason, one.found)))


def compare_lines(chunk: int, before: Iterable[bytes], now: Iterable[bytes]) -> Iterator[LineChange]:
    """Yield the lines of a chunk that are others, by their places."""
    for place, (old, new) in enumerate(zip_longest(before, now)):
        if old != new:
            yield LineChange(chunk, place, _text(old), _text(new))


def _text(line: bytes | None) -> str | None:
    return None if line is None else line.decode(errors="replace")


def compare_totals(
    before: Iterable[tuple[str, Mapping[str, Any]]], now: Mapping[str, Mapping[str, Any]]
) -> TotalsDifference:
    """Compare totals by account: one side as they come, the other held."""
    found, left = TotalsDifference(), dict(now)
    for account, old in before:
        new = left.pop(account, None)
        if old == new:
            found.equal += 1
        else:
            found.add(AccountChange(account, old, new))
    for account, new in left.items():
        found.add(AccountChange(account, None, new))
    return found


def hold_totals(job: str, totals: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Return totals by account, or raise if an account comes twice."""
    held: dict[str, Mapping[str, Any]] = {}
    for account, properties in totals:
        if held.setdefault(account, properties) is not properties:
            raise FinishRefusedError(
                f"job {job!r} would have two totals for account {account[:100]!r}: let the workload merge them"
            )
    return held


def _read_amounts(properties: Mapping[str, Any] | None) -> dict[str, Decimal]:
    """Return the properties that are numbers, or the text of one."""
    found = {}
    for name, value in (properties or {}).items():
        with suppress(RefusedError):
            found[name] = read_amount(value, name)
    return found


@dataclass(slots=True)
class LineSum:
    """Output lines in any order: how many they are, and a sum of their hashes. A few are kept to be shown."""

    count: int = 0
    hashes: int = 0
    size: int = 0
    kept: list[str] | None = field(default_factory=list)

    def add(self, line: bytes) -> None:
        """Add one line, without its line feed."""
        self.count += 1
        self.hashes = (self.hashes + int.from_bytes(sha256(line).digest())) % _HASHES
        self.size += len(line)
        if self.size > LINES_KEPT:
            self.kept = None
        if self.kept is not None:
            self.kept.append(line.decode(errors="replace"))

    def is_same(self, other: "LineSum") -> bool:
        """Check whether both have the same lines."""
        return (self.count, self.hashes) == (other.count, other.hashes)

    def list_missing(self, other: "LineSum") -> list[str]:
        """Return the first lines that the other one lacks, if both are few enough to be kept."""
        if self.kept is None or other.kept is None:
            return []
        return list(islice((Counter(self.kept) - Counter(other.kept)).elements(), MOST_KEPT))
