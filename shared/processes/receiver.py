"""Receives commands to aggregates: note, decide all on one state, save, send what happened.

What comes again changes nothing, and sends what its home has unsent.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from shared.eventsourcing import Event, Head, Homes, Mementos, Saved, Writer
from shared.processes.hot_notes import HotNotes
from shared.processes.outgoing import Outgoing, Unsent

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
            events = self._homes.read_tail(home, published)
        return Unsent(home, head.version, published, tuple(events))
