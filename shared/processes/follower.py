"""Follows the agenda: timeouts that are due, and notes whose writers ended before they had sent everything.

A hint about a shard leads here, and the tick leads here without any hint.

Hints that something of a shard is due: one scheduled message for each slot of time, for all timeouts in it.

Reminders of notes: one scheduled message for each slot of time, for the notes of every shard. The bus drops those that
further processes send for the same slot.

A hint or reminder that is lost costs time, and no timeout: the tick reads the agenda too.

The core of a process has all of this, with the runtime and the way to the bus.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from shared.azure import FAILURES, BusMessage, BusSender, Connections, Destination
from shared.clock import Clock, Closing, all_tried
from shared.errors import BudgetSpentError
from shared.processes.agenda import MOST_HOMES, NOTE_AFTER, SHARDS, Agenda, Alias, DueRows, Note, TimeoutRow
from shared.processes.decisions import Case, Handled, Incoming, Process
from shared.processes.homes import Head, Homes
from shared.processes.outgoing import Outgoing, Removals, Routes, Unsent
from shared.processes.publisher import MOST_TRANSFERS, BusPublisher
from shared.processes.runtime import Runtime, commands_in
from shared.telemetry import describe_error, events, tell
from shared.topology import BATCH_SECONDS
from shared.versions import make_decoder

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
        note_stuck: Callable[[str, str], object] = lambda _home, _found: None,
    ) -> None:
        """Take the stores. `handle` gets the timeouts; `resume` goes on with a home whose writer ended, after its sends.

        `note_stuck` hears of each home whose timeout came why it is stuck, or "" if it is not.
        """
        self._agenda, self._homes, self._outgoing, self._clock = agenda, homes, outgoing, clock
        self._handle, self._resume, self._note_stuck = handle, resume, note_stuck

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
            stuck = ""
            if outcome.error is not None and now - row.due >= STUCK_AFTER:
                late, stuck = round((now - row.due).total_seconds()), describe_error(outcome.error)
                tell(events.PROCESS_STUCK, home=row.home, late_seconds=late, error=stuck)
            self._note_stuck(row.home, stuck)
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


#: Parts of the time that a timeout may be late, and the shortest slot: the due times of rows are whole seconds.
_SLOTS: Final = 12
_SHORTEST: Final = timedelta(seconds=1)
#: Slots of which a process remembers that it sent their hints.
_REMEMBERED: Final = 10_000


#: The slot of a reminder. A process sends one a slot at most, and only while it writes notes.
REMINDED_EVERY: Final = timedelta(seconds=10)


class _Due(Struct, frozen=True, tag_field="kind", tag="due"):
    shard: int


class _Reminder(Struct, frozen=True, tag_field="kind", tag="remind"):
    pass


class _Wrapper(Struct, frozen=True):
    sluice: _Due | _Reminder


_decoder: Final = make_decoder(_Wrapper)


def due_shards(bodies: Sequence[bytes]) -> list[int]:
    """Return the shards that hints name, each once; a reminder names all. Any other message names none."""
    found: set[int] = set()
    for body in bodies:
        with suppress(ValueError, RecursionError):
            what = _decoder.decode(body).sluice
            found |= {what.shard} if isinstance(what, _Due) else set(range(SHARDS))
    return sorted(found & set(range(SHARDS)))


class DueHints:
    """Schedules the hints and reminders of one process. Several threads may use it."""

    def __init__(self, sender: BusSender, to: Destination, lateness: timedelta) -> None:
        """Take the queue, and how late a timeout may be followed: slots are a twelfth of it."""
        self._sender, self._to = sender, to
        self._slot = max(_SHORTEST, lateness / _SLOTS)
        self._sent: set[str] = set()
        self._lock = Lock()

    def __call__(self, shard: int, due: datetime) -> None:
        """Have somebody look at a shard at the end of the slot, unless this process did so before."""
        self._schedule(f"due-{shard}", due, self._slot, _Due(shard))

    def remind(self, due: datetime) -> None:
        """Have somebody look at every shard at the end of the slot, unless this process did so before."""
        self._schedule("remind", due, REMINDED_EVERY, _Reminder())

    def _schedule(self, name: str, due: datetime, length: timedelta, what: _Due | _Reminder) -> None:
        seconds = length.total_seconds()
        slot = ceil(due.timestamp() / seconds)
        # The same in every process: the bus drops a second message of one id within ten minutes.
        id_ = f"{name}-{slot}"
        with self._lock:
            if id_ in self._sent:
                return
            if len(self._sent) >= _REMEMBERED:
                self._sent.clear()
            self._sent.add(id_)
        message = BusMessage(body=msgspec.json.encode({"sluice": what}), id=id_)
        try:
            self._sender.send(self._to, [message], at=datetime.fromtimestamp(slot * seconds, UTC))
        except FAILURES as error:
            tell(events.HINT_UNSCHEDULED, error=describe_error(error))


State = TypeVar("State")


class ProcessCore(Closing, Generic[State]):
    """The core of one kind of process: its runtime, its follower, and the way to the bus. Making it makes no request."""

    def __init__(  # noqa: PLR0913, PLR0917 - the process, its stores, and the way to the bus
        self,
        process: Process[State],
        aggregate: str,
        homes: Homes,
        agenda: Agenda,
        routes: Routes,
        connections: Connections,
        clock: Clock,
        *,
        hints: Destination,
        lateness: timedelta,
        resume: Callable[[str, Head], object] = lambda _home, _head: None,
        note_stuck: Callable[[str, str], object] = lambda _home, _found: None,
    ) -> None:
        """Take the queue of hints, and how late a timeout may be followed."""
        self.sender = BusSender(connections, most=MOST_TRANSFERS)
        self.publisher = BusPublisher(self.sender, connections.pushback, MOST_TRANSFERS)
        self.outgoing, self.removals = Outgoing(self.publisher, routes), Removals(agenda)
        hint = DueHints(self.sender, hints, lateness)
        self.runtime: Runtime[State] = Runtime(
            process,
            aggregate,
            homes,
            agenda,
            self.outgoing,
            clock=clock,
            remove=self.removals,
            hint=lambda shard, due: hint(shard % agenda.shards, due),
            remind=hint.remind,
        )
        self._follower = Follower(
            agenda, homes, self.outgoing, clock, handle=self.runtime.handle, resume=resume, note_stuck=note_stuck
        )
        self._agenda, self._clock = agenda, clock

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Follow what is due in the shards of these hints and reminders. Raises BudgetSpentError after BATCH_SECONDS."""
        until = self._clock.monotonic() + BATCH_SECONDS
        for shard in sorted({shard % self._agenda.shards for shard in due_shards(bodies)}):
            self._follower.follow(shard, until)
        if self._clock.monotonic() >= until:
            raise BudgetSpentError(
                f"could not look at {len(bodies)} hints of timeouts within {BATCH_SECONDS:.0f} s: they come again, and "
                "what was done changes nothing"
            )

    def follow(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the steps of a tick, one a shard: what is due, and what a crash left. Nothing is begun after `until`."""
        return (partial(self._follower.follow, shard, until) for shard in range(self._agenda.shards))

    def flush(self, keys: Sequence[str]) -> None:
        """Send what these homes have unsent. Raises NotPublishedError."""
        self._follower.flush(keys)

    def close(self) -> None:
        """Remove the rows that are done, and close the connections to the bus."""
        self.removals.close()
        self.sender.close()
