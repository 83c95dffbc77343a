"""Whose chunk is put next, and how many may be put: decided over plain data, without a request.

Round robin over rooms, in seconds of work. Each turn gives a room a quantum, and each chunk is charged with its seconds. A
room is served while it is not in debt, so one with long chunks waits for more turns. A room that comes new is
served before the ring, for one quantum, and joins its end. One that comes back before all others had their turn is not new.
Debts end with idleness.

Inside a room two jobs alternate: the oldest one, and the oldest of which hardly anything was put. So small jobs pass a
large one, and a thousand equal jobs still end one after the other.

The window is the number of messages that the work queues may hold while jobs wait. It follows what the front of the queues
shows, and not the decision alone: of a hundred decided tasks perhaps fourteen run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil
from typing import Final, NamedTuple

from shared.concurrency import FleetPace

#: Seconds of work of one turn of a room. The same for all rooms: in a room's own chunks it would favour long ones.
QUANTUM: Final = 0.5
#: A job of which fewer chunks were put is a small one until now.
FEW: Final = 8


@dataclass(slots=True)
class WaitingJob:
    """A job that waits for its turn: its chunks that are left and that were put, and the seconds of one."""

    job: str
    left: int
    put: int
    seconds: float


class Choice(NamedTuple):
    """So many chunks of a job, to be put now."""

    job: str
    chunks: int


@dataclass(slots=True)
class Ring:
    """The turns of the rooms. Each choice goes on where the one before it stopped."""

    _ring: list[str] = field(default_factory=list)
    _new: list[str] = field(default_factory=list)
    _credit: dict[str, float] = field(default_factory=dict)
    #: Whether the room at the front got the quantum of its present turn.
    _is_begun: bool = False
    #: Of each room that was new: the rooms that must have had their turn before it is new again.
    _known: dict[str, set[str]] = field(default_factory=dict)
    #: Of each room: whether its next chunk is one of a small job.
    _takes_small: dict[str, bool] = field(default_factory=dict)

    def choose(self, rooms: Mapping[str, Iterable[WaitingJob]], free: int) -> list[Choice]:
        """Return at most so many chunks to put, in their order. `rooms`: the jobs of each room, the oldest first.

        Counts down what is left of the jobs.
        """
        listed = {room: [one for one in jobs if one.left] for room, jobs in rooms.items()}
        left = {room: jobs for room, jobs in listed.items() if jobs}
        self._join(left)
        chosen: list[str] = []
        while left and len(chosen) < free:
            room = self._front()
            if not self._is_begun:
                self._credit[room] = self._credit.get(room, 0.0) + QUANTUM
                self._is_begun = True
            while room in left and self._credit[room] > 0 and len(chosen) < free:
                chosen.append(self._take(room, left))
            if room not in left or self._credit[room] <= 0:
                self._end_turn(room, has_more=room in left)
        return [Choice(job, len(list(chunks))) for job, chunks in groupby(chosen)]

    def _front(self) -> str:
        return next(iter([*self._new, *self._ring]), "")

    def _join(self, left: Mapping[str, object]) -> None:
        """Take in the rooms that came, and take out those that have nothing left."""
        front = self._front()
        self._new = [room for room in self._new if room in left]
        self._ring = [room for room in self._ring if room in left]
        self._credit = {room: credit for room, credit in self._credit.items() if room in left}
        for others in self._known.values():
            others.intersection_update(self._ring)
        self._known = {room: others for room, others in self._known.items() if others - {room}}
        came = [room for room in left if room not in self._new and room not in self._ring]
        self._ring += [room for room in came if room in self._known]
        self._new += [room for room in came if room not in self._known]
        self._is_begun = self._is_begun and front == self._front()

    def _take(self, room: str, left: dict[str, list[WaitingJob]]) -> str:
        jobs, takes_small = left[room], self._takes_small.get(room, False)
        self._takes_small[room] = not takes_small
        job = next((one for one in jobs if one.put < FEW), jobs[0]) if takes_small else jobs[0]
        self._credit[room] -= job.seconds
        job.left, job.put = job.left - 1, job.put + 1
        if not job.left:
            jobs.remove(job)
        if not jobs:
            del left[room]
        return job.job

    def _end_turn(self, room: str, *, has_more: bool) -> None:
        self._is_begun = False
        for others in self._known.values():
            others.discard(room)
        if room in self._new:
            self._new.remove(room)
            self._known[room] = set(self._ring)
        else:
            self._ring.remove(room)
        if has_more:
            self._ring.append(room)
        else:
            # Debts end with idleness: a room that comes back would wait for an old debt.
            self._credit.pop(room, None)
            self._takes_small.pop(room, None)


#: The window is never smaller, and a change is never smaller than half of it.
LEAST: Final = 32
#: With fewer messages than this at the front of the queues, tasks may find none. `LEAST` of them are more than they need.
HUNGRY: Final = 8
#: The rest between two rounds of the feeder. Its requests are a fiftieth of those of the chunks, of three requests each.
SHORTEST_REST, LONGEST_REST, OF_THE_CHUNKS = 0.5, 2.0, 17.0


def next_window(window: int, *, visible: int, ended: float, pace: FleetPace) -> int:
    """Return the window by the messages at the front of the queues, and by how many ended in a second."""
    if visible < HUNGRY:
        grown = window * 2 if not visible else window + max(LEAST // 2, window // 2)
        return max(LEAST, min(grown, ceil(max(1, pace.decided) * max(1.75, 1 + 1 / pace.chunk))))
    if visible >= LEAST:
        return max(LEAST, min(window, ceil(ended * (pace.chunk + 1.0) * 1.2)))
    return window


def next_rest(queues: int, pace: FleetPace) -> float:
    """Return the seconds until the feeder's next round, which reads each queue twice."""
    cheap = OF_THE_CHUNKS * (1 + 2 * queues) * pace.chunk / max(1, pace.in_work)
    return min(max(SHORTEST_REST, cheap), max(LONGEST_REST, pace.chunk / 2))


def share_of(window: int, rooms: int) -> int:
    """Return a room's part of the window."""
    return max(1, window // max(1, rooms))


def may_be_fed(resting: Mapping[str, int], rooms: Sequence[str], window: int) -> list[str]:
    """Return the rooms that get something new: not those whose messages wait after failures, as many as their part."""
    part = share_of(window, len(rooms))
    return [room for room in rooms if resting.get(room, 0) <= part]
