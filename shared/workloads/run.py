"""Runs a workload over the lines of one chunk. It does no I/O itself, and the same lines always give the same result.

Control sums are fields of transactions, added exactly, so that a loss between two stages is always detected.
"""

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from operator import attrgetter, length_hint
from typing import Any, Final

from msgspec import Struct

from shared.grammar import EXACT, ZERO, read_sum
from shared.messages import PortionMessage, Sums
from shared.parked import note_item
from shared.payload import Read, UnreadableTransaction, reader_of
from shared.telemetry import contain, replace_exit
from shared.workloads.workload import AnyWorkload, Rejected


def sums_of(transactions: Sequence[Any], fields: Iterable[str]) -> Sums:
    """Return the exact sum of each field. Reading the transactions has checked that the fields can be added."""
    with localcontext(EXACT):
        return {name: _text(sum(map(attrgetter(name), transactions), ZERO)) for name in fields}


def with_amounts(sums: Sums, more: Sequence[Mapping[str, Decimal] | None]) -> Sums | None:
    """Return the sums with more amounts added. One unknown amount makes the result unknown: None."""
    known = [amounts for amounts in more if amounts is not None]
    if len(known) != len(more):
        return None
    with localcontext(EXACT):
        return {name: _text(sum((one[name] for one in known), Decimal(before))) for name, before in sums.items()}


def _text(value: Decimal) -> str:
    text = format(value, "f")
    # A default value of the workload's type may be out of bounds. Fail here, where the workload is at fault, and not
    # in a message that cannot carry it.
    read_sum(text)
    return text


#: Concurrent calls of an async `map`, unless the workload sets its own number.
CONCURRENCY: Final = 16
#: Characters of a rejected line that are kept with its reason.
LONGEST_LINE: Final = 4096


class Rejection(Struct, frozen=True, omit_defaults=True):
    """A rejected transaction, as stored in the result."""

    number: int
    reason: str
    found: str
    #: The transaction as sent, cut at `LONGEST_LINE` characters.
    line: str


@dataclass(frozen=True, slots=True)
class Processed:
    """The outcome of a chunk: its portions, its partial and its rejections."""

    accepted: PortionMessage
    rejected: PortionMessage
    partial: Any
    rejections: list[Rejection]
    #: Lines that were read one by one, for want of a known layout. It does not affect the outcome.
    closely: int = field(default=0, compare=False)


@contain()
def run_lines(workload: AnyWorkload, lines: Sequence[bytes], first_number: int) -> Processed:
    """Map and combine the transactions. The first one has the id `first_number`."""
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


def is_waiting(workload: AnyWorkload) -> bool:
    """Check whether the workload's `map` is async: it waits for others, and its calls run side by side."""
    return inspect.iscoroutinefunction(workload.map)


def _map(workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    if is_waiting(workload):
        # This runs in a thread of its own, so the worker's event loop is not blocked.
        return asyncio.run(_map_waiting(workload, transactions, numbers))
    map_many = getattr(workload, "map_many", None)
    if map_many is None:
        return _map_each(workload, transactions, numbers)
    mapped: Sequence[Any] = map_many(transactions, numbers)
    if len(mapped) != len(transactions):
        raise ValueError(
            f"map_many of workload {workload.name!r} returned {len(mapped)} values for "
            f"{len(transactions)} transactions; return one per transaction, in order"
        )
    return mapped


def _map_each(workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    left = iter(numbers)
    try:
        with contain():
            return [workload.map(*pair) for pair in zip(transactions, left, strict=True)]
    except Exception as error:
        # Counted only now, from the numbers that are left: the ordinary transaction pays nothing for it.
        note_item(error, numbers[len(numbers) - length_hint(left) - 1])
        raise


def _is_cancelled() -> bool:
    """Return whether another call failed, which cancels this one."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _map_waiting(workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    semaphore = asyncio.Semaphore(getattr(workload, "concurrency", CONCURRENCY))

    async def one(transaction: Any, number: int) -> Any:
        async with semaphore:
            try:
                return await workload.map(transaction, number)  # type: ignore[misc]  # the caller checked that it is a coroutine function
            except Exception as error:
                note_item(error, number)
                raise
            except BaseException as raised:
                if _is_cancelled():
                    raise
                # Not outside of the loop: SystemExit would end it, and CancelledError looks like the end of a call that is cancelled.
                exit_ = replace_exit(raised)
                note_item(exit_, number)
                raise exit_ from raised

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*pair)) for pair in zip(transactions, numbers, strict=True)]
    except ExceptionGroup as failures:
        # The other calls were cancelled because of the first failure, whose nature decides about a retry.
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
    rejections = [
        Rejection(first_number + place, one.reason, one.found, lines[place].decode(errors="replace")[:LONGEST_LINE])
        for place, one in sorted(why.items())
    ]
    accepted = PortionMessage(items=len(good), sums=sums_of(good, workload.sums))
    rejected = PortionMessage(items=len(why), sums=lost)
    return Processed(accepted, rejected, workload.combine(values), rejections, read.closely)
