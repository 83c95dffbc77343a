"""A replay as plain data: its row, its lease, its waves, and what follows from each step. Pure.

The table of replays: one partition, the newest first. Every write is conditional, and known again by its nonce.

Steps a replay: takes its row's lease, sends a wave or looks at the one that is out, writes, and gives the lease back.

Any process may take the next step. A wave is in the row before its first entry is sent, and each entry is marked before it
is sent. So after a crash the next process sends what is not sent, and then looks.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from math import inf
from typing import Any, Final, NamedTuple

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode
from msgspec import Struct, field
from msgspec.structs import replace

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ContentionError, LeaseLostError, NoReplayError
from shared.operating.listing import describe_duration
from shared.operating.replay import (
    Replayer,
    ReplayFate,
    ReplayPace,
    Selection,
    SentEntry,
    choose,
    note_before,
    order_key,
    size_wave,
    waves,
)
from shared.parked import Entry
from shared.pipeline import LEAST_WINDOW
from shared.topology import is_work_queue
from shared.versions import convert, decode

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
#: The last waves tell how long the next ones take.
_LAST: Final = 10


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


#: Half of the smallest window. So many messages beside it delay no room.
_HARMLESS: Final = LEAST_WINDOW // 2


def may_delay(wave: Sequence[Entry]) -> bool:
    """Check whether a wave could delay the jobs that wait for their turn. It goes to the work queues around them."""
    return len(wave) > _HARMLESS and any(is_work_queue(entry.queue) for entry in wave)


def cut_wave(wave: Sequence[Entry], window: int) -> Sequence[Entry]:
    """Return the entries of a wave that take half of the window of the work queues. The others are in the next wave."""
    return wave[: max(_HARMLESS, window // 2)]


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


def count_waves(replay: Replay) -> int:
    """Return the number of all its waves, as far as the window of the work queues cuts none."""
    left, number = replay.entries - replay.taken, replay.begun
    while left > 0:
        left, number = left - size_wave(number), number + 1
    return number


def describe_progress(replay: Replay) -> str:
    """Say how far a replay is, and how long the rest takes if its waves take as long as the last ones did."""
    number, lasted = count_waves(replay), replay.waves[-_LAST:]
    said = f"wave {replay.begun:,} of {number:,}, {100 * replay.taken // max(1, replay.entries)} %"
    if not lasted:
        return said
    each = sum((wave.ended_at - wave.began_at for wave in lasted), timedelta()) / len(lasted)
    left = (number - replay.begun + (replay.out is not None)) * each.total_seconds()
    return f"{said}, about {describe_duration(left)} left"


def describe_end(replay: Replay) -> str:
    """Say what came of a replay that is over, and why it stopped before its last wave."""
    last = next(iter(replay.waves[-1:]), None)
    if replay.stopped_by or last is None or not last.is_last or not replay.has_more:
        return replay.result
    same, silent = last.count(ReplayFate.SAME_AGAIN), last.count(ReplayFate.NO_ANSWER)
    why = f"{same:,} came back for the same cause" if same else f"no worker answered for {silent:,}"
    return f"stopped: {why} ({replay.taken:,} of {replay.entries:,} sent): {replay.result}"


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


PARTITION: Final = "replay"
#: Replays that are kept. When one ends, older ones that have ended go.
KEPT: Final = 100
#: Each has a column of its own, because a column has an upper bound.
_APART: Final = ("waves", "out")
_LATEST_FIRST: Final = str.maketrans("0123456789", "9876543210")
#: Digits of a replay's time in its id.
_TIME: Final = len("20261123-131205")


def name_replay(at: datetime, nonce: str) -> str:
    """Return the id of a replay that was requested at this moment."""
    return f"{at:%Y%m%d-%H%M%S}-{nonce[:8]}"


class ReplayTable:
    """The rows of replays."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def insert(self, replay: Replay) -> Replay:
        """Write the row of a new replay. After a lost reply, its nonce tells whether this call wrote it."""
        fresh = replace(replay, nonce=secrets.token_hex(8))
        with expecting_an_answer(f"write replay {replay.id}"):
            try:
                written = self._table.create_entity(_row(fresh))
            except AzureError:
                there = self.find(replay.id)
                if there is None or there.nonce != fresh.nonce:
                    raise
                return there
        return replace(fresh, etag=written["etag"])

    def change(self, replay: Replay) -> Replay | None:
        """Replace the row that was read. Return None if another writer changed it since."""
        fresh = replace(replay, nonce=secrets.token_hex(8))
        with expecting_an_answer(f"write replay {replay.id}"):
            try:
                written = self._table.update_entity(
                    _row(fresh),
                    mode=UpdateMode.REPLACE,
                    etag=replay.etag,
                    match_condition=MatchConditions.IfNotModified,
                )
            except ResourceModifiedError:
                there = self.find(replay.id)
                return there if there is not None and there.nonce == fresh.nonce else None
        return replace(fresh, etag=written["etag"])

    def find(self, replay: str) -> Replay | None:
        """Return the replay with this id, or None."""
        with expecting_an_answer(f"read replay {replay}"):
            try:
                return _replay(self._table.get_entity(PARTITION, _row_key(replay)))
            except ResourceNotFoundError:
                return None

    def get(self, replay: str) -> Replay:
        """Return the replay with this id, or raise NoReplayError."""
        if (found := self.find(replay)) is None:
            raise NoReplayError(f"no replay is called {replay[:100]!r}: `sluice parked replays` lists them")
        return found

    def newest(self, most: int = KEPT) -> list[Replay]:
        """Return the last replays, the newest first. One request."""
        with expecting_an_answer("list the replays"):
            wanted = {"partition": PARTITION}
            rows = self._table.query_entities("PartitionKey eq @partition", parameters=wanted, results_per_page=most)
            return [_replay(row) for row in islice(rows, most)]

    def remove_old(self) -> None:
        """Remove what has ended beyond the newest hundred. One request, and one for each that goes."""
        with expecting_an_answer("remove old replays"):
            wanted = {"partition": PARTITION, "ended": "ended"}
            rows = self._table.query_entities(
                "PartitionKey eq @partition and state eq @ended", parameters=wanted, select=["PartitionKey", "RowKey"]
            )
            for row in islice(rows, KEPT, None):
                self._table.delete_entity(PARTITION, row["RowKey"])


