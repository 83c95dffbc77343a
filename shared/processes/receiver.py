"""Receives commands to aggregates: note, decide all on one state, save, send what happened.

What comes again changes nothing, and sends what its home has unsent.

The notes of streams that are written again and again: one serves all writes of a minute.

A note is due two minutes after it was written, and another follows after one. So no write relies on a note that the tick
may remove before the write has ended. A note goes when its stream was quiet for a minute, if everything was sent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Final, Generic, TypeVar

from shared.clock import Clock, Closing
from shared.processes.agenda import Agenda, AgendaRow, Note, notes_of, shard_of_home
from shared.processes.homes import Event, Head, Homes
from shared.processes.mementos import Mementos
from shared.processes.outgoing import Outgoing, Unsent, run_later
from shared.processes.writer import Saved, Writer

#: Between the write of a note and its due time, and the part of it in which further writes rely on the note.
DUE_AFTER: Final = timedelta(minutes=2)
SERVES_FOR: Final = timedelta(minutes=1)


@dataclass(slots=True)
class _Hot:
    """The note of one stream."""

    note: Note
    #: Writes that are under way.
    users: int = 0
    #: Whether a write failed, so that something may be unsent.
    is_needed: bool = False


class HotNotes(Closing):
    """The notes of one process. Several threads may use it."""

    def __init__(
        self,
        agenda: Agenda,
        clock: Clock,
        remove: Callable[[Sequence[AgendaRow]], object],
        later: Callable[[float, Callable[[], object]], object] = run_later,
    ) -> None:
        self._agenda, self._clock, self._remove, self._later = agenda, clock, remove, later
        self._hot: dict[str, _Hot] = {}
        self._lock = Lock()

    @contextmanager
    def __call__(self, home: str) -> Iterator[None]:
        """Enter around the write of a home and its sends. An exception leaves the note to the tick."""
        hot = self._take(home)
        try:
            yield
        except BaseException:
            hot.is_needed = True
            raise
        finally:
            with self._lock:
                hot.users -= 1

    def sweep(self) -> None:
        """Remove the notes that serve no longer."""
        if self._drop(lambda hot: not self._serves(hot)):
            self._later(SERVES_FOR.total_seconds(), self.sweep)

    def close(self) -> None:
        """Remove all notes that nobody needs: what they lead to is sent."""
        self._drop(lambda _hot: True)

    def _drop(self, is_old: Callable[[_Hot], bool]) -> bool:
        """Remove old notes that nobody uses or needs, and return whether others are left."""
        with self._lock:
            old = [home for home, hot in self._hot.items() if is_old(hot) and not hot.users]
            gone = [self._hot.pop(home) for home in old]
            is_more = bool(self._hot)
        self._remove([hot.note for hot in gone if not hot.is_needed])
        return is_more

    def _take(self, home: str) -> _Hot:
        with self._lock:
            hot = self._hot.get(home)
            if hot is not None and self._serves(hot):
                hot.users += 1
                return hot
        now = self._clock.now()
        (new,) = notes_of(shard_of_home(home, {}), {home: 0}, now)
        note = replace(new, due=now + DUE_AFTER)
        note = replace(note, etag=self._agenda.write([note])[0].etag)
        with self._lock:
            former, is_first = self._hot.get(home), not self._hot
            hot = self._hot[home] = _Hot(note, users=1)
        if former is not None and not former.is_needed and not former.users:
            self._remove([former.note])
        if is_first:
            self._later(SERVES_FOR.total_seconds(), self.sweep)
        return hot

    def _serves(self, hot: _Hot) -> bool:
        return self._clock.now() < hot.note.since + SERVES_FOR


State = TypeVar("State")
Asked = TypeVar("Asked")


class Receiver(Generic[State, Asked]):
    """Receives the commands to one kind of aggregate. Several threads may use it."""

    def __init__(
        self,
        homes: Homes,
        mementos: Mementos[State],
        writer: Writer[State, Asked],
        notes: HotNotes,
        outgoing: Outgoing,
    ) -> None:
        """Take the writer, and the warm states that it writes by."""
        self._homes, self._mementos, self._writer = homes, mementos, writer
        self._notes, self._outgoing = notes, outgoing

    def receive(self, home: str, commands: Sequence[Asked]) -> Saved:
        """Decide the commands in turn, save their events, and send them. Return the outcome of each.

        Raises ConflictError, NotPublishedError, or StorageUnavailableError: then the same commands come again.
        """
        with self._notes(home):
            saved = self._writer.save(home, commands)
            events = [event for outcome in saved.outcomes for event in outcome.events]
            self._outgoing.send([self._unsent(home, saved.head, events)])
            # The next commit writes it, so that another process need not send it again.
            self._mementos.note_published(home, self._outgoing.find_published(home, saved.head.published))
        return saved

    def find_noted(self, home: str, id_: str) -> str | None:
        """Return the content that came with an outside id before, or None. No state has these ids."""
        return self._homes.find_noted(home, id_)

    def _unsent(self, home: str, head: Head, new: Sequence[Event]) -> Unsent:
        published = self._outgoing.find_published(home, head.published)
        events = new
        if [event.version for event in new] != list(range(published + 1, head.version + 1)):
            # Earlier ones were not sent, or another writer's are between ours. Their number alone may be the same.
            # What another writer has added since is above this range, and its own to send.
            events = [event for event in self._homes.read_tail(home, published) if event.version <= head.version]
        return Unsent(home, head.version, published, tuple(events))
