"""A replay as plain data: its row, its lease, its waves, and what follows from each step. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from shared.operating.grouping import size_wave, waves
from shared.operating.replay import ReplayFate, ReplayPace, SentEntry, choose, order_key
from shared.operating.selection import Selection
from shared.parked import Entry

#: How long a process may go on before it writes the row again.
LEASE: Final = timedelta(seconds=60)
#: A lease is renewed by the next write after this time.
RENEW_AFTER: Final = timedelta(seconds=20)
#: A replay in which nothing happened for so long stands still.
STILL_AFTER: Final = timedelta(minutes=3)
#: Waves that a row describes: the first ones and the last ones. Its counts are of all.
FIRST_WAVES: Final = 10
LAST_WAVES: Final = 50
#: Seconds that a wave usually takes while workers run, from and to. On the local stack it was 1.1 s for two entries and
#: 2.8 s for fifty; workers that are busy or begin anew take longer.
_QUICK, _SLOW = 1.0, 10.0


class ReplayState(StrEnum):
    """How far a replay is."""

    #: A person requested it, and no process has begun.
    ASKED = "asked"
    RUNNING = "running"
    #: A person requested its end. The next step ends it.
    STOPPING = "stopping"
    ENDED = "ended"


class Wave(Struct, frozen=True, kw_only=True):
    """One wave that has ended, and the number of its entries by fate."""

    number: int
    counts: dict[ReplayFate, int]
    began_at: datetime
    ended_at: datetime

    @property
    def size(self) -> int:
        """Return the number of its entries."""
        return sum(self.counts.values())

    def count(self, fate: ReplayFate) -> int:
        """Return the number of entries with this fate."""
        return self.counts.get(fate, 0)

    @property
    def is_last(self) -> bool:
        """Return whether the replay must stop: the cause remains, or no worker answers."""
        return self.count(ReplayFate.SAME_AGAIN) > 0 or self.count(ReplayFate.NO_ANSWER) > 0


class WaveOut(Struct, frozen=True, kw_only=True):
    """The wave that is out. It is in the row before its first entry is sent."""

    entries: tuple[SentEntry, ...]
    began_at: datetime
    #: When the last of it was sent; None: perhaps not all of it is.
    sent_at: datetime | None = None


class Replay(Struct, frozen=True, kw_only=True):
    """One replay."""

    id: str
    who: str
    why: str
    asked_at: datetime
    selection: Selection
    pace: ReplayPace
    #: The number of entries at the beginning; it sends no more.
    entries: int
    state: ReplayState = ReplayState.ASKED
    #: The process that may take the next step, and until when. Empty: any.
    owner: str = ""
    until: datetime | None = None
    #: The last entry of the last wave, in the order of the waves. What comes back does not come again.
    after: tuple[str, str, str] | None = None
    #: Entries and number of all waves, the one that is out included.
    taken: int = 0
    begun: int = 0
    counts: dict[ReplayFate, int] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    out: WaveOut | None = None
    #: The last write.
    moved_at: datetime
    stopped_by: str = ""
    result: str = ""
    #: Identifies the write of this row: after a lost reply, a writer recognises its own row.
    nonce: str = ""
    etag: str = ""

    @property
    def has_more(self) -> bool:
        """Return whether there may be a further wave."""
        return self.taken < self.entries

    @property
    def is_over(self) -> bool:
        """Return whether nothing more happens."""
        return self.state is ReplayState.ENDED

    def is_leased(self, now: datetime) -> bool:
        """Return whether a process has it in hand."""
        return bool(self.owner) and self.until is not None and now < self.until

    def is_still(self, now: datetime) -> bool:
        """Return whether it stands still: it goes on when a process steps it."""
        return not self.is_over and not self.is_leased(now) and now - self.moved_at > STILL_AFTER


def lease(replay: Replay, owner: str, now: datetime) -> Replay | None:
    """Return the row as this process takes it, None: it is over, or another one has it."""
    if replay.is_over or (replay.is_leased(now) and replay.owner != owner):
        return None
    state = ReplayState.RUNNING if replay.state is ReplayState.ASKED else replay.state
    return replace_now(replay, now, state=state, owner=owner, until=now + LEASE)


def renew(replay: Replay, now: datetime) -> Replay:
    """Return the row with a new lease of its owner."""
    return replace_now(replay, now, until=now + LEASE)


def needs_renewal(replay: Replay, now: datetime) -> bool:
    """Return whether the lease of a row in hand is old."""
    return replay.until is None or now > replay.until - LEASE + RENEW_AFTER


def give_back(replay: Replay, now: datetime) -> Replay:
    """Return the row for any process."""
    return replace_now(replay, now, owner="", until=None)


def replace_now(replay: Replay, now: datetime, **changes: object) -> Replay:
    """Return a changed row that moved now."""
    return replace(replay, moved_at=now, **changes)


def find_next(replay: Replay, found: Sequence[Entry]) -> list[Entry]:
    """Return the entries of the next wave, of those that the selection finds now."""
    # No more than at the beginning: what is parked meanwhile may come without end.
    most = min(size_wave(replay.begun), replay.entries - replay.taken)
    ahead = [entry for entry in found if replay.after is None or order_key(entry) > replay.after]
    return choose(ahead, replay.pace)[: max(most, 0)]


def begin_wave(replay: Replay, members: Sequence[Entry], sent: Sequence[SentEntry], now: datetime) -> Replay:
    """Return the row with its next wave out."""
    return replace_now(
        replay,
        now,
        after=order_key(members[-1]),
        taken=replay.taken + len(members),
        begun=replay.begun + 1,
        out=WaveOut(entries=tuple(sent), began_at=now),
    )


def withdraw(replay: Replay, sent: int) -> Replay:
    """Return the row with only the sent ones of the wave that is out, because a person has stopped the replay."""
    left = 0 if replay.out is None else len(replay.out.entries) - sent
    known = replace(replay, taken=replay.taken - left)
    return known if sent else replace(known, out=None, begun=replay.begun - 1)


def note_fates(replay: Replay, entries: Sequence[SentEntry], *, sent_at: datetime | None = None) -> Replay:
    """Return the row with the known fates of the wave that is out."""
    if replay.out is None:
        return replay
    return replace(replay, out=replace(replay.out, entries=tuple(entries), sent_at=replay.out.sent_at or sent_at))


def end_wave(replay: Replay, now: datetime) -> Replay:
    """Return the row with the wave that is out among the others, if its end has come."""
    out = replay.out
    if out is None or out.sent_at is None:
        return replay
    waits = any(entry.fate is None for entry in out.entries)
    is_early = now < out.sent_at + timedelta(seconds=replay.pace.patience)
    if waits and is_early and replay.state is not ReplayState.STOPPING:
        return replay
    fates = Counter(entry.fate or ReplayFate.NO_ANSWER for entry in out.entries)
    wave = Wave(number=replay.begun, counts=dict(fates), began_at=out.began_at, ended_at=now)
    kept = (*replay.waves, wave)
    if len(kept) > FIRST_WAVES + LAST_WAVES:
        kept = kept[:FIRST_WAVES] + kept[-LAST_WAVES:]
    return replace(replay, out=None, waves=kept, counts=dict(Counter(replay.counts) + fates))


def end(replay: Replay, now: datetime) -> Replay:
    """Return the row of a replay that is over, with its result."""
    said = describe_fates(replay.counts)
    if replay.state is ReplayState.STOPPING:
        said = f"stopped by {replay.stopped_by}: {said}"
    return replace_now(replay, now, state=ReplayState.ENDED, owner="", until=None, result=said)


def must_end(replay: Replay) -> bool:
    """Return whether no further wave may begin."""
    return replay.state is ReplayState.STOPPING or any(wave.is_last for wave in replay.waves[-1:])


def stop(replay: Replay, who: str, now: datetime) -> Replay:
    """Return the row as a person wants it ended, the same row if it ends anyway."""
    if replay.state in {ReplayState.STOPPING, ReplayState.ENDED}:
        return replay
    return replace_now(replay, now, state=ReplayState.STOPPING, stopped_by=who)


def adopt_stop(mine: Replay, there: Replay) -> Replay:
    """Return the row of a process that writes, with the stop that a person wrote meanwhile."""
    known = replace(mine, etag=there.etag)
    if there.state is ReplayState.STOPPING and not known.is_over:
        known = replace(known, state=there.state, stopped_by=there.stopped_by)
    return known


def describe_fates(counts: Mapping[ReplayFate, int]) -> str:
    """Return the number of entries by fate, as text."""
    known = ((counts.get(fate, 0), fate.value) for fate in ReplayFate)
    return ", ".join(f"{count} {name}" for count, name in known if count) or "nothing to replay"


class Estimate(NamedTuple):
    """The size of a replay before it begins."""

    entries: int
    waves: int
    #: The seconds that it usually takes while workers run.
    least: float
    most: float


def estimate(entries: Sequence[Entry]) -> Estimate:
    """Return the size of a replay of these entries."""
    number = sum(1 for _ in waves(entries))
    return Estimate(len(entries), number, number * _QUICK, number * _SLOW)
