"""Notes what a process has requested, one row a day and process, so that the whole installation's count is one query.

A row is this process's own and holds the sum of the day, so writing it again changes nothing. A process that ends
loses what it has not noted: a few hundred requests at the most.

Keeps a process's diary from a thread of its own, so that no stage has to think of it.
"""

import json
import secrets
import threading
from collections import Counter
from datetime import date, timedelta
from typing import Final

from azure.data.tables import TableClient, UpdateMode

from shared.azure import Cause, CountedRequest, RequestKind, RequestTally, expecting_an_answer
from shared.clock import Clock
from shared.errors import SluiceError
from shared.telemetry import describe_error, events, tell

#: A note is due when so many requests are not noted, but not more often than this ...
MOST_UNNOTED: Final = 500
NOT_SOONER_THAN: Final = timedelta(minutes=1)
#: ... or when there is anything to note at all, after so long.
AT_LEAST_EVERY: Final = timedelta(hours=6)


class Diary:
    """The notes of one process; safe to read by anybody, written by this process alone."""

    def __init__(self, table: TableClient, tally: RequestTally, clock: Clock, process: str | None = None) -> None:
        self._table, self._tally, self._clock = table, tally, clock
        self._process = process or secrets.token_hex(8)
        self._noted, self._noted_at = tally.counts(), clock.now()
        self._day, self._of_day = self._noted_at.date(), Counter[CountedRequest]()

    def note_if_due(self) -> bool:
        """Note when there is enough to note; one request then, none otherwise."""
        waited = self._clock.now() - self._noted_at
        unnoted = self._tally.total() - self._noted.total()
        # The last note is a request too, and no reason for another one.
        is_due = (unnoted > 1 and waited >= AT_LEAST_EVERY) or (unnoted >= MOST_UNNOTED and waited >= NOT_SOONER_THAN)
        if is_due:
            self.note()
        return is_due

    def note(self) -> None:
        """Write the day's row; raises StorageUnavailableError, and the next note has it all."""
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
        with expecting_an_answer("note what was requested"):
            self._table.upsert_entity(row, mode=UpdateMode.REPLACE)
        self._noted, self._noted_at, self._day, self._of_day = counts, now, now.date(), of_day


def read_day(table: TableClient, day: date) -> Counter[CountedRequest]:
    """Return what all processes have noted for a day; one request for each thousand processes."""
    found: Counter[CountedRequest] = Counter()
    with expecting_an_answer(f"read what was requested on {day}"):
        for row in table.query_entities("PartitionKey eq @day", parameters={"day": day.isoformat()}):
            for *kind, cause, number in json.loads(row["counts"]):
                found[CountedRequest(RequestKind(*kind), Cause(cause))] += number
    return found


#: Seconds between two looks at the count, which cost nothing.
LOOK_EVERY: Final = 5.0
#: Seconds after a note that was refused: each attempt is a request too.
AFTER_FAILURE: Final = 300.0


def keep(diary: Diary, stop: threading.Event | None = None) -> threading.Thread:
    """Start noting in the background, until `stop` is set or the process ends."""
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
            # Nothing is lost: the next note has it all.
            pause = AFTER_FAILURE
            tell(events.USAGE_UNNOTED, error=describe_error(error))
