"""Held orders on their way: from the rows of a gate to the queue `starts`, fifty in a message, and into their homes.

One note guards the orders of a message, from before it is sent until they are started. So a bus that forgets the message
strands none of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.clock import Clock
from shared.decoding import convert, make_decoder
from shared.gate import HeldEntry
from shared.messaging import BusPublisher, Command, bundle_parcel, decode_commands
from shared.processes import Agenda, Case, Note, Removals, Runtime, notes_of
from shared.registration.order_messages import StartOrder, incoming
from shared.registration.order_process import believe_held
from shared.registration.order_turn import OrderProcessState
from shared.registration.routes import STARTS_QUEUE

#: Orders of one message, and of one note.
MOST_STARTS: Final = 50
_decoder: Final = make_decoder(Command)


class Starts:
    """Sends and takes the starts of held orders."""

    def __init__(
        self,
        runtime: Runtime[OrderProcessState],
        agenda: Agenda,
        publisher: BusPublisher,
        removals: Removals,
        clock: Clock,
    ) -> None:
        self._runtime, self._agenda, self._publisher = runtime, agenda, publisher
        self._removals, self._clock = removals, clock

    def send(self, entries: Sequence[HeldEntry]) -> None:
        """Send the starts of these rows. They may be deleted afterwards. Raises NotPublishedError."""
        commands = [_decoder.decode(entry.message.encode()) for entry in entries]
        parts = [commands[begin : begin + MOST_STARTS] for begin in range(0, len(commands), MOST_STARTS)]
        now = self._clock.now()
        # A note of the part's own, whose key travels with each command.
        notes = [notes_of(0, {command.to: 0 for command in part}, now)[0] for part in parts]
        self._agenda.write(notes)
        self._publisher.send(
            [
                bundle_parcel(STARTS_QUEUE, [_add_note(command, note) for command in part])
                for part, note in zip(parts, notes, strict=True)
            ]
        )

    def take(self, bodies: Sequence[bytes]) -> None:
        """Start the orders of these messages. Raises the first error: then the messages come again."""
        bundles = [decode_commands(body) for body in bodies]
        handled = self._runtime.handle([self._case(command) for bundle in bundles for command in bundle])
        handled.check()
        self._removals([_note_of(command) for bundle in bundles for command in bundle[:1]])

    def _case(self, command: Command) -> Case:
        start, now = convert(command.body["start"], StartOrder), self._clock.now()
        message = incoming(start, now, command.id)
        if not command.body["is_published"]:
            return Case(home=command.to, message=message)
        # All of it is known, and sent: it is written without being read. If it was changed since, that is a conflict.
        return Case(home=command.to, message=message, believed=believe_held(start, now))


def _add_note(command: Command, note: Note) -> Command:
    return replace(command, body={**command.body, "note": note.id, "due": note.due.isoformat()})


def _note_of(command: Command) -> Note:
    """Return the note of a message, by its key alone."""
    due = datetime.fromisoformat(command.body["due"])
    return Note(0, due, command.body["note"], {}, due)
