"""Registry of the workloads of an installation: user code, loaded by name from one setting, checked before any work.

`calling` and `items_of` call a workload's code after the chunks. Its errors there are deterministic, the same for the
same partials, so they are not retried.

Runs a workload over the lines of one chunk. It does no I/O itself, and the same lines always give the same result.

Control sums are fields of transactions, added exactly, so that a loss between two stages is always detected.
"""

import asyncio
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from hashlib import sha256
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, cast

import msgspec
from msgspec import Struct

from shared.errors import FinishRefusedError, Later, UnknownWorkloadError, WorkloadsRefusedError
from shared.grammar import EXACT, ZERO, Rate, read_rate, read_sum
from shared.messages import NO_PORTION, PortionMessage, Sums
from shared.parked import Nature, nature_of, note_left
from shared.payload import Read, UnreadableTransaction, reader_of
from shared.telemetry import contain, origin_of
from shared.workloads.isolate import (
    MOST_LEFT,
    Calls,
    Failures,
    Left,
    PartialPiece,
    call_halves,
    combine_pieces,
    combine_rest,
    is_waiting_error,
)
from shared.workloads.lines import LinesAlone, LineSink, write_lines
from shared.workloads.workload import AnyWorkload, Line, Rejected, Total

#: The grammar of a workload's name: that of every name that is part of keys and messages.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_CALLS: Final = ("map", "combine", "merge", "finish")
#: The workloads that come with Sluice, by their short names. Settings have the long one from before there was a short one;
#: both are read for good, also in the wheel, where the module has another name.
_OWN: Final = dict.fromkeys(
    ("billing", "shared.workloads.billing:Billing"), f"{__name__.rpartition('.')[0]}.billing:Billing"
)
#: Upper bounds: with more sums or longer names, a result message would exceed its 1.5 KiB.
MOST_SUMS: Final = 3
LONGEST_SUM_NAME: Final = 24


class Loaded(NamedTuple):
    """The setting, and all settings, by which another process loads the same workloads."""

    setting: str
    settings: Mapping[str, str]


class Workloads:
    """The workloads of this installation, by name."""

    def __init__(self, workloads: Iterable[AnyWorkload], loaded: Loaded | None = None) -> None:
        self._by_name: dict[str, AnyWorkload] = {}
        kinds: list[type[Any]] = []
        #: The rate of each limit, by its name.
        self.limits: dict[str, Rate] = {}
        for given in workloads:
            kinds.append(type(given))
            workload = complete(given)
            if problems := list(_problems(workload)):
                raise WorkloadsRefusedError(f"workload {type(given).__name__} cannot be used: {'; '.join(problems)}")
            if self._by_name.setdefault(workload.name, workload) is not workload:
                raise WorkloadsRefusedError(f"two workloads are called {workload.name!r}: rename one of them")
            for name, rate in rates_of(workload).items():
                if self.limits.setdefault(name, rate) != rate:
                    raise WorkloadsRefusedError(
                        f"the limit {name} is {rate} in workload {workload.name!r}, and {self.limits[name]} in another: name "
                        "one rate, or give one of the limits another name"
                    )
        #: How another process makes the same ones: objects by their classes.
        self.loaded = loaded or Loaded(",".join(f"{kind.__module__}:{kind.__qualname__}" for kind in kinds), {})

    @classmethod
    def load(cls, setting: str, settings: Mapping[str, str]) -> Self:
        """Load the workloads that the setting names: `module:Class` or `billing`, separated by commas.

        A class with a class method `configured` is built by it, from all settings of the app. Any other class is
        built without arguments.
        """
        built = (_build(entry.strip(), settings) for entry in setting.split(",") if entry.strip())
        return cls(built, Loaded(setting, settings))

    def find(self, name: str) -> AnyWorkload:
        """Return the workload, or raise UnknownWorkloadError with the known names."""
        if name not in self._by_name:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise UnknownWorkloadError(
                f"there is no workload {name[:100]!r} here (known: {known}); add it to SLUICE_WORKLOADS, or name another"
            )
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_name))


