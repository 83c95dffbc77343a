"""Follows the agenda: timeouts that are due, and notes whose writers ended before they had sent everything.

A hint about a shard leads here, and the tick leads here without any hint.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from shared.clock import Clock
from shared.eventsourcing import Head, Homes
from shared.processes.agenda import MOST_HOMES, NOTE_AFTER, Agenda, Alias, DueRows, Note, TimeoutRow
from shared.processes.cases import Case, Handled
from shared.processes.decisions import Incoming
from shared.processes.outgoing import Outgoing, Unsent
from shared.processes.rows import commands_in
from shared.retry import all_tried
from shared.telemetry import describe_error, events, tell

#: The writer of a note may only be slow. It ends at the latest with its invocation, after functionTimeout.
WRITER_ENDS: Final = timedelta(minutes=11)
#: A timeout that is due for two ticks, and still there: its process is stuck.
STUCK_AFTER: Final = timedelta(minutes=2)
_Row = TypeVar("_Row")


class Follower:
    """Follows what is due in the shards of one installation. Any number may run side by side."""

    def __init__(  # noqa: PLR0913 - the stores, the way to the bus, and who handles timeouts
        self,
        agenda: Agenda,
        homes: Homes,
        outgoing: Outgoing,
        clock: Clock,
        *,
        handle: Callable[[Sequence[Case]], Handled[Any]],
        resume: Callable[[str, Head], object] = lambda _home, _head: None,
    ) -> None:
        """Take the stores. `handle` gets the timeouts; `resume` goes on with a home whose writer ended, after its sends."""
        self._agenda, self._homes, self._outgoing, self._clock = agenda, homes, outgoing, clock
        self._handle, self._resume = handle, resume

    def follow(self, shard: int, until: float) -> DueRows:
        """Follow what is due in a shard, and return it. After `until`, in monotonic seconds, nothing further is begun.

        All are tried; the first failure is raised at the end. What failed is due again at the next tick.
        """
        due = self._agenda.read_due(shard, self._clock.now())
        steps: list[Callable[[], object]] = [
            *(partial(self._expire, some) for some in _parts(due.timeouts)),
            *(partial(self._follow_note, note) for note in due.notes),
        ]
        all_tried((partial(self._unless_late, until, step) for step in steps), _tell_failure)
        return due

    def flush(self, keys: Sequence[str]) -> None:
        """Send what these homes have unsent. Raises NotPublishedError."""
        heads = {key: self._homes.read_head(key) for key in keys}
        self._outgoing.send(
            [unsent for key, head in heads.items() if head is not None and (unsent := self._unsent(key, head))]
        )

    def _unless_late(self, until: float, step: Callable[[], object]) -> None:
        if self._clock.monotonic() < until:
            step()

    def _expire(self, rows: Sequence[TimeoutRow]) -> None:
        """Give timeouts to their processes, then remove their rows. A process that needs none says nothing to it."""
        handled = self._handle(
            [Case(home=row.home, message=Incoming(kind=row.name, body={}, at=row.due)) for row in rows]
        )
        outcomes = zip(rows, handled.outcomes, strict=True)
        # An unsent command has a note of its own, so the row may go.
        self._agenda.remove([row for row, outcome in outcomes if outcome.error is None])
        now = self._clock.now()
        for row, outcome in zip(rows, handled.outcomes, strict=True):
            if outcome.error is not None and now - row.due >= STUCK_AFTER:
                late = round((now - row.due).total_seconds())
                tell(events.PROCESS_STUCK, home=row.home, late_seconds=late, error=describe_error(outcome.error))
        handled.check()

    def _follow_note(self, note: Note) -> None:
        """Send what the homes of a note have unsent, then remove it. Homes that did not come yet get a later one."""
        now = self._clock.now()
        tell(events.HOMES_LATE, homes=len(note.homes), late_seconds=round((now - note.since).total_seconds()))
        heads = {home: self._homes.read_head(home) for home in note.homes}
        there = {home: head for home, head in heads.items() if head and head.version >= note.homes[home]}
        self._outgoing.send([unsent for home, head in there.items() if (unsent := self._unsent(home, head))])
        for home, head in there.items():
            self._resume(home, head)
        awaited = {home: version for home, version in note.homes.items() if home not in there}
        if awaited and now - note.since < WRITER_ENDS:
            self._agenda.write([replace(note, due=now + NOTE_AFTER, homes=awaited)])
        elif note.number is not None and not any(_has_number(head, note.number) for head in heads.values()):
            # Its home never came, so the number is a gap.
            self._agenda.remove([Alias(note.number, "")])
        self._agenda.remove([note])

    def _unsent(self, key: str, head: Head) -> Unsent | None:
        published = self._outgoing.find_published(key, head.published)
        home = self._homes.load(key, published) if published < head.version else None
        return None if home is None else Unsent(key, home.head.version, published, home.events, commands_in(home))


def _has_number(head: Head | None, number: int) -> bool:
    return head is not None and head.fields.get("number") == number


def _parts(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[begin : begin + MOST_HOMES] for begin in range(0, len(rows), MOST_HOMES))


def _tell_failure(error: Exception) -> None:
    tell(events.AGENDA_UNSERVED, error=describe_error(error))
