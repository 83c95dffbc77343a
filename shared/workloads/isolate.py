"""Finds the transactions that fail, so that one costs the others nothing. Called only once something was raised.

A call for one transaction names it. A call for many is made again for the halves of the list, until one transaction is
alone. What concerns the whole chunk is raised: then it is tried again as a whole. So is what may pass, of a call for many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from shared.parked import Nature, nature_of, note_item
from shared.telemetry import contain, origin_of, replace_exit
from shared.workloads.calls import is_uncalled, is_waiting_error
from shared.workloads.workload import AnyWorkload

T = TypeVar("T")
#: Failures of a chunk that keep their traceback. Thousands of them would cost half a second to describe.
MOST_TRACED: Final = 100
#: Failures of a chunk of which the others are kept. More than these are seldom the fault of single transactions.
MOST_LEFT: Final = 100


class Left(NamedTuple):
    """A transaction whose call raised, or did not begin."""

    number: int
    error: Exception
    #: As sent, of the first MOST_LEFT of a chunk. Above, none is parked by itself.
    line: bytes = b""


class PartialPiece(NamedTuple):
    """The partial of transactions that follow each other, and the id of the first."""

    first: int
    partial: Any


@dataclass(slots=True)
class Failures:
    """The failures of one chunk, by transaction, while it is run."""

    by_number: dict[int, Exception] = field(default_factory=dict)

    def add(self, raised: BaseException, number: int) -> None:
        """Note what a call for one transaction raised. Raise it again if it does not concern that one alone."""
        error = raised if isinstance(raised, Exception) else replace_exit(raised)
        if not (_is_of_one(error) or is_waiting_error(error) or is_uncalled(error)):
            note_item(error, number)
            raise error
        if len(self.by_number) >= MOST_TRACED:
            origin_of(error).__traceback__ = None
        self.by_number[number] = error

    def count_faults(self) -> int:
        """Return how many failed of themselves, and do not wait."""
        return sum(not (is_waiting_error(error) or is_uncalled(error)) for error in self.by_number.values())

    def list_left(self) -> list[Left]:
        """Return the failures in the order of their transactions."""
        return [Left(*one) for one in sorted(self.by_number.items())]


def call_halves(
    call: Callable[[Sequence[Any], Sequence[int]], T],
    items: Sequence[Any],
    numbers: Sequence[int],
    error: Exception,
    failures: Failures,
) -> Iterator[tuple[Sequence[int], T | None]]:
    """Yield the numbers of each part of the list, in order, and the values that the call returns for it.

    The call raised `error` for the whole list. None: the part is one transaction, whose failure is noted.
    """
    if not _is_of_one(error):
        raise error
    if len(items) <= 1:
        for number in numbers:
            failures.add(error, number)
            yield numbers, None
        return
    middle = len(items) // 2
    for half in (slice(middle), slice(middle, None)):
        try:
            with contain():
                found = call(items[half], numbers[half])
        except Exception as again:  # noqa: BLE001 - its nature is judged by the next call
            yield from call_halves(call, items[half], numbers[half], again, failures)
        else:
            yield numbers[half], found


def combine_rest(
    workload: AnyWorkload, values: Sequence[Any], numbers: Sequence[int], error: Exception, failures: Failures
) -> Any:
    """Return the partial of the values that can be combined. Raise the error if no transaction is alone to blame."""
    before = len(failures.by_number)
    for _ in call_halves(lambda part, _numbers: workload.combine(part), values, numbers, error, failures):
        pass
    if len(failures.by_number) == before:
        raise error
    rest = [value for value, number in zip(values, numbers, strict=True) if number not in failures.by_number]
    with contain():
        return workload.combine(rest)


def combine_pieces(
    workload: AnyWorkload, values: Mapping[int, Any], ids: Sequence[int], failures: Failures
) -> list[PartialPiece] | None:
    """Return a partial of each row of neighbours that passed. None: too many failed to be worth it, or they cannot be combined.

    So what is left can be put between them later: `merge` need not take them in any other order.
    """
    if failures.count_faults() > MOST_LEFT:
        return None
    rows: list[list[int]] = []
    before = None
    for number in ids:
        if number in failures.by_number:
            continue
        if before is None or number != before + 1:
            rows.append([])
        rows[-1].append(number)
        before = number
    try:
        with contain():
            each = ((row[0], [values[number] for number in row if number in values]) for row in rows)
            return [PartialPiece(first, workload.combine(row)) for first, row in each if row]
    except Exception:  # noqa: BLE001 - then the whole chunk runs again, as it would without them
        return None


def _is_of_one(error: Exception) -> bool:
    """Check whether an error may be a transaction's own. An outage is not, nor is a lack of memory."""
    return nature_of(error) is Nature.UNKNOWN and not isinstance(origin_of(error), MemoryError)
