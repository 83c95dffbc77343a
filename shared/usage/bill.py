"""The bill of counted requests: a line per billing meter and cause, and the sum.

The prices of requests: a dated table, which a file of your own can replace.

The bill of one job, and for comparison the cost of the same work with one message per transaction.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from shared.azure import BUS, Cause, Charge, RequestCounts
from shared.errors import PricesError
from shared.ledger import Job
from shared.versions import decode

#: The prices that come with Sluice.
BUILT_IN: Final = Path(__file__).with_name("prices.json")
#: The units of prices: per 10,000 requests of storage, per million bus operations or executions.
STORAGE_UNIT, MILLION = 10_000, 1_000_000


class BusPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A namespace of the tier Standard: a fixed charge per month, and tiers of operations, which fall in price."""

    month: Decimal
    #: The last operation of the month in each tier, and the price per million.
    tiers: list[tuple[int | None, Decimal]]

    def price(self, operations: int, before: int = 0) -> Decimal:
        """Price operations after `before` others of the same month, without the fixed charge."""
        return sum((count * each / MILLION for count, each in self._parts(operations, before)), Decimal())

    def marginal(self) -> Decimal:
        """Return the price per million after the operations that the fixed charge includes."""
        return next((each for _, each in self.tiers if each), Decimal())

    def _parts(self, operations: int, before: int) -> Iterator[tuple[int, Decimal]]:
        position, end = before, before + operations
        for up_to, each in self.tiers:
            reached = end if up_to is None else min(end, up_to)
            if reached > position:
                yield reached - position, each
                position = reached


class Functions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Flex Consumption: on demand, and always-ready instances."""

    executions: Decimal
    free_executions: int
    gb_second: Decimal
    free_gb_seconds: int
    ready_gb_second: Decimal
    ready_running_gb_second: Decimal


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log Analytics, and alert rules that query it."""

    #: The price per GB of ingested data.
    gb: Decimal
    #: GB per month without a charge.
    free_gb: int
    #: The price per rule and month, by the minutes between two queries.
    alert_rule: dict[int, Decimal]


class Redundancy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to keep copies of an account: its prices beside those of `requests`, which are of Standard_LRS."""

    #: The price per GB and month.
    gb: Decimal
    #: The price of a request, as a multiple of that with Standard_LRS; of all kinds of requests the largest.
    requests: Decimal
    #: The price per GB that is copied to another region.
    gb_copied: Decimal


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of prices."""

    v: Literal[1]
    name: str
    as_of: date
    currency: str
    #: The origin of the figures, or a warning that they are not verified.
    proof: str
    #: The price per 10,000 requests of each meter.
    requests: dict[str, Decimal]
    bus: BusPrices
    functions: Functions
    logs: Logs
    # A table of one's own from before 0.4.0 has neither of these.
    #: A private endpoint by the hour, and by the GB that passes it either way; a private DNS zone by the month.
    network: dict[str, Decimal] = {}
    redundancy: dict[str, Redundancy] = {}

    def __str__(self) -> str:
        return f"{self.name}, {self.currency}, as of {self.as_of:%Y-%m-%d} ({self.proof})"


def load(file: Path | None = None) -> Prices:
    """Load the prices of a file, or those that come with Sluice."""
    path = file or BUILT_IN
    try:
        return decode(path.read_bytes(), Prices)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PricesError(
            f"the price table {path} is unreadable or invalid: {error}; start from the table of `sluice cost prices`"
        ) from error


