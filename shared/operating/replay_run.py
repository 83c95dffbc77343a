"""Steps a replay: takes its row's lease, sends a wave or looks at the one that is out, writes, and gives the lease back.

Any process may take the next step. A wave is in the row before its first entry is sent, and each entry is marked before it
is sent. So after a crash the next process sends what is not sent, and then looks.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final

from msgspec.structs import replace

from shared.clock import Clock
from shared.errors import ContentionError, LeaseLostError
from shared.operating import replay_record as record
from shared.operating.replay import Replayer, SentEntry, note_before
from shared.operating.replay_record import Replay, ReplayState
from shared.operating.replay_table import ReplayTable
from shared.operating.selection import Selection
from shared.parked import Entry

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
    clock: Clock
    pause: Callable[[float], object]
    owner: str

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
                    yield self._write(record.give_back(known, self._now))
                    return
        except LeaseLostError:
            # The process that has it now goes on.
            return

    @property
    def _now(self) -> datetime:
        return self.clock.now()

    def _take(self, replay: Replay) -> Replay | None:
        if replay.owner == self.owner and not replay.is_over and not record.needs_renewal(replay, self._now):
            return replay
        taken = record.lease(replay, self.owner, self._now)
        return None if taken is None else self._write(taken)

    def _go_on(self, known: Replay) -> Replay:
        if known.out is None:
            return self._begin_wave(known)
        if known.out.sent_at is None:
            return self._send(known, {})
        known = record.end_wave(self._look(known), self._now)
        if known.out is None:
            return self._finish(known) if record.must_end(known) else known
        self.pause(LOOK)
        return self._keep(known)

    def _begin_wave(self, known: Replay) -> Replay:
        may_go_on = known.has_more and not record.must_end(known)
        members = record.find_next(known, self.find(known.selection)) if may_go_on else []
        if not members:
            return self._finish(known)
        prepared = [self.replayer.prepare(entry) for entry in members]
        known = record.begin_wave(known, members, [note_before(entry) for entry in prepared], self._now)
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
                known = record.withdraw(known, len(done))
                break
            fate = self.replayer.send(entry, fresh.get((entry.job, entry.key)))
            done.append(replace(entry, fate=fate))
        if known.out is None:
            return self._finish(known)
        return self._write(record.note_fates(known, done, sent_at=self._now))

    def _look(self, known: Replay) -> Replay:
        entries = known.out.entries if known.out else ()
        looked = [entry if entry.fate else replace(entry, fate=self.replayer.look(entry)) for entry in entries]
        return record.note_fates(known, looked)

    def _keep(self, known: Replay) -> Replay:
        """Renew the lease if it is old, and so hear of a stop."""
        if not record.needs_renewal(known, self._now):
            return known
        return self._write(known)

    def _finish(self, known: Replay) -> Replay:
        ended = self._write(record.end(known, self._now))
        self.table.remove_old()
        return ended

    def _write(self, mine: Replay) -> Replay:
        """Write the row, with the stop of a person who wrote it meanwhile. Raise LeaseLostError if it is another's."""
        for _ in range(_ATTEMPTS):
            if not mine.is_over and mine.owner == self.owner:
                mine = record.renew(mine, self._now)
            if (written := self.table.change(mine)) is not None:
                return written
            there = self.table.get(mine.id)
            if there.owner != self.owner:
                raise LeaseLostError(f"replay {mine.id} is in the hands of {there.owner or 'another process'}")
            mine = record.adopt_stop(mine, there)
        raise ContentionError(f"could not write replay {mine.id} in {_ATTEMPTS} attempts: other writers were first")
