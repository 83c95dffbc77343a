"""The bill of one job, and for comparison the cost of the same work with one message per transaction."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from shared.azure import Charge, RequestCounts
from shared.ledger import Job
from shared.usage.bill import Bill, price, useful
from shared.usage.prices import Prices

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
