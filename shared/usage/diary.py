"""The diary of a process: its counted requests, stored as one row per day and process.

So one query returns the count of the whole installation. A row belongs to one process and holds the sum of the day, so
writing it again changes nothing. A process that ends loses the requests since its last note: a few hundred at most. A
background thread writes the notes, so that no stage needs to.

The number of tasks that the day's budget still allows: one term of the decision on concurrency.

It compares the budget with the cost of today's requests so far, as the diaries of all processes have it.
"""

import json
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from azure.data.tables import TableClient, UpdateMode

from shared.azure import Cause, CountedRequest, RequestKind, RequestTally, expecting_an_answer, usage_of_counts
from shared.clock import Clock
from shared.errors import SluiceError
from shared.telemetry import describe_error, events, tell
from shared.usage.bill import Prices, price

#: A note is due after this many new requests, but not sooner than this time after the last note ...
MOST_UNNOTED: Final = 500
NOT_SOONER_THAN: Final = timedelta(minutes=1)
#: ... or after this time, if there is anything to note.
AT_LEAST_EVERY: Final = timedelta(hours=6)
#: Seconds between two checks of the count. A check makes no request.
LOOK_EVERY: Final = 5.0
#: Seconds after a note that failed: each attempt is a request too.
AFTER_FAILURE: Final = 300.0


class Diary:
    """The notes of one process. Only this process writes its row, and every process may read it."""

    def __init__(self, table: TableClient, tally: RequestTally, clock: Clock, process: str | None = None) -> None:
        self._table, self._tally, self._clock = table, tally, clock
        self._process = process or secrets.token_hex(8)
        self._noted, self._noted_at = tally.counts(), clock.now()
        self._day, self._of_day = self._noted_at.date(), Counter[CountedRequest]()

    def note_if_due(self) -> bool:
        """Write a note if enough requests are new. A note is one request."""
        waited = self._clock.now() - self._noted_at
        unnoted = self._tally.total() - self._noted.total()
        # The last note is a request too, but must not cause another one.
        is_due = (unnoted > 1 and waited >= AT_LEAST_EVERY) or (unnoted >= MOST_UNNOTED and waited >= NOT_SOONER_THAN)
        if is_due:
            self.note()
        return is_due

    def note(self) -> None:
        """Write the day's row. After a StorageUnavailableError, the next note includes everything."""
        now, counts = self._clock.now(), self._tally.counts()
        before = self._of_day if now.date() == self._day else Counter[CountedRequest]()
        of_day = before + (counts - self._noted)
        row = {
            "PartitionKey": now.date().isoformat(),
            "RowKey": self._process,
            "at": now,
            "requests": of_day.total(),
            "counts": json.dumps([[*kind, cause.value, number] for (kind, cause), number in of_day.items()]),
        }
        with expecting_an_answer(f"note the request counts of process {self._process!r}"):
            self._table.upsert_entity(row, mode=UpdateMode.REPLACE)
        self._noted, self._noted_at, self._day, self._of_day = counts, now, now.date(), of_day


@dataclass(frozen=True, slots=True)
class DayNotes:
    """The requests that all processes noted on a day, and when each of them noted last."""

    counts: Counter[CountedRequest]
    noted_at: Mapping[str, datetime]


def read_day(table: TableClient, day: date) -> Counter[CountedRequest]:
    """Add up the notes of all processes for a day. It takes one request per thousand processes."""
    return read_notes(table, day).counts


def read_notes(table: TableClient, day: date) -> DayNotes:
    """Add up the notes of all processes for a day, and tell how old they are. The same requests as `read_day`."""
    total: Counter[CountedRequest] = Counter()
    noted_at: dict[str, datetime] = {}
    with expecting_an_answer(f"read the request counts of {day}"):
        for row in table.query_entities("PartitionKey eq @day", parameters={"day": day.isoformat()}):
            noted_at[row["RowKey"]] = row["at"]
            for *kind, cause, number in json.loads(row["counts"]):
                total[CountedRequest(RequestKind(*kind), Cause(cause))] += number
    return DayNotes(total, noted_at)


def price_causes(counts: Mapping[CountedRequest, int], prices: Prices) -> dict[str, float]:
    """Return the cost of these requests by their cause, without causes that cost nothing."""
    found = defaultdict[str, Decimal](Decimal)
    for line in price(usage_of_counts(counts), prices).lines:
        found[line.charge.cause] += line.amount
    return {cause: float(amount) for cause, amount in found.items() if amount}


def keep(diary: Diary, stop: threading.Event | None = None) -> threading.Thread:
    """Start a background thread that writes the notes, until `stop` is set or the process ends."""
    stop = stop or threading.Event()
    thread = threading.Thread(target=_keep, args=(diary, stop), name="usage-diary", daemon=True)
    thread.start()
    return thread


def _keep(diary: Diary, stop: threading.Event) -> None:
    pause = LOOK_EVERY
    while not stop.wait(pause):
        pause = LOOK_EVERY
        try:
            diary.note_if_due()
        except SluiceError as error:
            # Nothing is lost: the next note includes everything.
            pause = AFTER_FAILURE
            tell(events.USAGE_UNNOTED, error=describe_error(error))


#: The rest of the budget must last at least this long: a burst may spend, but the last of it is stretched.
STRETCH: Final = timedelta(minutes=15)
#: A budget slows work but never stops it, because stalled work costs more than its requests.
LEAST_TASKS: Final = 1


def budget_term(budget: Decimal | None, spent: Decimal, task_second: Decimal | None) -> int | None:
    """Return the tasks over the fleet that the day's budget allows, or None if it sets no bound.

    `spent` is the cost of today's requests so far. `task_second` is a task's cost per second, None while unknown.
    """
    if budget is None:
        return None
    left = budget - spent
    if left <= 0:
        return LEAST_TASKS
    if not task_second or task_second <= 0:
        return None
    return max(LEAST_TASKS, int(left / (task_second * Decimal(STRETCH.total_seconds()))))


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a day until a moment."""

    at: datetime
    amount: Decimal


@dataclass(slots=True, kw_only=True)
class DayBudget:
    """The budget's term of each decision. Each takes one read of the diaries, or none without a budget."""

    budget: Decimal | None
    prices: Prices
    noted_on: Callable[[date], Mapping[CountedRequest, int]]
    _before: Spent | None = field(default=None, init=False)

    def __call__(self, now: datetime, tasks: int) -> int | None:
        """Return the tasks that the budget allows. `tasks` is the number that ran until now, as far as known."""
        if self.budget is None:
            return None
        amount = price(usage_of_counts(self.noted_on(now.date())), self.prices).total
        task_second = _cost_of_task_second(self._before, Spent(now, amount), tasks)
        self._before = Spent(now, amount)
        return budget_term(self.budget, amount, task_second)


def _cost_of_task_second(before: Spent | None, after: Spent, tasks: int) -> Decimal | None:
    """Derive the cost of one task per second from two readings of the same day, or None if they do not show it."""
    if before is None or before.at.date() != after.at.date() or after.at <= before.at or tasks <= 0:
        return None
    seconds = Decimal((after.at - before.at).total_seconds())
    return (after.amount - before.amount) / (seconds * tasks)
