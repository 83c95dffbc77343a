"""Runs a workload over the lines of one chunk; no I/O of its own, and the same lines always give the same.

Control sums: fields of transactions, added exactly, so that nothing can be lost between two stages unseen.
"""

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from shared.grammar import EXACT, ZERO, read_sum
from shared.messages import PortionMessage, Sums
from shared.payload import Read, UnreadableTransaction, reader_of
from shared.workloads.workload import AnyWorkload, Rejected


def sums_of(transactions: Sequence[Any], fields: Iterable[str]) -> Sums:
    """Return the exact sum of each field; what may be added was looked at when the transactions were read."""
    with localcontext(EXACT):
        return {name: _text(sum(map(attrgetter(name), transactions), ZERO)) for name in fields}


def with_amounts(sums: Sums, more: Sequence[Mapping[str, Decimal] | None]) -> Sums | None:
    """Return the sums with some amounts more; amounts that are not known make the whole unknown."""
    known = [amounts for amounts in more if amounts is not None]
    if len(known) != len(more):
        return None
    with localcontext(EXACT):
        return {name: _text(sum((one[name] for one in known), Decimal(before))) for name, before in sums.items()}


def _text(value: Decimal) -> str:
    text = format(value, "f")
    # A workload's own default may be anything; what no message can carry ends here, where the workload is at fault.
    read_sum(text)
    return text


#: Calls of an async `map` that may wait at a time, where the workload does not say.
CONCURRENCY: Final = 16
#: Characters of a rejected line that are kept with its reason.
LONGEST_LINE: Final = 4096


class Rejection(Struct, frozen=True, omit_defaults=True):
    """A transaction that counts for nothing, as the result keeps it."""

    number: int
    reason: str
    found: str
    #: The transaction as it was sent, cut where it is very long.
    line: str


@dataclass(frozen=True, slots=True)
class Processed:
    """What became of the transactions of a chunk."""

    accepted: PortionMessage
    rejected: PortionMessage
    partial: Any
    rejections: list[Rejection]
    #: How many lines had no layout that was known, so that each was looked at closely; it says nothing of what came out.
    closely: int = field(default=0, compare=False)


def run_lines(workload: AnyWorkload, lines: Sequence[bytes], first_number: int) -> Processed:
    """Map and combine the transactions, the first of which has the id `first_number`."""
    read = reader_of(workload.transaction, workload.sums).read(lines)  # type: ignore[arg-type]  # a class has a hash
    numbers = _numbers(first_number, len(lines), read.refused)
    mapped = _map(workload, read.transactions, numbers)
    if read.refused or Rejected in map(type, mapped):
        return _sort_lines(workload, lines, first_number, read, zip(read.transactions, numbers, mapped, strict=True))
    accepted = PortionMessage(items=len(lines), sums=sums_of(read.transactions, workload.sums))
    return Processed(accepted, PortionMessage(), workload.combine(mapped), [], read.closely)


def _numbers(first: int, count: int, refused: Sequence[UnreadableTransaction]) -> Sequence[int]:
    numbers = range(first, first + count)
    gone = {one.place for one in refused}
    return [number for place, number in enumerate(numbers) if place not in gone] if gone else numbers


def _map(workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    if inspect.iscoroutinefunction(workload.map):
        # This runs in a thread of its own: the worker's event loop serves others meanwhile.
        return asyncio.run(_map_waiting(workload, transactions, numbers))
    map_many = getattr(workload, "map_many", None)
    if map_many is None:
        return [workload.map(*pair) for pair in zip(transactions, numbers, strict=True)]
    mapped: Sequence[Any] = map_many(transactions, numbers)
    if len(mapped) != len(transactions):
        raise ValueError(
            f"map_many of workload {workload.name!r} returned {len(mapped)} values for "
            f"{len(transactions)} transactions; return one for each, in order"
        )
    return mapped


async def _map_waiting(workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    places = asyncio.Semaphore(getattr(workload, "concurrency", CONCURRENCY))

    async def one(transaction: Any, number: int) -> Any:
        async with places:
            return await workload.map(transaction, number)  # type: ignore[misc]  # asked whether it is a coroutine

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*pair)) for pair in zip(transactions, numbers, strict=True)]
    except ExceptionGroup as failures:
        # The others were cancelled because of it; what it is decides whether the chunk is tried again.
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _sort_lines(
    workload: AnyWorkload,
    lines: Sequence[bytes],
    first_number: int,
    read: Read[Any],
    mapped: Iterable[tuple[Any, int, Any]],
) -> Processed:
    good, values, bad = [], [], []
    why = {one.place: Rejected(one.reason, one.found) for one in read.refused}
    for transaction, number, value in mapped:
        if type(value) is Rejected:
            bad.append(transaction)
            why[number - first_number] = value
        else:
            good.append(transaction)
            values.append(value)
    lost = with_amounts(sums_of(bad, workload.sums), [one.amounts for one in read.refused])
    rejections = [_rejection(first_number + place, why[place], lines[place]) for place in sorted(why)]
    accepted = PortionMessage(items=len(good), sums=sums_of(good, workload.sums))
    rejected = PortionMessage(items=len(why), sums=lost)
    return Processed(accepted, rejected, workload.combine(values), rejections, read.closely)


def _rejection(number: int, why: Rejected, line: bytes) -> Rejection:
    return Rejection(number, why.reason, why.found, line.decode(errors="replace")[:LONGEST_LINE])
