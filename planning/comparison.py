"""When does push cost less than polling, and a blob less than several messages: crossing points from prices; pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.azure import RequestCounts
from shared.usage import DAY, Prices, price, useful

#: A permit is sent, received and completed.
OPERATIONS_OF_A_PERMIT: Final = 3
#: Whom a permit started finds an empty queue once, at the end.
EMPTY_RECEIVES_OF_A_TASK: Final = 1
#: Whoever sends permits looks once which slots are held; whoever gets one leases its slot, and gives it back.
LOOKS_AT_SLOTS: Final = 1
REQUESTS_OF_A_LEASE: Final = 2
#: Put, get and delete of a message; put of a blob, and the reading of it.
OF_A_MESSAGE: Final = useful(queue=3)
OF_A_BLOB: Final = useful(blob_write=1, blob_read=1)
#: What a message can carry of a payload: 64 KiB, as text in Base64, less the words around it.
INLINE_BYTES: Final = 48 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """A stretch in which there was work, from its arrival to its end; None while it goes on."""

    began: datetime
    ended: datetime | None


def wakes(stretches: Iterable[Work]) -> int:
    """Return how often work came when there was none."""
    found, busy_until = 0, datetime.min.replace(tzinfo=UTC)
    for one in sorted(stretches, key=lambda each: each.began):
        if one.began > busy_until:
            found += 1
        # What has not ended is busy for ever.
        busy_until = max(busy_until, one.ended or datetime.max.replace(tzinfo=UTC))
    return found


@dataclass(frozen=True, slots=True)
class PushOrPoll:
    """One poller that is always there, against permits that start tasks where work has come."""

    interval: float
    #: Permits of one awakening, and tasks that each of them starts.
    permits: int
    tasks: int
    prices: Prices

    @property
    def polling(self) -> Decimal:
        """The price of a day of polling: nearly all of it in vain."""
        return price(useful(queue=round(DAY / self.interval)), self.prices).total

    @property
    def an_awakening(self) -> Decimal:
        """The price of being started once."""
        usage = useful(
            bus=self.permits * OPERATIONS_OF_A_PERMIT,
            queue=self.permits * self.tasks * EMPTY_RECEIVES_OF_A_TASK,
            blob_list=LOOKS_AT_SLOTS,
            blob_other=self.permits * REQUESTS_OF_A_LEASE,
        )
        return price(usage, self.prices).total

    @property
    def crossing(self) -> int:
        """Awakenings a day from which on polling is cheaper."""
        return int(self.polling / self.an_awakening)


@dataclass(frozen=True, slots=True)
class InlineOrBlob:
    """A payload cut into messages, against one message that names a blob."""

    prices: Prices

    def inline(self, stored: int) -> Decimal:
        """The price of the messages that so many stored bytes need."""
        return self._times(OF_A_MESSAGE, max(1, -(-stored // INLINE_BYTES)))

    def blob(self) -> Decimal:
        """The price of one message and its blob, however large."""
        return self._times(OF_A_MESSAGE, 1) + self._times(OF_A_BLOB, 1)

    @property
    def crossing(self) -> int:
        """Stored bytes from which on the blob is cheaper."""
        return int(self._times(OF_A_BLOB, 1) / self._times(OF_A_MESSAGE, 1)) * INLINE_BYTES + INLINE_BYTES

    def _times(self, usage: RequestCounts, times: int) -> Decimal:
        return price({charge: number * times for charge, number in usage.items()}, self.prices).total


def a_day(count: int, span: timedelta) -> Decimal:
    """Return a rate a day; less than a day is taken for one."""
    return Decimal(count) / Decimal(max(span, timedelta(days=1)) / timedelta(days=1))
