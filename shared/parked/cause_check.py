"""Compares the index of causes with the entries: once a day, and at once where that is due.

An instance of release 0.3.0 parks and closes without the index, and a process may die between an entry and its member.

Members are read before entries, so what changes meanwhile is at worst recorded twice, which counts once. One case is
left: an entry that comes back just then may lose its member. So a comparison that changed anything is repeated by the next
tick, and only one that changed nothing is noted.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.parked.cause_index import MOST_TOGETHER, CauseIndex, Member, SumsRow
from shared.parked.entry import Entry
from shared.parked.overflow import Overflow, name_room
from shared.parked.parked_table import ParkedTable

#: The minute of the day at which the index is compared, in UTC.
_AT: Final = (4, 5)
#: A process whose index was not compared for so long does it at its first tick.
_OVERDUE: Final = timedelta(hours=25)
#: Rows of sums that were not written for so long are joined: an app restarts daily or seldom, a command ends at once.
_UNWRITTEN: Final = timedelta(days=1)
#: Rows that one transaction joins.
_MOST_JOINED: Final = 90


class CauseCheck:
    """The comparison, as one process makes it in its ticks."""

    def __init__(
        self,
        table: ParkedTable,
        index: CauseIndex,
        overflow: Overflow,
        clock: Clock,
        note_rooms: Callable[[Collection[str]], object] = lambda _rooms: None,
    ) -> None:
        """Take the stores. `note_rooms` hears which rooms still have files of messages above the bound."""
        self._table, self._index, self._overflow, self._clock = table, index, overflow, clock
        self._note_rooms = note_rooms
        #: None: this process has not found out yet.
        self._is_due: bool | None = None

    def run(self, seconds: float, retention: timedelta) -> None:
        """Compare if that is due, and correct the index for so long. The next tick goes on. Files go after the retention."""
        now = self._clock.now()
        if self._is_due is None:
            checked_at = self._index.read_checked_at()
            self._is_due = checked_at is None or now - checked_at > _OVERDUE
        if not self._is_due and (now.hour, now.minute) != _AT:
            return
        # If this fails, the next tick repeats it.
        self._is_due = True
        until = self._clock.monotonic() + seconds
        indexed = self._index.read_all()
        changed = self._correct(indexed.members, until)
        self._overflow.remove_old(indexed.files, now - retention)
        self._note_rooms({name_room(file.room) for file in indexed.files})
        for rows in _unwritten(indexed.rows, now):
            self._index.fold(rows)
        if not changed:
            self._index.note_checked(now)
            self._is_due = False

    def _correct(self, members: Iterable[Member], until: float) -> int:
        surplus, missing = dict.fromkeys(members), list[Entry]()
        for entry in self._table.entries():
            member = Member.of(entry)
            if member in surplus:
                del surplus[member]
            else:
                missing.append(entry)
        changed = 0
        for begin in range(0, len(missing), MOST_TOGETHER):
            if self._clock.monotonic() >= until:
                return changed + 1
            changed += self._index.record([], missing[begin : begin + MOST_TOGETHER])
        for member in surplus:
            if self._clock.monotonic() >= until:
                return changed + 1
            changed += self._table.drop(member)
        return changed


def _unwritten(rows: Iterable[SumsRow], now: datetime) -> Iterator[Sequence[SumsRow]]:
    found = defaultdict[str, list[SumsRow]](list)
    for row in rows:
        if now - row.written_at > _UNWRITTEN or row.is_joined:
            found[row.sums.fingerprint].append(row)
    for of_one in found.values():
        some = sorted(of_one, key=lambda row: not row.is_joined)[:_MOST_JOINED]
        if len(some) > 1 or not some[0].sums.open:
            yield some
