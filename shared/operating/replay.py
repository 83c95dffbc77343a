"""Puts one parked message back, and looks for its effect. `replay_record` does so in growing waves.

Order per entry: mark it as replaying, put its bytes back, mark it as replayed, wait for its effect, mark it as done. A
crash in between leaves an entry that is replayed again, and a message that is sent twice counts once.

Selections of parked entries: a filter, and the digest of the entries that it finds. Pure.

Parked entries by their cause, and their waves for a replay. Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from functools import reduce
from hashlib import sha256
from itertools import chain, count, islice
from typing import Final

from msgspec import Struct

from shared.errors import NotParkedError, ParkedTamperedError
from shared.operating.prefixes import complete_prefix
from shared.parked import (
    ACCEPT,
    DOOR,
    NO_JOB,
    CauseSums,
    Entry,
    EntryState,
    ParkedTable,
    Stage,
    Stages,
    count_nothing,
    count_parked,
    door_key,
    is_nameless,
)

#: Entries per wave. The first one shows whether the cause is gone; each next wave waits for the one before.
WAVES: Final = (1, 2, 5, 20, 50)


def summarize_causes(entries: Iterable[Entry]) -> list[CauseSums]:
    """Return the sums of entries that were read, as the index has those of all. The largest first."""
    causes = [_sum_up(members) for members in group_by_cause(list(entries))]
    return sorted(causes, key=lambda cause: (-cause.open, cause.fingerprint))


def group_by_cause(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each cause together.

    An open entry of an older scheme has the same cause as every entry with its reason, so these form one cause.
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


def _sum_up(entries: Sequence[Entry]) -> CauseSums:
    newest = max(entries, key=lambda entry: entry.last_at)
    return reduce(count_parked, entries, count_nothing(newest.fingerprint))


#: Characters of a reason that a wave notes.
MOST_REASON: Final = 100


def nobody() -> None:
    """Wake no worker."""


class ReplayFate(StrEnum):
    """The fate of a replayed entry."""

    #: It has had its effect.
    DONE = "done"
    #: Its effect was there before this replay, so nothing was sent. The entry is closed.
    DONE_BEFORE = "done before"
    #: It failed again: for the cause that it was parked for, or for another one.
    SAME_AGAIN = "same again"
    OTHER_CAUSE = "other cause"
    #: It has no effect yet: its worker is busy or stopped.
    NO_ANSWER = "no answer"
    #: Its bytes are gone, or its queue cannot take them.
    REFUSED = "cannot be sent"
    #: This program, by these settings, has no such stage: another version does, or a part that is off.
    UNKNOWN = "of an unknown stage"
    #: It has no job id, and the id of its message is unknown: a person must give one with `--as`.
    UNNAMED = "needs a job id"
    #: Another process replayed, discarded or parked it at the same moment.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPace:
    """The bounds of a replay."""

    #: Upper bound of entries; None: all.
    limit: int | None = None
    #: Upper bound of messages per second; None: as fast as storage takes them.
    rate: float | None = None
    #: Seconds to wait for the effects of a wave. A message that fails for another cause than before is parked at its fifth
    #: delivery. Each comes 30 s after the one before.
    patience: float = 180.0
    #: Whether to replay entries again that were replayed before and have no known effect.
    again: bool = False

    def __post_init__(self) -> None:
        if (self.limit is not None and self.limit < 1) or (self.rate is not None and self.rate <= 0):
            raise ValueError(f"limit is {self.limit} and rate is {self.rate}, expected both to be above 0, or None")


class SentEntry(Struct, frozen=True, array_like=True):
    """An entry of the wave that is out, as it was before it was sent."""

    job: str
    key: str
    replays: int
    returns: int
    reason: str
    fingerprint: str
    scheme: int | None = None
    #: None: not known yet.
    fate: ReplayFate | None = None

    def is_same_cause(self, now: Entry) -> bool:
        """Return whether it failed again for the cause that it was parked for."""
        return replace(now, reason=self.reason, fingerprint=self.fingerprint, scheme=self.scheme).is_same_cause(
            replace(now, reason=now.reason[:MOST_REASON])
        )


def note_before(entry: Entry) -> SentEntry:
    """Return the note of an entry in its wave, made before it is sent."""
    reason = entry.reason[:MOST_REASON]
    return SentEntry(entry.job, entry.key, entry.replays, entry.returns, reason, entry.fingerprint, entry.scheme)


def judge(known: SentEntry, now: Entry | None) -> ReplayFate | None:
    """Return the fate of an entry as far as its own row tells it."""
    if now is None or now.state is EntryState.DISCARDED:
        return ReplayFate.SKIPPED
    if now.state is EntryState.DONE:
        return ReplayFate.DONE
    if now.returns > known.returns:
        return ReplayFate.SAME_AGAIN if known.is_same_cause(now) else ReplayFate.OTHER_CAUSE
    return None


class Replayer:
    """Puts entries back, and looks for their effects. Safe to repeat, beside others, and to be killed anywhere."""

    def __init__(self, table: ParkedTable, stages: Stages, wake: Callable[[], object] = nobody) -> None:
        self._table, self._stages, self._wake = table, stages, wake

    def prepare(self, entry: Entry) -> Entry:
        """Return the entry under the key that it keeps while it is replayed."""
        if entry.stage != ACCEPT:
            return entry
        try:
            body = self._table.body(entry)
        except ParkedTamperedError:
            # Sending says so.
            return entry
        if entry.about == NO_JOB and is_nameless(body):
            return entry
        return find_refiled(self._table, entry, body) or entry

    def send(self, known: SentEntry, entry: Entry | None = None) -> ReplayFate | None:
        """Put one entry back, unless that was done. Return its fate if that is known by then.

        `entry`: its row, if that was just read.
        """
        now = entry or self._table.find(known.job, known.key)
        fate = judge(known, now)
        if fate or now is None or (now.state is EntryState.REPLAYED and now.replays > known.replays):
            return fate
        try:
            stage = self._stages.find(now.stage)
            body = self._table.body(now)
        except NotParkedError:
            return ReplayFate.UNKNOWN
        except ParkedTamperedError:
            return ReplayFate.REFUSED
        if now.stage == ACCEPT and now.about == NO_JOB and is_nameless(body):
            return ReplayFate.UNNAMED
        if stage.is_read_first and stage.has_landed(now):
            closed = self._table.change(now, replace(now, state=EntryState.DONE))
            return ReplayFate.SKIPPED if closed is None else ReplayFate.DONE_BEFORE
        return self._put_back(stage, now, body)

    def refuse(self, entries: Sequence[Entry]) -> str:
        """Say why a replay of these is refused as a whole, or nothing: all are of one job that is closed for good."""
        if len({entry.job for entry in entries}) != 1:
            return ""
        try:
            return self._stages.find(entries[0].stage).refuse(entries[0])
        except NotParkedError:
            return ""

    def put_back(self, entry: Entry, body: bytes) -> None:
        """Put a message on its queue that has no row. Raise NotParkedError if it cannot be sent unchanged."""
        if entry.about == NO_JOB and is_nameless(body):
            raise NotParkedError(f"parked {entry.key!r} needs a job id")
        self._stages.find(entry.stage).put_back(entry, body)

    def _put_back(self, stage: Stage, entry: Entry, body: bytes) -> ReplayFate | None:
        if why := stage.refuse(entry):
            # No later replay meets it.
            self._table.change(entry, replace(entry, state=EntryState.DISCARDED, note=why))
            return ReplayFate.REFUSED
        marked = self._table.change(entry, replace(entry, state=EntryState.REPLAYING, replays=entry.replays + 1))
        if marked is None:
            return ReplayFate.SKIPPED
        try:
            stage.put_back(marked, body)
        except NotParkedError:
            return ReplayFate.REFUSED
        if stage.wakes:
            self._wake()
        # If it has come back already, its row says so, and that stays.
        self._table.change(marked, replace(marked, state=EntryState.REPLAYED))
        return None

    def look(self, known: SentEntry) -> ReplayFate | None:
        """Return the fate of an entry that was sent, None: not known yet."""
        now = self._table.find(known.job, known.key)
        fate = judge(known, now)
        if fate or now is None:
            return fate
        try:
            if not self._stages.find(now.stage).has_landed(now):
                return None
        except NotParkedError:
            # Another process sent it, which knows its stage.
            return None
        # Closed only now: if the message had been lost on its way, the entry could still be replayed.
        self._table.change(now, replace(now, state=EntryState.DONE))
        return ReplayFate.DONE


def find_refiled(table: ParkedTable, entry: Entry, body: bytes) -> Entry | None:
    """Move a submission's entry to the key under which a replay that fails again finds it, and return it.

    None: another process changed it meanwhile. Entries of the previous version lie under their job, and an entry that
    a person named still has the key of an unnamed one.
    """
    key = door_key(entry.queue, body, entry.about)
    if (entry.job, entry.key) == (DOOR, key):
        return entry
    # The new one first: a crash in between leaves both, and the same replay, repeated, joins them.
    refiled = table.park(replace(entry, job=DOOR, key=key, claimed=entry.about, state=EntryState.OPEN), body)
    gone = replace(entry, state=EntryState.DISCARDED, note=f"filed as {key} of {DOOR}")
    return None if table.change(entry, gone) is None else refiled


def choose(entries: Sequence[Entry], pace: ReplayPace) -> list[Entry]:
    """Return the entries that a replay at this pace would put back, the oldest first."""
    oldest_first = sorted(entries, key=order_key)
    return list(islice(replayable(oldest_first, again=pace.again), pace.limit))


def order_key(entry: Entry) -> tuple[str, str, str]:
    """Return the place of an entry in the order of a replay. No replay changes it."""
    return entry.first_at.astimezone(UTC).isoformat(timespec="microseconds"), entry.job, entry.key


#: The key of a selection of single entries. A release that does not know these finds no entry by it, and sends none.
PICKS: Final = "~picks"
#: Entries that a person may choose singly.
MOST_PICKS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A filter of entries. A field that is None selects all."""

    fingerprint: str | None = None
    job: str | None = None
    key: str | None = None
    reason: str | None = None
    #: The jobs and keys of single entries, which a person chose. Empty: all that the other fields select.
    picks: tuple[tuple[str, str], ...] = ()

    def pick(self, picks: Iterable[tuple[str, str]]) -> "Selection":
        """Return the selection of these entries alone."""
        return replace(self, key=PICKS, picks=tuple(picks))

    def takes(self, entry: Entry) -> bool:
        """Return whether the entry matches in all but its cause, which depends on the other entries."""
        if self.picks:
            return (entry.job, entry.key) in self.picks
        wanted = {"key": self.key, "reason": self.reason}
        is_of_job = self.job is None or self.job in {entry.job, entry.claimed}
        return is_of_job and all(value is None or getattr(entry, name) == value for name, value in wanted.items())

    def takes_cause(self, cause: CauseSums) -> bool:
        """Return whether entries of a cause may match, by its fingerprint and its reason."""
        return self.fingerprint in {None, cause.fingerprint} and self.reason in {None, cause.reason}

    def complete(self, entries: Sequence[Entry]) -> "Selection":
        """Return the selection with the whole fingerprint and the whole key where only their beginnings were typed."""
        fingerprint, key = self.fingerprint, self.key
        if fingerprint is not None:
            fingerprint = complete_prefix(fingerprint, (entry.fingerprint for entry in entries), "fingerprints")
        if key is not None and not self.picks:
            key = complete_prefix(key, (entry.key for entry in entries), "keys")
        return replace(self, fingerprint=fingerprint, key=key)

    def outlast(self, chosen: Sequence[Entry]) -> "Selection":
        """Return a selection that still means all of these when the first of them are closed.

        Entries of an older scheme are one cause by their reason. Each may have a fingerprint of its own.
        """
        if self.fingerprint is None or all(entry.scheme is not None for entry in chosen):
            return self
        return replace(self, fingerprint=None, reason=chosen[0].reason)

    def select(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that match. A fingerprint stands for all entries listed with it as one cause."""
        if self.fingerprint is None:
            return [entry for entry in entries if self.takes(entry)]
        causes = group_by_cause(list(entries))
        matching = [cause for cause in causes if any(entry.fingerprint == self.fingerprint for entry in cause)]
        return [entry for entry in chain.from_iterable(matching) if self.takes(entry)]

    def __str__(self) -> str:
        chosen = f"{len(self.picks)} chosen" if self.picks else self.key
        named = [self.fingerprint, self.reason, self.job, chosen]
        return " ".join(name for name in named if name is not None) or "everything"


def digest_entries(entries: Iterable[Entry]) -> str:
    """Return a text that is another one as soon as an entry comes, goes or changes."""
    lines = sorted(f"{entry.job}|{entry.key}|{entry.etag}" for entry in entries)
    return sha256("\n".join(lines).encode()).hexdigest()