class BillLine(NamedTuple):
    """One line of a bill."""

    charge: Charge
    number: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of requests, line by line."""

    lines: tuple[BillLine, ...]
    #: Requests without a known price, which no amount includes.
    unpriced: int = 0

    @property
    def total(self) -> Decimal:
        """The sum of all lines."""
        return sum((line.amount for line in self.lines), Decimal())

    @property
    def requests(self) -> int:
        """The number of all requests, priced or not."""
        return sum(line.number for line in self.lines) + self.unpriced


def useful(**requests: int) -> RequestCounts:
    """Build counts by billing meter, for calculations: `useful(queue=3, blob_write=1)`."""
    return {Charge(name.replace("_", "-"), Cause.USEFUL.value): number for name, number in requests.items()}


def add(*usages: RequestCounts) -> RequestCounts:
    """Add up counts of requests."""
    total: Counter[Charge] = Counter()
    for usage in usages:
        total.update(usage)
    return total


def price(usage: RequestCounts, prices: Prices) -> Bill:
    """Price the counts. Each bus operation costs as much as the first one beyond the fixed charge."""
    lines, unpriced = [], 0
    for charge, number in sorted(usage.items()):
        each = prices.bus.marginal() / MILLION if charge.meter == BUS else _price_of_one(charge.meter, prices)
        if each is None:
            unpriced += number
        else:
            lines.append(BillLine(charge, number, number * each))
    return Bill(tuple(lines), unpriced)


def _price_of_one(meter: str, prices: Prices) -> Decimal | None:
    unit_price = prices.requests.get(meter)
    return None if unit_price is None else unit_price / STORAGE_UNIT


#: Put, get and delete: the least number of requests for one message.
REQUESTS_OF_A_MESSAGE: Final = 3
#: The most messages that one request takes off a queue.
TAKEN_AT_ONCE: Final = 32
#: Messages that the host takes with one request (host.json).
HOST_TAKES: Final = 16
#: Submission and finish are one message each, beside the chunks.
OTHER_MESSAGES: Final = 2
#: A result is sent when its chunk has been counted, so its own operations are not in that count: the stage's send, and
#: the host's receive and complete. That is the most: results that are sent together share them.
BUS_OPERATIONS_OF_A_RESULT: Final = 3
#: GB of an instance, which is billed for the time that the chunks took.
INSTANCE_GB: Final = 2


class BillPart(NamedTuple):
    """The costs of one origin: their name in JSON, the mark of their rows in the table, and their lines."""

    name: str
    mark: str
    bill: Bill


@dataclass(frozen=True, slots=True)
class JobBill:
    """The cost of a job, part by part. Every view of it comes from these parts."""

    job: Job
    prices: Prices
    parts: tuple[BillPart, ...]

    @property
    def total(self) -> Decimal:
        """The price of all requests."""
        return sum((part.bill.total for part in self.parts), Decimal())

    @property
    def requests(self) -> int:
        """The number of requests, counted or calculated."""
        return sum(part.bill.requests for part in self.parts)

    @property
    def unpriced(self) -> int:
        """The number of requests that no amount includes."""
        return sum(part.bill.unpriced for part in self.parts)

    @property
    def each(self) -> Decimal:
        """Requests per transaction."""
        return Decimal(self.requests) / max(1, self.job.items)

    @property
    def computing(self) -> Decimal:
        """The upper bound for the chunks' time: the price if each instance ran one chunk at a time."""
        seconds = Decimal(self.job.milliseconds) / 1000
        return seconds * INSTANCE_GB * self.prices.functions.gb_second

    @property
    def one_by_one(self) -> Bill:
        """The bill of the queue requests, if each transaction were one message."""
        return price(useful(queue=REQUESTS_OF_A_MESSAGE * self.job.items), self.prices)


def bill_of(job: Job, prices: Prices) -> JobBill:
    """Build the bill of a job from its row."""
    parts = (
        BillPart("metered", "", price(count_requests(job), prices)),
        # Only Azure counts the host's requests for messages and results, so they are calculated from the chunks.
        BillPart("calculated", " (calculated)", price(take_counts(job.done + job.parked_chunks), prices)),
    )
    return JobBill(job, prices, parts)


def count_requests(job: Job) -> RequestCounts:
    """Return the requests that the job's stages counted."""
    return {Charge.parse(text): number for text, number in job.requests.items()}


def take_counts(chunks: int) -> RequestCounts:
    """Calculate the requests that take the messages of these chunks off their queue, and their results over the bus."""
    messages = chunks + OTHER_MESSAGES
    gets = -(-chunks // HOST_TAKES) + OTHER_MESSAGES
    return useful(queue=messages + gets, bus=chunks * BUS_OPERATIONS_OF_A_RESULT)
