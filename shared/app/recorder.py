"""The flight recorder: what each tick saw, as a point of the row of its hour. An idle tick writes each quarter of an hour.

A point promises the next one. So a time in which no tick ran differs from one in which nothing happened.

A tick writes its own column without reading it. So one that runs twice, or dies before the write, does no harm: the
minute has the later point, or none.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from shared import __version__
from shared.clock import Clock
from shared.concurrency import Stretch
from shared.errors import SluiceError
from shared.pending import Due
from shared.watch import IDLE_EVERY, SPENT_EVERY, TICK, NeedKind, Point, SpentUntil, TickNeeds, WatchTable

#: Beyond the next one, because a timer may be late.
_SPARE: Final = timedelta(minutes=2)
#: A tick with work promises the next one within this, or within two of its own turns.
_BUSY: Final = timedelta(minutes=3)
#: A tick a minute, unless two ticks showed otherwise.
_TURN: Final = timedelta(minutes=1)
_SPENT_EVERY: Final = timedelta(minutes=SPENT_EVERY)
#: When rows of hours that are kept no longer are removed.
_CLEAN_HOUR: Final = 4


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Writes points. There is one per process: it remembers what it promised."""

    watch: WatchTable
    needs: TickNeeds
    clock: Clock
    #: Reads the cost of a day so far, by the cause of its requests.
    read_costs: Callable[[date], Mapping[str, float]]
    _stretch: Stretch | None = field(default=None, init=False)
    _last: datetime | None = field(default=None, init=False)
    _turn: timedelta = field(default=_TURN, init=False)
    #: Until then a point has to be there. None: this process wrote none yet.
    _promised: datetime | None = field(default=None, init=False)
    #: When the cost of the day was read last, and whether work went on since.
    _spent_at: datetime | None = field(default=None, init=False)
    _has_worked: bool = field(default=False, init=False)
    #: What failed in the tick before.
    _failed: str = field(default="", init=False)

    def note(self, stretch: Stretch) -> None:
        """Keep what this tick saw of the work, until its point is written."""
        self._stretch = stretch

    def run(self, due: Due) -> None:
        """Write the point of this tick, if it has one. One request, and one more at each full hour and once a day.

        While work goes on, and once after it, one request more each ten minutes reads the cost of the day.
        """
        # By the clock of storage, as all instances and readers have it.
        now = (due.at or self.clock.now()).astimezone(UTC)
        stretch, self._stretch = self._stretch, None
        if self._last is not None:
            self._turn = max(_TURN, now - self._last)
        self._last = now
        # A job that is paused, or only waits, is no work.
        if stretch is None and not self._is_time(now):
            return
        promise = self._promise(now, is_busy=stretch is not None)
        opened = None if now.minute else self.watch.read()
        if opened is not None:
            self.needs.learn(opened)
        self._has_worked |= stretch is not None
        spent = self._read_spent(now)
        self.watch.record(now, _make_point(now, promise, stretch), opened.needs if opened else None, spent)
        # What work has cost is known when its processes have noted it.
        self._has_worked = stretch is not None or (self._has_worked and spent is None)
        self._promised = now + promise
        if (now.hour, now.minute) == (_CLEAN_HOUR, 0):
            self.watch.remove_old(now)

    def judge(self, failed: str) -> None:
        """Begin the need that ticks fail at the second in a row, and end it at the next that does not.

        `failed`: what failed in this tick, in the words of the log.
        """
        if self._failed or not failed:
            self.needs.judge(NeedKind.TICK_FAILS, TICK, failed)
        self._failed = failed

    def _read_spent(self, now: datetime) -> SpentUntil | None:
        is_early = self._spent_at is not None and now - self._spent_at < _SPENT_EVERY
        if not self._has_worked or is_early:
            return None
        self._spent_at = now
        with suppress(SluiceError):
            return SpentUntil(now, self.read_costs(now.date()))
        return None

    def _is_time(self, now: datetime) -> bool:
        """Check whether an idle tick writes: each quarter, and where the next tick would break a promise."""
        return self._promised is None or now.minute % IDLE_EVERY == 0 or now + self._turn > self._promised

    def _promise(self, now: datetime, *, is_busy: bool) -> timedelta:
        if is_busy:
            return max(_BUSY, 2 * self._turn)
        passed = timedelta(minutes=now.minute % IDLE_EVERY, seconds=now.second)
        return max(timedelta(minutes=IDLE_EVERY) - passed, self._turn) + _SPARE


def _make_point(now: datetime, promise: timedelta, stretch: Stretch | None) -> Point:
    head: dict[str, Any] = {
        "second": round(now.second + now.microsecond / 1e6, 2),
        "promise": round(promise.total_seconds()),
    }
    seen = msgspec.structs.asdict(stretch) if stretch else {}
    seen.pop("at", None)
    # Four digits are what a picture shows, and what other rules are tried on.
    rounded: dict[str, Any] = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in seen.items()
    }
    return Point(**head, **rounded, release=__version__)
