"""The contract of a workload. It knows nothing of queues, blobs or retries."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

#: The types of a column of the totals. Send a decimal as text, since a number would lose digits.
Property: TypeAlias = str | int | bool
Transaction = TypeVar("Transaction")
Mapped = TypeVar("Mapped")
Partial = TypeVar("Partial")


class Rejected(Struct, frozen=True, omit_defaults=True):
    """Returned by `map` instead of a value: the transaction is rejected, and its reason goes to the output."""

    #: A short permanent code, by which rejections are counted and searched.
    reason: str
    #: The facts, for a person.
    found: str = ""


class Total(Struct, frozen=True):
    """One row of the job's totals, by account. A later revision replaces it."""

    account: str
    properties: Mapping[str, Property] = field(default_factory=dict)


class Line(Struct, frozen=True):
    """One line that `lines` makes of a transaction, or `finish` of a job: anything that msgspec encodes as a JSON object."""

    content: Any


class Workload(Protocol[Transaction, Mapped, Partial]):
    """The code of one kind of job. It keeps no state between calls, for any worker may run any chunk.

    Running a chunk again must give the same result. An outside effect of `map` (a request, a row) must be safe to
    repeat. An exception parks the whole chunk sooner or later, so return Rejected for a bad transaction.

    Five attributes are optional. `concurrency` is the number of concurrent calls of an async `map`, 16 by default.
    `map_many(transactions, numbers)` maps a whole chunk in one call, if one call per transaction costs too much.
    `split(partial, count)` returns a list of `count` partials, which merged are the whole: each account's part is at index
    `shard_of(account, count)`. Then the totals of a large job are made and written in shards, side by side. `split = by_key`
    does it for a dict by account. `lines(transaction, number, value)` yields the lines of an accepted transaction: of the same
    three the same. A workload with `lines` may leave out `partial`, `combine`, `merge` and `finish`, all together.
    `limits = {"bank": "100/s"}` bounds the calls of `map` over all processes, in a second or a minute (`30/min`).
    """

    #: The name that a submission gives to run this workload: `"workload": "billing"`.
    name: str
    #: A msgspec Struct. A line that does not fit it is rejected before `map`.
    transaction: type[Transaction]
    #: A type that msgspec encodes to JSON and back without loss.
    partial: type[Partial]
    #: Fields of a transaction, decimal or whole, whose sums are proven from submission to completion.
    sums: tuple[str, ...]

    def map(self, transaction: Transaction, number: int, /) -> Mapped | Rejected | Awaitable[Mapped | Rejected]:
        """Return the value of the transaction, or Rejected. `number` is its unique id. May be `async def`."""
        ...

    def combine(self, mapped: Sequence[Mapped], /) -> Partial:
        """Return the chunk's partial, and leave the values as they are. Without any, return one that changes nothing when it is merged."""
        ...

    def merge(self, left: Partial, right: Partial, /) -> Partial:
        """Return both in one. It must be associative. It may change and return `left`, so that only one is in memory."""
        ...

    def finish(self, partial: Partial, /) -> Iterable[Total | Line]:
        """Yield the job's totals and output lines. The same partial must yield the same, in the same order."""
        ...


#: A workload of any types.
AnyWorkload: TypeAlias = Workload[Any, Any, Any]