def _row_key(replay: str) -> str:
    return replay[:_TIME].translate(_LATEST_FIRST) + replay[_TIME:]


def _row(replay: Replay) -> dict[str, Any]:
    fields = msgspec.to_builtins(replay)
    own = {"PartitionKey": PARTITION, "RowKey": _row_key(replay.id), "state": replay.state.value}
    own |= {name: msgspec.json.encode(fields.pop(name)).decode() for name in _APART}
    del fields["etag"]
    if not replay.selection.picks:
        del fields["selection"]["picks"]
    return {**own, "replay": msgspec.json.encode(fields).decode()}


def _replay(row: Mapping[str, Any]) -> Replay:
    fields = {**decode(row["replay"], dict[str, Any]), **{name: decode(row[name], Any) for name in _APART}}
    found = convert(fields, Replay)
    return replace(found, etag=row.metadata["etag"])  # type: ignore[attr-defined]  # the library's own mapping has it


#: Seconds between two reads of the state of a wave.
LOOK: Final = 1.0
#: Attempts at a write. Only a person who stops a replay writes beside its owner.
_ATTEMPTS: Final = 5


def draw_owner(kind: str) -> str:
    """Return a new name of a process that steps replays."""
    return f"{kind}-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """Steps replays under one name."""

    table: ReplayTable
    replayer: Replayer
    #: Returns the parked entries of a selection, as they are now.
    find: Callable[[Selection], Sequence[Entry]]
    #: Reads the window of the work queues. None: no job waits for its turn.
    window: Callable[[], int | None]
    clock: Clock
    pause: Callable[[float], object]
    owner: str
    #: Notes that a replay stopped by itself.
    note_stopped: Callable[[Replay, datetime], object]

    def step(self, replay: Replay, until: float = inf) -> Replay:
        """Go on with a replay up to a moment of the monotonic clock. Return its last row."""
        for known in self.steps(replay, until):
            replay = known
        return replay

    def steps(self, replay: Replay, until: float = inf) -> Iterator[Replay]:
        """Go on with a replay, and yield it after each part of a step. Nothing: it is over or in other hands."""
        try:
            known = self._take(replay)
            while known is not None and not known.is_over:
                known = self._go_on(known)
                yield known
                if not known.is_over and self.clock.monotonic() >= until:
                    yield self._write(give_back(known, self._now))
                    return
        except LeaseLostError:
            # The process that has it now goes on.
            return

    @property
    def _now(self) -> datetime:
        return self.clock.now()

    def _take(self, replay: Replay) -> Replay | None:
        if replay.owner == self.owner and not replay.is_over and not needs_renewal(replay, self._now):
            return replay
        taken = lease(replay, self.owner, self._now)
        return None if taken is None else self._write(taken)

    def _go_on(self, known: Replay) -> Replay:
        if known.out is None:
            return self._begin_wave(known)
        if known.out.sent_at is None:
            return self._send(known, {})
        known = end_wave(self._look(known), self._now)
        if known.out is None:
            return self._finish(known) if must_end(known) else known
        self.pause(LOOK)
        return self._keep(known)

    def _begin_wave(self, known: Replay) -> Replay:
        may_go_on = known.has_more and not must_end(known)
        members: Sequence[Entry] = find_next(known, self.find(known.selection)) if may_go_on else []
        if may_delay(members) and (window := self.window()) is not None:
            members = cut_wave(members, window)
        if not members:
            return self._finish(known)
        prepared = [self.replayer.prepare(entry) for entry in members]
        known = begin_wave(known, members, [note_before(entry) for entry in prepared], self._now)
        known = self._write(known)
        return self._send(known, {(entry.job, entry.key): entry for entry in prepared})

    def _send(self, known: Replay, fresh: dict[tuple[str, str], Entry]) -> Replay:
        """Send what is not sent yet of the wave that is out. `fresh`: rows of it that were just read."""
        done: list[SentEntry] = []
        for entry in known.out.entries if known.out else ():
            if done and known.pace.rate:
                self.pause(1 / known.pace.rate)
            known = self._keep(known)
            if known.state is ReplayState.STOPPING:
                known = withdraw(known, len(done))
                break
            fate = self.replayer.send(entry, fresh.get((entry.job, entry.key)))
            done.append(replace(entry, fate=fate))
        if known.out is None:
            return self._finish(known)
        return self._write(note_fates(known, done, sent_at=self._now))

    def _look(self, known: Replay) -> Replay:
        entries = known.out.entries if known.out else ()
        looked = [entry if entry.fate else replace(entry, fate=self.replayer.look(entry)) for entry in entries]
        return note_fates(known, looked)

    def _keep(self, known: Replay) -> Replay:
        """Renew the lease if it is old, and so hear of a stop."""
        if not needs_renewal(known, self._now):
            return known
        return self._write(known)

    def _finish(self, known: Replay) -> Replay:
        if known.state is not ReplayState.STOPPING and any(wave.is_last for wave in known.waves[-1:]):
            # Before the row: a process that ends it after a crash writes the same.
            self.note_stopped(known, self._now)
        ended = self._write(end(known, self._now))
        self.table.remove_old()
        return ended

    def _write(self, mine: Replay) -> Replay:
        """Write the row, with the stop of a person who wrote it meanwhile. Raise LeaseLostError if it is another's."""
        for _ in range(_ATTEMPTS):
            if not mine.is_over and mine.owner == self.owner:
                mine = renew(mine, self._now)
            if (written := self.table.change(mine)) is not None:
                return written
            there = self.table.get(mine.id)
            if there.owner != self.owner:
                raise LeaseLostError(f"replay {mine.id} is in the hands of {there.owner or 'another process'}")
            mine = adopt_stop(mine, there)
        raise ContentionError(f"could not write replay {mine.id} in {_ATTEMPTS} attempts: other writers were first")
