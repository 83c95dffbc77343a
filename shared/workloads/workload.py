"""What Sluice asks of a workload; it says nothing of queues, blobs or retries, and a workload knows none of them."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

#: What a table can hold in a property; decimals go in as text, since a number would lose their digits.
Property: TypeAlias = str | int | bool
Transaction = TypeVar("Transaction")
Mapped = TypeVar("Mapped")
Partial = TypeVar("Partial")


class Rejected(Struct, frozen=True, omit_defaults=True):
    """Returned by `map` instead of a value: this transaction counts for nothing, and its reason goes to the output."""

    #: A short permanent code, by which rejections are counted and searched.
    reason: str
    #: What was found, for a person.
    found: str = ""


class Total(Struct, frozen=True):
    """One row of the job's totals, by account; a later revision replaces it."""

    account: str
    properties: Mapping[str, Property] = field(default_factory=dict)


class Line(Struct, frozen=True):
    """One line of the job's output: anything that msgspec encodes as a JSON object."""

    content: Any


class Workload(Protocol[Transaction, Mapped, Partial]):
    """The code of one kind of job; it has no state that outlives a call, for any worker may run any chunk.

    Running a chunk again must give the same: what `map` does outside (a request, a row) must bear repetition. An
    exception parks the whole chunk sooner or later, so return Rejected for whatever one bad transaction can cause.

    Two optional attributes: `concurrency`, how many calls of an async `map` may wait at a time (default 16), and
    `map_many(transactions, numbers)`, which maps a whole chunk in one call, where a call each costs too much.
    """

    #: What a submission says to have this workload run: `"workload": "billing"`.
    name: str
    #: A msgspec type; a line that does not fit it is rejected before `map` sees it.
    transaction: type[Transaction]
    #: A type that msgspec encodes to JSON and back without loss.
    partial: type[Partial]
    #: Fields of a transaction, decimal or whole, whose sums are proven from submission to completion.
    sums: tuple[str, ...]

    def map(self, transaction: Transaction, number: int, /) -> Mapped | Rejected | Awaitable[Mapped | Rejected]:
        """Return what the transaction is worth, or Rejected; `number` is its unique id. May be `async def`."""
        ...

    def combine(self, mapped: Sequence[Mapped], /) -> Partial:
        """Return the chunk's partial; of nothing, the partial that changes nothing when it is merged."""
        ...

    def merge(self, left: Partial, right: Partial, /) -> Partial:
        """Return both in one; associative, and it may change and return `left`, so that merging holds one partial."""
        ...

    def finish(self, partial: Partial, /) -> Iterable[Total | Line]:
        """Yield the job's totals and output lines; the same partial must yield the same, in the same order."""
        ...


#: A workload whose types somebody else knows.
AnyWorkload: TypeAlias = Workload[Any, Any, Any]
