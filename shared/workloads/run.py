"""Runs a workload over the lines of one chunk; no I/O of its own, and the same lines always give the same."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from shared.pipeline.messages import Outcome
from shared.workloads.control import added, is_addable, sums_of, sums_of_line
from shared.workloads.workload import AnyWorkload, Rejected

#: Calls of an async `map` that may wait at a time, where the workload does not say.
CONCURRENCY: Final = 16
#: Characters of a rejected line that are kept with its reason.
LONGEST_LINE: Final = 4096
UNREADABLE: Final = "does_not_fit"
NOT_ADDABLE: Final = "bad_amount"


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

    accepted: Outcome
    rejected: Outcome
    partial: Any
    rejections: list[Rejection]


@dataclass(slots=True)
class _Lines:
    """A chunk's lines, sorted into what can be mapped and what cannot."""

    transactions: list[Any]
    numbers: Sequence[int]
    refused: list[tuple[int, Rejected]]


def run(workload: AnyWorkload, lines: Sequence[bytes], first_number: int) -> Processed:
    """Map and combine the transactions, the first of which has the id `first_number`."""
    read = _read(workload, lines, first_number)
    sums = sums_of(read.transactions, workload.sums)
    if sums is None:
        # Before `map` sees it: whoever compares an amount does not think of one that is no number.
        read = _addable(workload, read)
    mapped = _map(workload, read)
    if sums is not None and not read.refused and Rejected not in map(type, mapped):
        return Processed(Outcome(items=len(lines), sums=sums), Outcome(), workload.combine(mapped), [])
    return _sorted(workload, lines, first_number, read, mapped)


def _read(workload: AnyWorkload, lines: Sequence[bytes], first_number: int) -> _Lines:
    decode = msgspec.json.Decoder(workload.transaction).decode
    numbers = range(first_number, first_number + len(lines))
    try:
        return _Lines(list(map(decode, lines)), numbers, [])
    except (msgspec.DecodeError, RecursionError):
        return _read_one_by_one(decode, lines, numbers)


def _read_one_by_one(decode: Callable[[bytes], Any], lines: Sequence[bytes], numbers: Sequence[int]) -> _Lines:
    transactions, readable, refused = [], [], []
    for number, line in zip(numbers, lines, strict=True):
        try:
            transactions.append(decode(line))
            readable.append(number)
        except (msgspec.DecodeError, RecursionError) as error:
            refused.append((number, Rejected(UNREADABLE, str(error))))
    return _Lines(transactions, readable, refused)


def _addable(workload: AnyWorkload, read: _Lines) -> _Lines:
    why = Rejected(NOT_ADDABLE, f"one of {', '.join(workload.sums)} has too many digits or is no number")
    pairs = list(zip(read.transactions, read.numbers, strict=True))
    good = [pair for pair in pairs if is_addable(pair[0], workload.sums)]
    refused = [(number, why) for transaction, number in pairs if not is_addable(transaction, workload.sums)]
    return _Lines([one for one, _ in good], [number for _, number in good], [*read.refused, *refused])


def _map(workload: AnyWorkload, read: _Lines) -> Sequence[Any]:
    if inspect.iscoroutinefunction(workload.map):
        # This runs in a thread of its own: the worker's event loop serves others meanwhile.
        return asyncio.run(_map_waiting(workload, read))
    map_many = getattr(workload, "map_many", None)
    if map_many is None:
        return [workload.map(*pair) for pair in zip(read.transactions, read.numbers, strict=True)]
    mapped: Sequence[Any] = map_many(read.transactions, read.numbers)
    if len(mapped) != len(read.transactions):
        raise ValueError(
            f"map_many of workload {workload.name!r} returned {len(mapped)} values for "
            f"{len(read.transactions)} transactions; return one for each, in order"
        )
    return mapped


async def _map_waiting(workload: AnyWorkload, read: _Lines) -> list[Any]:
    places = asyncio.Semaphore(getattr(workload, "concurrency", CONCURRENCY))

    async def one(transaction: Any, number: int) -> Any:
        async with places:
            return await workload.map(transaction, number)  # type: ignore[misc]  # asked whether it is a coroutine

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*pair)) for pair in zip(read.transactions, read.numbers, strict=True)]
    except ExceptionGroup as failures:
        # The others were cancelled because of it; what it is decides whether the chunk is tried again.
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _sorted(
    workload: AnyWorkload, lines: Sequence[bytes], first_number: int, read: _Lines, mapped: Sequence[Any]
) -> Processed:
    good, values, refused = [], [], list(read.refused)
    for transaction, number, value in zip(read.transactions, read.numbers, mapped, strict=True):
        if type(value) is Rejected:
            refused.append((number, value))
        else:
            good.append(transaction)
            values.append(value)
    rejections = [_rejection(why, number, lines[number - first_number]) for number, why in sorted(refused, key=_number)]
    parts = [sums_of_line(lines[number - first_number], workload.sums) for number, _ in refused]
    return Processed(
        Outcome(items=len(good), sums=sums_of(good, workload.sums)),
        Outcome(items=len(refused), sums=added(parts, workload.sums)),
        workload.combine(values),
        rejections,
    )


def _rejection(why: Rejected, number: int, line: bytes) -> Rejection:
    return Rejection(number, why.reason, why.found, line.decode(errors="replace")[:LONGEST_LINE])


def _number(refused: tuple[int, Rejected]) -> int:
    return refused[0]
