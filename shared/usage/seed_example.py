"""The worked example of the paper that Sluice grew from: what 200 threads cost that find nothing for 22 hours a day."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

#: The paper's own figures: dollars for 10,000 requests of any kind, and the sum that it prints.
PRICE: Final = Decimal("0.01")
PRINTED: Final = Decimal("457.20")
IDLE_HOURS, THREADS, DAYS = 22, 200, 30
WHY_IT_DIFFERS: Final = (
    "2.376 x 200 is 475.20. The paper prints 457.20: two digits changed places, since no whole number of threads at "
    "2.376 makes 457.20, and its own figures of 79,200 requests and 2.38 dollars are right"
)


@dataclass(frozen=True, slots=True)
class IdlePolling:
    """Pollers that ask in vain at a fixed interval."""

    seconds: Decimal = Decimal(1)
    hours: int = IDLE_HOURS
    threads: int = THREADS
    price: Decimal = PRICE

    @property
    def a_day(self) -> Decimal:
        """Requests of one poller on one day."""
        return self.hours * 3600 / self.seconds

    @property
    def month_each(self) -> Decimal:
        """The price of one poller for thirty days."""
        return self.a_day * self.price / 10_000 * DAYS

    @property
    def month(self) -> Decimal:
        """The price of all of them for thirty days."""
        return self.month_each * self.threads
