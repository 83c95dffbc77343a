"""Crossing points from prices: where push costs less than polling, and a blob less than several messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.azure import RequestCounts
from shared.usage import DAY, Prices, price, useful

#: A permit is sent, received and completed.
OPERATIONS_OF_A_PERMIT: Final = 3
#: A task that a permit started makes one empty receive, at its end.
EMPTY_RECEIVES_OF_A_TASK: Final = 1
#: The sender of permits lists the held slots once. The receiver of a permit leases its slot, and releases it.
LOOKS_AT_SLOTS: Final = 1
REQUESTS_OF_A_LEASE: Final = 2
#: A message is put, received and deleted. A blob is put and read.
OF_A_MESSAGE: Final = useful(queue=3)
OF_A_BLOB: Final = useful(blob_write=1, blob_read=1)
#: The payload bytes that a message can carry: 64 KiB, as text in Base64, less the text around it.
INLINE_BYTES: Final = 48 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """A period of work, from its arrival to its end. The end is None while it goes on."""

    began: datetime
    ended: datetime | None


def wakes(stretches: Iterable[Work]) -> int:
    """Count how often work came while the queues had none."""
    found, busy_until = 0, datetime.min.replace(tzinfo=UTC)
    for period in sorted(stretches, key=lambda work: work.began):
        if period.began > busy_until:
            found += 1
        # Work that has not ended is busy without end.
        busy_until = max(busy_until, period.ended or datetime.max.replace(tzinfo=UTC))
    return found


@dataclass(frozen=True, slots=True)
class PushOrPoll:
    """The comparison of one permanent poller with permits that start tasks when work has come."""

    interval: float
    #: Permits per awakening, and tasks that each of them starts.
    permits: int
    tasks: int
    prices: Prices

    @property
    def polling(self) -> Decimal:
        """The price of a day of polling. Nearly all of it is in vain."""
        return price(useful(queue=round(DAY / self.interval)), self.prices).total

    @property
    def an_awakening(self) -> Decimal:
        """The price of one awakening."""
        usage = useful(
            bus=self.permits * OPERATIONS_OF_A_PERMIT,
            queue=self.permits * self.tasks * EMPTY_RECEIVES_OF_A_TASK,
            blob_list=LOOKS_AT_SLOTS,
            blob_other=self.permits * REQUESTS_OF_A_LEASE,
        )
        return price(usage, self.prices).total

    @property
    def crossing(self) -> int:
        """The awakenings per day above which polling is cheaper."""
        return int(self.polling / self.an_awakening)


@dataclass(frozen=True, slots=True)
class InlineOrBlob:
    """The comparison of a payload cut into messages with one message that names a blob."""

    prices: Prices

    def inline(self, stored: int) -> Decimal:
        """The price of the messages that so many stored bytes need."""
        return self._times(OF_A_MESSAGE, max(1, -(-stored // INLINE_BYTES)))

    def blob(self) -> Decimal:
        """The price of one message and its blob, however large."""
        return self._times(OF_A_MESSAGE, 1) + self._times(OF_A_BLOB, 1)

    @property
    def crossing(self) -> int:
        """The stored bytes above which the blob is cheaper."""
        return int(self._times(OF_A_BLOB, 1) / self._times(OF_A_MESSAGE, 1)) * INLINE_BYTES + INLINE_BYTES

    def _times(self, usage: RequestCounts, times: int) -> Decimal:
        return price({charge: number * times for charge, number in usage.items()}, self.prices).total


def a_day(count: int, span: timedelta) -> Decimal:
    """Return a rate per day. A span of less than a day counts as one day."""
    return Decimal(count) / Decimal(max(span, timedelta(days=1)) / timedelta(days=1))
