"""The bill of one job, beside what the same work costs with one message for each transaction."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from shared.azure import Charge, RequestCounts
from shared.ledger import Job
from shared.usage.bill import Bill, price, useful
from shared.usage.prices import Prices

#: Put, get and delete: what one message costs at least; and when 32 are taken with one request.
REQUESTS_OF_A_MESSAGE: Final = 3
TAKEN_AT_ONCE: Final = 32
#: How many messages the host takes with one request; host.json says so.
HOST_TAKES: Final = 16
#: Submission and finish travel as a message each, beside the chunks.
OTHER_MESSAGES: Final = 2
#: A result is sent once it is known what its chunk took, and received and completed by the host.
BUS_OPERATIONS_OF_A_RESULT: Final = 3
#: GB of an instance, for the time that the chunks took.
INSTANCE_GB: Final = 2


class BillPart(NamedTuple):
    """Costs of one origin: their name in JSON, their mark beside each line of the table, and their lines."""

    name: str
    mark: str
    bill: Bill


@dataclass(frozen=True, slots=True)
class JobBill:
    """The cost of a job, part by part: all that is shown of it is made from this list."""

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
        """The number of requests that are in no amount."""
        return sum(part.bill.unpriced for part in self.parts)

    @property
    def each(self) -> Decimal:
        """Requests for one transaction."""
        return Decimal(self.requests) / max(1, self.job.items)

    @property
    def computing(self) -> Decimal:
        """The price of the chunks' time, as if an instance ran one at a time: more is never paid for them."""
        seconds = Decimal(self.job.milliseconds) / 1000
        return seconds * INSTANCE_GB * self.prices.functions.gb_second

    @property
    def one_by_one(self) -> Bill:
        """What queue requests would cost with a message for each transaction."""
        return price(useful(queue=REQUESTS_OF_A_MESSAGE * self.job.items), self.prices)


def bill_of(job: Job, prices: Prices) -> JobBill:
    """Return the bill of a job as its row stands."""
    parts = (
        BillPart("metered", "", price(count_requests(job), prices)),
        # The host's requests for its messages and results, which only Azure counts: from their number.
        BillPart("calculated", " (calculated)", price(take_counts(job.done + job.parked_chunks), prices)),
    )
    return JobBill(job, prices, parts)


def count_requests(job: Job) -> RequestCounts:
    """Return what the job's stages counted."""
    return {Charge.parse(text): number for text, number in job.requests.items()}


def take_counts(chunks: int) -> RequestCounts:
    """Return what it takes to take the messages of so many chunks off their queue, and their results over the bus."""
    messages = chunks + OTHER_MESSAGES
    gets = -(-chunks // HOST_TAKES) + OTHER_MESSAGES
    return useful(queue=messages + gets, bus=chunks * BUS_OPERATIONS_OF_A_RESULT)
