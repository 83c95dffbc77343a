"""Parts of an installation that all tabs share. Each is read once for all who ask at the same time.

Without a page that is open, nothing is read.

A page names the age that it accepts. While nothing moves, a page that looks again costs one request: the needs, and the
point of the last tick. Every sixth time the jobs that are under way are read too.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, Generic, TypeVar

from shared.app import Stores
from shared.concurrency import Fleet
from shared.ledger import CLOSED, Job, JobState, Listed
from shared.operating import Overview, QueueLook, read_queue
from shared.parked import Causes, Entry, ParkedCount
from shared.topology import URGENT, submission_queue, work_queue_names
from shared.watch import Standing, find_last_point, hour_of

#: Open jobs that Now shows.
MOST_OPEN: Final = 30
#: Jobs under way that it reads. Of more it says so.
_MOST_LISTED: Final = 250
#: Of those that it shows, so many are read by their own rows at a time, where there is no news of them for so long.
MOST_ROWS: Final = 10
_SILENT: Final = timedelta(minutes=2)
#: Points that a plot of the queues has at most.
MOST_POINTS: Final = 400
#: Looks of an idle page for one at the jobs that are under way.
_EACH: Final = 6
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
#: Seconds for which a failure is the answer of all who ask.
_FAILED_FOR: Final = 1.0

_Value = TypeVar("_Value")


class Part(Generic[_Value]):
    """One part: its value, its age, and one reader at a time. The others wait for it."""

    def __init__(self, read: Callable[[_Value | None], _Value], monotonic: Callable[[], float]) -> None:
        self._read, self._monotonic = read, monotonic
        self._value: _Value | None = None
        self._error: Exception | None = None
        self._at = float("-inf")
        self._lock = Lock()

    def get(self, age: float) -> _Value:
        """Return the value, at most that many seconds old when this was called."""
        asked_at = self._monotonic()
        with self._lock:
            if self._error is not None and asked_at - self._at <= _FAILED_FOR:
                raise self._error
            if self._value is None or self._at < asked_at - age:
                self._fetch()
            if self._value is None:
                raise RuntimeError("a part was read without a result")
            return self._value

    def last(self) -> _Value | None:
        """Return the last value, however old, or None."""
        return self._value

    def _fetch(self) -> None:
        at = self._monotonic()
        try:
            self._value, self._error = self._read(self._value), None
        except Exception as error:
            self._error = error
            raise
        finally:
            self._at = at


@dataclass(frozen=True, slots=True)
class OpenWork:
    """The jobs that are under way, at most thirty of them, and what the list says beside them."""

    jobs: Sequence[Job | Listed]
    #: Those that were read, and whether these are all.
    number: int
    is_whole: bool
    #: Whether one goes on without a person, and when the first of these began.
    is_moving: bool
    since: datetime | None
    #: The rows that were read of jobs without news, by job and news.
    read: Mapping[tuple[str, datetime | None], Job | None]


@dataclass(frozen=True, slots=True)
class Point:
    """The depth of each queue at one time."""

    at: datetime
    depths: Mapping[str, int]


@dataclass(slots=True)
class _Parked:
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    newest: datetime | None = None


class Snapshot:
    """The parts of an installation, for all tabs of one process."""

    def __init__(self, stores: Stores, *, work_queues: int, rooms: Sequence[str]) -> None:
        self._stores, self._clock = stores, stores.clock
        self._queue_names = (
            *(submission_queue(room) for room in ("", *rooms)),
            *work_queue_names(work_queues),
            URGENT,
        )
        gates = stores.gate_reader()
        monotonic = self._clock.monotonic
        self._fleet = Part[Fleet](self._read_fleet, monotonic)
        self._needs = Part[Standing](self._read_needs, monotonic)
        self._queues = Part[Sequence[QueueLook]](self._read_queues, monotonic)
        self._open = Part[OpenWork](self._read_open, monotonic)
        self._gates = Part[Sequence[Overview]](lambda _known: gates.read(), monotonic)
        self._causes = Part[Causes](lambda _known: stores.parked_table.read_causes(), monotonic)
        self._count = Part[ParkedCount](lambda _known: stores.parked_table.count_open(), monotonic)
        self._parked = Part[_Parked](self._read_parked, monotonic)
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._idle_looks = 0

    def fleet(self, age: float) -> Fleet:
        """Return the decision, the governors and the processes. One request."""
        return self._fleet.get(age)

    def needs(self, age: float) -> Standing:
        """Return the needs that stand. One request, and more only if there are hundreds."""
        return self._needs.get(age)

    def queues(self, age: float) -> Sequence[QueueLook]:
        """Return the queues. One request each, and one more for each that holds a message."""
        return self._queues.get(age)

    def open_work(self, age: float) -> OpenWork:
        """Return the jobs that are under way. One request, and one for each without news, once."""
        return self._open.get(age)

    def gates(self, age: float) -> Sequence[Overview]:
        """Return all gates. Two requests, and one for each that changed."""
        return self._gates.get(age)

    def causes(self, age: float) -> Causes:
        """Return how many entries are open of each cause. One request."""
        return self._causes.get(age)

    def count_parked(self, age: float) -> ParkedCount:
        """Return how much is parked. One request."""
        return self._count.get(age)

    def parked(self, age: float) -> Sequence[Entry]:
        """Return the open entries. One request for those that changed."""
        return list(self._parked.get(age).entries.values())

    @property
    def look_cost(self) -> int:
        """Return the least requests of a reading of the fleet, the queues and the gates."""
        return 1 + len(self._queue_names) + 2

    def points(self) -> Sequence[Point]:
        """Return the depths that pages have read so far. No request."""
        return list(self._points)

    def is_moving(self) -> bool:
        """Find out whether anything moves, by one request, each sixth time by two.

        A page that is shown for the first time reads everything anyway. It need not call this.
        """
        known = self._open.last()
        if known is None or known.is_moving:
            self._idle_looks = 0
            return True
        self._idle_looks += 1
        if _shows_work(self._needs.get(0), self._clock.now()):
            return True
        return self._idle_looks % _EACH == 0 and self._open.get(0).is_moving

    def _read_fleet(self, known: Fleet | None) -> Fleet:
        return self._stores.fleet.read(known.in_force if known else None)

    def _read_needs(self, known: Standing | None) -> Standing:
        """Read the needs and the last day, later only the hours that may have changed. By the time of storage."""
        now = self._clock.now()
        oldest, since = now - _DAY, (known.hours[-1].at - _HOUR if known and known.hours else now - _DAY)
        read = self._stores.watch.read(max(oldest, since))
        kept = [one for one in known.hours if hour_of(oldest) <= one.at < hour_of(since)] if known else []
        return replace(read, hours=[*kept, *read.hours], named=self._clock.of_reply(read.named))

    def _read_queues(self, _known: Sequence[QueueLook] | None) -> Sequence[QueueLook]:
        client = self._stores.connections.queues
        found = [read_queue(client, name) for name in self._queue_names]
        self._points.append(Point(self._clock.now(), {one.queue: one.messages for one in found}))
        return found

    def _read_open(self, known: OpenWork | None) -> OpenWork:
        listed, is_whole = self._stores.job_list.list_open(_MOST_LISTED)
        read = self._read_silent(listed, known.read if known else {})
        rows = (read.get((one.job, one.as_of), one) for one in listed)
        # Of a job that has ended, the row goes at the end of a tick or a night.
        jobs = [job for job in rows if job is not None and job.state not in CLOSED]
        moving = [job for job in jobs if job.state is not JobState.PAUSED]
        since = min((job.started_at for job in moving if job.started_at), default=None)
        return OpenWork(jobs[:MOST_OPEN], len(jobs), is_whole, bool(moving), since, read)

    def _read_silent(
        self, listed: Sequence[Listed], known: Mapping[tuple[str, datetime | None], Job | None]
    ) -> Mapping[tuple[str, datetime | None], Job | None]:
        """Read the own rows of jobs that the page shows and that have no news, once for each piece of news."""
        since = self._clock.now() - _SILENT
        silent: list[tuple[str, datetime | None]] = [
            (one.job, one.as_of)
            for one in listed[:MOST_OPEN]
            if one.state is not JobState.PAUSED and one.as_of is not None and one.as_of < since
        ]
        unread = [one for one in silent if one not in known][:MOST_ROWS]
        ledger = self._stores.ledger
        return {one: known[one] for one in silent if one in known} | {one: ledger.read(one[0]) for one in unread}

    def _read_parked(self, known: _Parked | None) -> _Parked:
        before = known or _Parked()
        changed, newest = self._stores.parked_table.read_changes(before.newest)
        entries = before.entries | {(one.job, one.key): one for one in changed}
        return _Parked({key: one for key, one in entries.items() if one.is_open}, newest)


def _shows_work(standing: Standing, now: datetime) -> bool:
    """Check whether the last tick saw messages, or a process at work."""
    last = find_last_point(standing.hours)
    point = last and last.point
    if last is None or point is None or now > last.promised:
        return False
    return bool(point.depth or point.processes or point.drained)