def _build(entry: str, settings: Mapping[str, str]) -> AnyWorkload:
    module, _, name = _OWN.get(entry, entry).partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise WorkloadsRefusedError(
            f"cannot load workload {entry!r}: {error}; write module:Class, with the module beside function_app.py"
        ) from error
    workload: AnyWorkload = found.configured(settings) if hasattr(found, "configured") else found()
    return workload


def _problems(workload: AnyWorkload) -> Iterator[str]:
    name = getattr(workload, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"its name {name!r} does not fit {_NAME.pattern}"
    missing = [call for call in _CALLS if not callable(getattr(workload, call, None))]
    if missing:
        yield f"it has no {', '.join(missing)}"
    for call in ("split", "lines"):
        if not callable(getattr(workload, call, split)):
            yield f"its {call} is not a function"
    if any(map(_is_async, (getattr(workload, call, None) for call in (*_CALLS[1:], "split", "lines")))):
        yield "only map may be async"
    if getattr(workload, "partial", None) is LinesAlone.partial and has_split(workload):
        yield "it has a split, and no partial that could be split"
    if getattr(workload, "partial", None) is None:
        yield "it has no type `partial`"
    yield from _problems_of_sums(workload)
    yield from _problems_of_limits(workload)


def _problems_of_limits(workload: AnyWorkload) -> Iterator[str]:
    if has_limits(workload) and hasattr(workload, "map_many"):
        yield "it has limits and map_many: limits counts calls of map, so leave out one of the two"
    try:
        rates_of(workload)
    except (TypeError, ValueError) as error:
        yield str(error)


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


def complete(workload: AnyWorkload) -> AnyWorkload:
    """Return the workload, with the four parts that one with lines may leave out together."""
    if has_lines(workload) and not any(hasattr(workload, part) for part in ("partial", *_CALLS[1:])):
        return cast("AnyWorkload", LinesAlone(workload))
    return workload


def _problems_of_sums(workload: AnyWorkload) -> Iterator[str]:
    sums, fields = getattr(workload, "sums", None), _fields(getattr(workload, "transaction", None))
    if fields is None:
        yield "its type `transaction` is not a msgspec Struct"
    elif not isinstance(sums, tuple) or len(sums) > MOST_SUMS or any(len(name) > LONGEST_SUM_NAME for name in sums):
        yield f"its `sums` must be a tuple of at most {MOST_SUMS} names of at most {LONGEST_SUM_NAME} characters each"
    else:
        wrong = [name for name in sums if fields.get(name) not in (Decimal, int)]
        if wrong:
            yield f"{', '.join(wrong)} in its `sums` must be a field of type Decimal or int, sent under its own name"


def _fields(transaction: Any) -> dict[str, Any] | None:
    """Return the types of the fields with the same name in JSON and Python, or None if it is not a Struct."""
    if not (isinstance(transaction, type) and issubclass(transaction, msgspec.Struct)):
        return None
    return {
        field.name: _bare(field.type)
        for field in msgspec.structs.fields(transaction)
        if field.name == field.encode_name
    }


def _bare(annotation: Any) -> Any:
    # Annotated[int, Meta(ge=0)] counts as an int.
    return getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation


@contextmanager
def calling(workload: AnyWorkload, call: str) -> Iterator[None]:
    """Turn the workload's errors into FinishRefusedError, except outages that it may have met."""
    try:
        with contain():
            yield
    except MemoryError:
        # It depends on this process, not on the partials: another process may have room.
        raise
    except Exception as error:
        if nature_of(error) is Nature.TRANSIENT:
            raise
        found = origin_of(error)
        raise FinishRefusedError(
            f"workload {workload.name!r} failed in its {call}: {type(found).__name__}: {found}; "
            "correct it, deploy, then resume the job"
        ) from error


def has_split(workload: AnyWorkload) -> bool:
    """Check whether the workload can split a partial by account."""
    return hasattr(workload, "split")


def has_lines(workload: AnyWorkload) -> bool:
    """Check whether the workload makes lines of its transactions."""
    return hasattr(workload, "lines")


def has_limits(workload: AnyWorkload) -> bool:
    """Check whether the calls of the workload's `map` have limits."""
    return bool(getattr(workload, "limits", None))


def rates_of(workload: AnyWorkload) -> Mapping[str, Rate]:
    """Return the rate of each limit of the workload, or raise an error that says what is wrong with one."""
    limits: object = getattr(workload, "limits", None) or {}
    if not isinstance(limits, Mapping):
        raise TypeError(f'its `limits` is a {type(limits).__name__}, expected a dict such as {{"bank": "100/s"}}')
    return {name: read_rate(name, text) for name, text in limits.items()}


def shard_of(account: str, count: int) -> int:
    """Return the shard of an account, from 0. It is the same in every process and version, which `hash` is not."""
    # Of two bytes, the first one decides for powers of two up to 256: as it did when only that one was taken.
    return int.from_bytes(sha256(account.encode("utf-8", "surrogatepass")).digest()[:2], "little") % count


def by_key(_workload: object, partial: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Split a partial that is a dict by account. `split = by_key` in a workload's class makes it its `split`."""
    cuts: list[dict[str, Any]] = [{} for _ in range(count)]
    for account, value in partial.items():
        cuts[shard_of(account, count)][account] = value
    return cuts


def split(workload: AnyWorkload, partial: object, count: int) -> list[object]:
    """Return the partial in so many cuts, by the workload's `split`."""
    call: Callable[[object, int], object] | None = getattr(workload, "split", None)
    if call is None:
        raise FinishRefusedError(
            f"workload {workload.name!r} has no split, but this revision was begun in {count} shards: deploy the one that "
            "has it, or resume the job, which begins a new revision"
        )
    with calling(workload, "split"):
        cuts = call(partial, count)
    if not isinstance(cuts, list) or len(cuts) != count:
        found = f"{len(cuts)} partials" if isinstance(cuts, list) else f"a {type(cuts).__name__}"
        raise FinishRefusedError(
            f"workload {workload.name!r} returned {found} from its split, expected a list of {count}: correct it, deploy, "
            "then resume the job"
        )
    return cuts


def items_of(workload: AnyWorkload, partial: object) -> Iterator[Total | Line]:
    """Yield the totals and lines that the workload's `finish` yields."""
    with calling(workload, "finish"):
        items = iter(workload.finish(partial))
    while True:
        with calling(workload, "finish"):
            item: object = next(items, None)
        if item is None:
            return
        if not isinstance(item, Total | Line):
            raise FinishRefusedError(
                f"workload {workload.name!r} yielded a {type(item).__name__} from its finish, expected Total or Line"
            )
        yield item


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
    """The outcome of a chunk: its portions, its partial, its rejections, and the transactions that are left."""

    accepted: PortionMessage
    rejected: PortionMessage
    partial: Any
    rejections: list[Rejection]
    #: Those of which a call raised. They are in none of the portions.
    left: Sequence[Left] = ()
    #: Their number and sums.
    failed: PortionMessage = NO_PORTION
    #: Lines that were read one by one, for want of a known layout. It does not affect the outcome.
    closely: int = field(default=0, compare=False)
    #: Partials of those that passed, if not all did or not all were run, and these can be kept. The partial is of all in one.
    pieces: Sequence[PartialPiece] | None = None


class _InOneRow(NamedTuple):
    """Lines of a run in which nothing may fail."""

    add: Callable[[bytes, int], object]

    def begin_row(self, _first: int, /) -> None:
        """Go on: what fails is raised."""


def run_lines(
    workload: AnyWorkload,
    lines: Sequence[bytes],
    first_number: int,
    emit: Callable[[bytes, int], object] | None = None,
) -> Processed:
    """Map and combine the transactions. The first one has the id `first_number`. Raise the first failure.

    `emit` takes the lines that the workload makes of those that were accepted. They come after `combine`, which may refuse a value.
    """
    ids = range(first_number, first_number + len(lines))
    found = isolate_lines(workload, lines, ids, None if emit is None else _InOneRow(emit))
    raise_first(found.left, len(lines))
    return found


def raise_first(left: Sequence[Left], items: int) -> None:
    """Raise the first of these failures, if there is one."""
    if left:
        raise first_of(left, items)


def first_of(left: Sequence[Left], items: int) -> Exception:
    """Return the first of these failures, with its transaction, and how many of the items have failed."""
    first = left[0]
    note_left(first.error, first.number, len(left), items)
    return first.error


@contain()
def isolate_lines(
    workload: AnyWorkload,
    lines: Sequence[bytes],
    ids: Sequence[int],
    sink: LineSink | None = None,
    calls: Calls | None = None,
) -> Processed:
    """Map and combine the transactions with these ids, and make the lines of those that passed. One that fails is left."""
    read = reader_of(workload.transaction, workload.sums).read(lines)  # type: ignore[arg-type]  # a class has a hash
    numbers, failures = _numbers(ids, read.refused), Failures()
    mapped = map_all(workload, read.transactions, numbers, failures, calls)
    is_whole = not (read.refused or failures.by_number or Rejected in map(type, mapped))
    good, values, transactions = numbers, mapped, read.transactions
    if not is_whole:
        each = zip(numbers, mapped, read.transactions, strict=True)
        kept = [one for one in each if type(one[1]) is not Rejected and one[0] not in failures.by_number]
        good, values, transactions = [one[0] for one in kept], [one[1] for one in kept], [one[2] for one in kept]
    partial = _combine(workload, values, good, failures)
    has_gaps = bool(failures.by_number) or not isinstance(ids, range)
    # Of more faults than these, nothing is kept.
    if sink is not None and failures.count_faults() <= MOST_LEFT:
        each = zip(transactions, good, values, strict=True)
        passed = (one for one in each if one[1] not in failures.by_number) if failures.by_number else each
        write_lines(workload, passed, sink, failures, has_gaps=has_gaps)
        has_gaps = has_gaps or bool(failures.by_number)
        if failures.by_number:
            # The last one may have failed.
            sink.begin_row(ids[-1] + 1)
    pieces = combine_pieces(workload, dict(zip(good, values, strict=True)), ids, failures) if has_gaps else None
    if is_whole and not failures.by_number:
        accepted = PortionMessage(items=len(lines), sums=sums_of(read.transactions, workload.sums))
        return Processed(accepted, PortionMessage(), partial, [], closely=read.closely, pieces=pieces)
    outcomes = zip(read.transactions, numbers, mapped, strict=True)
    sorted_ = _sort_lines(workload, lines, ids, read, outcomes, failures)
    return replace(sorted_, partial=partial, pieces=pieces)


def _combine(workload: AnyWorkload, values: Sequence[Any], numbers: Sequence[int], failures: Failures) -> Any:
    try:
        with contain():
            return workload.combine(values)
    except Exception as error:  # noqa: BLE001 - its nature is judged where the guilty one is looked for
        return combine_rest(workload, values, numbers, error, failures)


def _numbers(ids: Sequence[int], refused: Sequence[UnreadableTransaction]) -> Sequence[int]:
    gone = {one.place for one in refused}
    return [number for place, number in enumerate(ids) if place not in gone] if gone else ids


def is_waiting(workload: AnyWorkload) -> bool:
    """Check whether the workload's `map` is async: it waits for others, and its calls run side by side."""
    return inspect.iscoroutinefunction(workload.map)


def map_all(
    workload: AnyWorkload,
    transactions: Sequence[Any],
    numbers: Sequence[int],
    failures: Failures,
    calls: Calls | None = None,
) -> Sequence[Any]:
    """Return the value of each transaction, by the call that the workload has for it. None for one that is left."""
    calls = calls or Calls(seconds=inf)
    if is_waiting(workload):
        # This runs in a thread of its own, so the worker's event loop is not blocked.
        return asyncio.run(_map_waiting(workload, transactions, numbers, failures, calls))
    map_many: Callable[..., Sequence[Any]] | None = getattr(workload, "map_many", None)
    if map_many is None:
        return _map_each(workload, transactions, numbers, failures, calls)
    try:
        with contain():
            whole = map_many(transactions, numbers)
    except Exception as error:  # noqa: BLE001 - its nature is judged there
        parts = call_halves(map_many, transactions, numbers, error, failures)
        whole = [value for part, found in parts for value in _check_length(workload, found, part)]
    whole = _check_length(workload, whole, numbers)
    return _leave_later(whole, numbers, failures) if Later in map(type, whole) else whole


def _leave_later(mapped: Sequence[Any], numbers: Sequence[int], failures: Failures) -> Sequence[Any]:
    for value, number in zip(mapped, numbers, strict=True):
        if type(value) is Later:
            failures.add(value, number)
    return [None if type(value) is Later else value for value in mapped]


def _check_length(workload: AnyWorkload, mapped: Sequence[Any] | None, numbers: Sequence[int]) -> Sequence[Any]:
    if mapped is None:
        return [None] * len(numbers)
    if len(mapped) != len(numbers):
        raise ValueError(
            f"map_many of workload {workload.name!r} returned {len(mapped)} values for "
            f"{len(numbers)} transactions; return one per transaction, in order"
        )
    return mapped


def _map_each(
    workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int], failures: Failures, calls: Calls
) -> Sequence[Any]:
    call, values = workload.map, list[Any]()
    each = zip(transactions, numbers, strict=True)

    def call_on(transaction: Any, number: int, end: BaseException | None = None) -> Any:
        try:
            return calls.call(call, transaction, number, end)
        except BaseException as raised:  # noqa: BLE001 - `add` raises what must not be kept
            failures.add(raised, number)
            return None

    if calls.are_free:
        # Nothing is looked at between two calls, until one of them waits.
        for transaction, number in each:
            try:
                value = call(transaction, number)
            except BaseException as raised:  # noqa: BLE001 - `add` raises what must not be kept
                if is_waiting_error(raised):
                    values.append(call_on(transaction, number, raised))
                    break
                failures.add(raised, number)
                value = None
            if type(value) is Later:
                values.append(call_on(transaction, number, value))
                break
            values.append(value)
    values += [call_on(transaction, number) for transaction, number in each]
    return values


def _is_cancelled() -> bool:
    """Return whether another call failed, which cancels this one."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _map_waiting(
    workload: AnyWorkload, transactions: Sequence[Any], numbers: Sequence[int], failures: Failures, calls: Calls
) -> list[Any]:
    semaphore = asyncio.Semaphore(getattr(workload, "concurrency", CONCURRENCY))

    async def one(transaction: Any, number: int) -> Any:
        async with semaphore:
            try:
                return await calls.call_waiting(workload.map, transaction, number)  # type: ignore[arg-type]  # the caller checked that it is a coroutine function
            except BaseException as raised:
                if not isinstance(raised, Exception) and _is_cancelled():
                    raise
                # Not outside of the loop: SystemExit would end it, and CancelledError looks like the end of a call that is cancelled.
                failures.add(raised, number)
                return None

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*pair)) for pair in zip(transactions, numbers, strict=True)]
    except ExceptionGroup as raised:
        # The other calls were cancelled because of the first one that concerns all, such as a lack of memory.
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]


def _sort_lines(  # noqa: PLR0913, PLR0917 - all that a chunk was made of
    workload: AnyWorkload,
    lines: Sequence[bytes],
    ids: Sequence[int],
    read: Read[Any],
    mapped: Iterable[tuple[Any, int, Any]],
    failures: Failures,
) -> Processed:
    """Return the outcome of a chunk by its transactions, without its partial."""
    good, bad, failed = [], [], []
    why = {ids[one.place]: Rejected(one.reason, one.found) for one in read.refused}
    for transaction, number, value in mapped:
        if type(value) is Rejected:
            bad.append(transaction)
            why[number] = value
        elif number in failures.by_number:
            failed.append(transaction)
        else:
            good.append(transaction)
    lost = with_amounts(sums_of(bad, workload.sums), [one.amounts for one in read.refused])
    rejections = [
        Rejection(number, one.reason, one.found, lines[ids.index(number)].decode(errors="replace")[:LONGEST_LINE])
        for number, one in sorted(why.items())
    ]
    accepted = PortionMessage(items=len(good), sums=sums_of(good, workload.sums))
    rejected = PortionMessage(items=len(why), sums=lost) if why else PortionMessage()
    left = failures.list_left()
    left[:MOST_LEFT] = [one._replace(line=lines[ids.index(one.number)]) for one in left[:MOST_LEFT]]
    portion = PortionMessage(items=len(failed), sums=sums_of(failed, workload.sums)) if failed else NO_PORTION
    return Processed(accepted, rejected, None, rejections, left, portion, read.closely)
