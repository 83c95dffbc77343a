"""Groups of parked entries by cause, and their waves for a replay. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice
from typing import Final

from shared.parked import Entry, EntryState

#: Entries per wave. The first one shows whether the cause is gone; each next wave waits for the one before.
WAVES: Final = (1, 2, 5, 20, 50)


@dataclass(frozen=True, slots=True)
class Group:
    """Entries that failed for one cause."""

    fingerprint: str
    reason: str
    stage: str
    instead: str
    entries: tuple[Entry, ...]

    @property
    def jobs(self) -> int:
        """Return the number of jobs concerned."""
        return len({entry.about for entry in self.entries})

    @property
    def first_at(self) -> datetime:
        """Return the time of the first failure."""
        return min(entry.first_at for entry in self.entries)

    @property
    def last_at(self) -> datetime:
        """Return the time of the last failure."""
        return max(entry.last_at for entry in self.entries)


def summarize_causes(entries: Iterable[Entry]) -> list[Group]:
    """Return the groups, the largest first."""
    groups = [_group(members) for members in group_by_cause(list(entries))]
    return sorted(groups, key=lambda group: (-len(group.entries), group.fingerprint))


def group_by_cause(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each cause together.

    An open entry of an older scheme has the same cause as every entry with its reason, so these form one group.
    """
    unclear = {entry.reason for entry in entries if entry.scheme is None and entry.is_open}
    members = defaultdict[tuple[bool, str], list[Entry]](list)
    for entry in entries:
        is_unclear = entry.reason in unclear
        members[is_unclear, entry.reason if is_unclear else entry.fingerprint].append(entry)
    return list(members.values())


def waves(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries in waves, in order."""
    rest = iter(entries)
    for number in count():
        wave = list(islice(rest, size_wave(number)))
        if not wave:
            return
        yield wave


def size_wave(number: int) -> int:
    """Return the most entries of a wave, by its number from 0. The last size repeats."""
    return WAVES[min(number, len(WAVES) - 1)]


def replayable(entries: Iterable[Entry], *, again: bool = False) -> Iterator[Entry]:
    """Yield the entries that may be put back. `again`: also those replayed before and without a known effect."""
    wanted = {EntryState.OPEN, EntryState.REPLAYING} | ({EntryState.REPLAYED} if again else set())
    yield from (entry for entry in entries if entry.state in wanted)


def _group(entries: Sequence[Entry]) -> Group:
    newest = max(entries, key=lambda entry: entry.last_at)
    return Group(newest.fingerprint, newest.reason, newest.stage, newest.instead, tuple(entries))
