"""Reads the watermarks of the work queues: one request per queue, and at most once per tick.

A tick without a due job reads none. While a watermark is unknown, a pointer keeps since when: its due time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from azure.storage.queue import QueueClient

from shared.azure import date_of, expecting_an_answer, looking
from shared.clock import Clock
from shared.ledger import FRONT, Fronted, Fronts, Job, Watermark, read_watermark
from shared.pending import FRONT_POINTER, PendingTable, Pointer

#: Seconds for which a reading counts: less than from tick to tick, and longer than a tick follows jobs.
_COUNTS_FOR: Final = 45.0
#: Jobs that a reading's tick looks at for nothing. The bound keeps the cost of a backlog apart from its length.
FRUITLESS: Final = 10


@dataclass(slots=True)
class FrontReading:
    """The watermarks of one tick, and how many more jobs it may look at for nothing."""

    fronts: Fronts
    at: float
    fruitless_left: int = FRUITLESS


@dataclass(slots=True)
class QueueFronts:
    """The fronts of all work queues. One per process."""

    queues: Sequence[QueueClient]
    pending: PendingTable
    clock: Clock
    #: The urgent lane. Its front is read only for a job on it. None: no task asks it.
    lane: QueueClient | None = None
    _lane: FrontReading | None = field(default=None, init=False)
    _reading: FrontReading | None = field(default=None, init=False)
    _unknown: dict[str, list[Pointer]] = field(default_factory=dict, init=False)

    def read(self) -> FrontReading:
        """Return the reading of this tick, and make it first if it is too old."""
        now = self.clock.monotonic()
        if self._reading is None or now - self._reading.at >= _COUNTS_FOR:
            names = [str(queue.queue_name) for queue in self.queues]
            # First as unknown: if storage does not answer, not every due job should ask it in turn.
            self._reading = FrontReading(Fronts(dict.fromkeys(names, Watermark(None)), len(names)), now)
            known = {name: notes for name, notes in self._unknown.items() if name != self._lane_name}
            self._unknown = {name: notes for name, notes in self._unknown.items() if name == self._lane_name}
            marks = {name: self._read(name, queue, known) for name, queue in zip(names, self.queues, strict=True)}
            self._reading = FrontReading(Fronts(marks, len(names)), now)
            for note in chain.from_iterable(known[name] for name in known.keys() - marks.keys()):
                self.pending.remove(note)
        return self._reading

    @property
    def _lane_name(self) -> str | None:
        return str(self.lane.queue_name) if self.lane else None

    def of(self, job: Job) -> Fronts:
        """Return the watermarks of the queues that may have messages of this job."""
        name = self._lane_name
        if self.lane is None or name is None or job.lane != name:
            return self.read().fronts
        now = self.clock.monotonic()
        if self._lane is None or now - self._lane.at >= _COUNTS_FOR:
            known, self._unknown = self._unknown, {}
            self._lane = FrontReading(Fronts({name: Watermark(None)}, 1, name), now)
            self._lane = FrontReading(Fronts({name: self._read(name, self.lane, known)}, 1, name), now)
        return self._lane.fronts

    def recall(self, pointers: Sequence[Pointer]) -> None:
        """Take the pointers that say since when a watermark is unknown. Must come before the jobs of a tick."""
        if pointers:
            # Also without a due job: a note must not outlast what it notes.
            self._unknown = {one.id: [note for note in pointers if note.id == one.id] for one in pointers}
            self._reading = None
            self.read()

    def _read(self, name: str, queue: QueueClient, known: dict[str, list[Pointer]]) -> Watermark:
        replies: list[Any] = []
        with expecting_an_answer(f"peek into queue {name!r}"), looking() as look:
            found = queue.peek_messages(FRONT, raw_response_hook=replies.append)
            look.has_found = bool(found)
        now = self.clock.of_reply(date_of(replies[-1]) if replies else None)
        front = [Fronted(one.inserted_on or now, one.dequeue_count or 0) for one in found]
        notes = known.get(name, [])
        mark = read_watermark(front, now, min((note.due for note in notes), default=None))
        is_known = read_watermark(front, now).moment is not None
        if is_known:
            for note in notes:
                self.pending.remove(note)
        elif not notes:
            self.pending.add(Pointer(FRONT_POINTER, now, name))
        return mark
