"""Replays parked messages in growing waves, and stops when the cause is found to remain.

Order per entry: mark it as replaying, put its bytes back, mark it as replayed, wait for its effect, mark it as done. A
crash in between leaves an entry that is replayed again, and a message that is sent twice counts once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Final

from shared.clock import Clock
from shared.errors import NotParkedError, ParkedTamperedError
from shared.operating.grouping import replayable, waves
from shared.parked import ACCEPT, DOOR, NO_JOB, Entry, EntryState, ParkedTable, Stage, Stages, door_key, is_nameless

#: Seconds between two reads of the state of a wave.
LOOK: Final = 1.0


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


@dataclass(slots=True)
class Wave:
    """One wave, and the fate of each of its entries."""

    entries: list[Entry]
    fates: dict[tuple[str, str], ReplayFate] = field(default_factory=dict)

    def count(self, fate: ReplayFate) -> int:
        """Return the number of entries with this fate."""
        return sum(one is fate for one in self.fates.values())

    @property
    def is_last(self) -> bool:
        """Return whether the replay must stop: the cause remains, or no worker answers."""
        return self.count(ReplayFate.SAME_AGAIN) > 0 or self.count(ReplayFate.NO_ANSWER) > 0


class Replayer:
    """Puts entries back. Safe to repeat, to run beside other replays, and to be killed anywhere."""

    def __init__(
        self,
        table: ParkedTable,
        stages: Stages,
        clock: Clock,
        pause: Callable[[float], object],
        wake: Callable[[], object] = nobody,
    ) -> None:
        self._table, self._stages, self._wake = table, stages, wake
        self._clock, self._pause = clock, pause

    def replay(self, entries: Sequence[Entry], pace: ReplayPace) -> Iterator[Wave]:
        """Yield each wave when the fates of its entries are known. Only then the next wave starts."""
        for members in waves(choose(entries, pace)):
            wave = Wave(members)
            self._settle(wave, self._send_wave(wave, pace), pace.patience)
            yield wave
            if wave.is_last:
                return

    def _send_wave(self, wave: Wave, pace: ReplayPace) -> list[Entry]:
        sent = []
        for number, entry in enumerate(wave.entries):
            if number and pace.rate:
                self._pause(1 / pace.rate)
            marked = self._send(entry)
            if isinstance(marked, ReplayFate):
                wave.fates[entry.job, entry.key] = marked
            else:
                sent.append(marked)
        return sent

    def _send(self, entry: Entry) -> Entry | ReplayFate:
        """Put one entry back and return the changed entry, or the reason why that was impossible or useless."""
        try:
            stage = self._stages.find(entry.stage)
            body = self._table.body(entry)
        except NotParkedError:
            return ReplayFate.UNKNOWN
        except ParkedTamperedError:
            return ReplayFate.REFUSED
        if stage.is_read_first and stage.has_landed(entry):
            closed = self._table.change(entry, replace(entry, state=EntryState.DONE))
            return ReplayFate.SKIPPED if closed is None else ReplayFate.DONE_BEFORE
        refiled = self._refile(entry, body) if entry.stage == ACCEPT else entry
        return refiled if isinstance(refiled, ReplayFate) else self._put_back(stage, refiled, body)

    def _refile(self, entry: Entry, body: bytes) -> Entry | ReplayFate:
        if entry.about == NO_JOB and is_nameless(body):
            return ReplayFate.UNNAMED
        return find_refiled(self._table, entry, body) or ReplayFate.SKIPPED

    def _put_back(self, stage: Stage, entry: Entry, body: bytes) -> Entry | ReplayFate:
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
        return self._table.change(marked, replace(marked, state=EntryState.REPLAYED)) or marked

    def _settle(self, wave: Wave, sent: list[Entry], patience: float) -> None:
        end = self._clock.monotonic() + patience
        while sent:
            sent = [entry for entry in sent if not self._is_known(wave, entry)]
            if not sent or self._clock.monotonic() >= end:
                break
            self._pause(LOOK)
        wave.fates |= {(entry.job, entry.key): ReplayFate.NO_ANSWER for entry in sent}

    def _is_known(self, wave: Wave, entry: Entry) -> bool:
        now = self._table.get(entry.job, entry.key)
        if now.returns > entry.returns:
            wave.fates[entry.job, entry.key] = (
                ReplayFate.SAME_AGAIN if now.is_same_cause(entry) else ReplayFate.OTHER_CAUSE
            )
            return True
        if not self._stages.find(now.stage).has_landed(now):
            return False
        # Closed only now: if the message had been lost on its way, the entry could still be replayed.
        self._table.change(now, replace(now, state=EntryState.DONE))
        wave.fates[entry.job, entry.key] = ReplayFate.DONE
        return True


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
    oldest_first = sorted(entries, key=lambda entry: (entry.first_at, entry.job, entry.key))
    return list(islice(replayable(oldest_first, again=pace.again), pace.limit))
