"""Whose chunk is put next, and how many may be put: decided over plain data, without a request.

Round robin over rooms, in seconds of work. Each turn gives a room a quantum times its weight, and each chunk is charged
with its seconds. A room is served while it is not in debt, so one with long chunks waits for more turns. A room that
comes new is served before the ring, for one quantum, and joins its end. One that comes back before all others had their
turn is not new. Debts end with idleness. A room that gets nothing now keeps its place in the ring.

Inside a room two jobs alternate: the oldest one, and the oldest of which hardly anything was put. So small jobs pass a
large one, and a thousand equal jobs still end one after the other.

Urgent jobs are put before the ring, as far as their room may run ahead. A part of each of its later quanta pays for that,
also after idleness. So a deadline moves a room's work in time, and gives it no more.

The window is the number of messages that the work queues may hold while jobs wait. It follows what the front of the queues
shows, and not the decision alone: of a hundred decided tasks perhaps fourteen run.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil, inf
from typing import Final, NamedTuple

from shared.concurrency import FleetPace, Shares
from shared.dequeue import AHEAD

#: Seconds of work of one turn of a room. The same for all rooms: in a room's own chunks it would favour long ones.
QUANTUM: Final = 0.5
#: Seconds over which it is summed up what each room was served.
MINUTE: Final = 60.0
#: A job of which fewer chunks were put is a small one until now.
FEW: Final = 8


@dataclass(slots=True)
class WaitingJob:
    """A job that waits for its turn: its chunks that are left and that were put, and the seconds of one."""

    job: str
    left: int
    put: int
    seconds: float
    #: Whether it is predicted to miss its deadline, so that it may run ahead.
    is_urgent: bool = False


class Terms(NamedTuple):
    """How a room takes part in one choice."""

    weight: int = 1
    #: The most of its chunks that may be put now.
    most: float = inf
    #: The chunks that its part of the window has.
    part: int = 0
    #: The share of its part that its urgent jobs may run ahead, and of its quantum that pays for that.
    urgent: float = 0.0


_USUAL: Final = Terms()


class Choice(NamedTuple):
    """So many chunks of a job, to be put now."""

    job: str
    chunks: int
    #: Whether their room came beside others: tasks take them before what is on the queues already.
    is_first: bool = False


@dataclass(slots=True)
class Ring:
    """The turns of the rooms. Each choice goes on where the one before it stopped."""

    _ring: list[str] = field(default_factory=list)
    _new: list[str] = field(default_factory=list)
    _credit: dict[str, float] = field(default_factory=dict)
    #: The seconds of work that each room ran ahead and has not paid for.
    _ahead: dict[str, float] = field(default_factory=dict)
    #: The room that got the quantum of its present turn.
    _turn: str | None = None
    #: Of each room that was new: the rooms that must have had their turn before it is new again.
    _known: dict[str, set[str]] = field(default_factory=dict)
    #: Whether jobs of several rooms wait.
    _has_others: bool = False
    #: Of each room: whether its next chunk is one of a small job.
    _takes_small: dict[str, bool] = field(default_factory=dict)

    def choose(
        self, rooms: Mapping[str, Iterable[WaitingJob]], free: int, terms: Mapping[str, Terms] | None = None
    ) -> list[Choice]:
        """Return at most so many chunks to put, in their order. `rooms`: the jobs of each room, the oldest first.

        Counts down what is left of the jobs. `terms`: of rooms that do not take part like all others.
        """
        listed = {room: [one for one in jobs if one.left] for room, jobs in rooms.items()}
        choosing = _Choosing({room: jobs for room, jobs in listed.items() if jobs}, free, terms or {})
        self._join(choosing.left)
        self._has_others = len(self._new) + len(self._ring) > 1
        if self._has_others:
            # A chunk of each that came goes beside a full window. None comes anew before the others had their turn.
            choosing.free = max(free, sum(map(choosing.has_room, self._new)))
        self._take_ahead(choosing)
        while (
            choosing.is_open and (room := next(filter(choosing.may_take, (*self._new, *self._ring)), None)) is not None
        ):
            if self._turn != room:
                self._begin_turn(room, choosing.terms_of(room))
            while choosing.may_take(room) and self._credit[room] > 0:
                self._take(room, choosing)
            if not choosing.has_room(room) or self._credit[room] <= 0:
                self._end_turn(room, has_more=room in choosing.left)
        return [Choice(job, len(list(chunks)), is_first) for (job, is_first), chunks in groupby(choosing.chosen)]

    def _join(self, left: Mapping[str, Iterable[WaitingJob]]) -> None:
        """Take in the rooms that came, and take out those that have nothing left."""
        self._new = [room for room in self._new if room in left]
        self._ring = [room for room in self._ring if room in left]
        self._credit = {room: credit for room, credit in self._credit.items() if room in left}
        for others in self._known.values():
            others.intersection_update(self._ring)
        self._known = {room: others for room, others in self._known.items() if others - {room}}
        came = [room for room in left if room not in self._new and room not in self._ring]
        self._ring += [room for room in came if room in self._known]
        self._new += [room for room in came if room not in self._known]
        # A flood that has not had its turn yet is new too.
        work = {room: sum(job.left * job.seconds for job in left[room]) for room in self._new}
        self._new.sort(key=lambda room: (room != self._turn, work[room]))

    def _take_ahead(self, choosing: "_Choosing") -> None:
        """Take chunks of urgent jobs, as far as their rooms may run ahead."""
        for room in (*self._new, *self._ring):
            terms = choosing.terms_of(room)
            for job in [one for one in choosing.left[room] if one.is_urgent]:
                most = terms.urgent * terms.part * job.seconds
                while job.left and choosing.may_take(room) and self._ahead.get(room, 0.0) < most:
                    self._ahead[room] = self._ahead.get(room, 0.0) + job.seconds
                    choosing.take(room, job)

    def _begin_turn(self, room: str, terms: Terms) -> None:
        quantum, ahead = QUANTUM * terms.weight, self._ahead.pop(room, 0.0)
        paid = min(ahead, quantum * terms.urgent)
        if ahead > paid:
            self._ahead[room] = ahead - paid
        self._credit[room] = self._credit.get(room, 0.0) + quantum - paid
        self._turn = room

    def _take(self, room: str, choosing: "_Choosing") -> None:
        jobs, takes_small = choosing.left[room], self._takes_small.get(room, False)
        self._takes_small[room] = not takes_small
        job = next((one for one in jobs if one.put < FEW), jobs[0]) if takes_small else jobs[0]
        self._credit[room] -= job.seconds
        choosing.take(room, job, is_first=self._has_others and room in self._new)

    def _end_turn(self, room: str, *, has_more: bool) -> None:
        self._turn = None
        for others in self._known.values():
            others.discard(room)
        if room in self._new:
            self._new.remove(room)
            self._known[room] = set(self._ring)
        else:
            self._ring.remove(room)
        if has_more:
            self._ring.append(room)
            # What a room may not use now, it has not saved for later.
            self._credit[room] = min(0.0, self._credit[room])
        else:
            # Debts end with idleness: a room that comes back would wait for an old debt.
            self._credit.pop(room, None)
            self._takes_small.pop(room, None)


@dataclass(slots=True)
class _Choosing:
    """One choice under way: the jobs that are left, and the chunks that were chosen."""

    left: dict[str, list[WaitingJob]]
    free: int
    terms: Mapping[str, Terms]
    #: The job of each chunk, and whether its room has just come.
    chosen: list[tuple[str, bool]] = field(default_factory=list)
    _taken: Counter[str] = field(default_factory=Counter)

    @property
    def is_open(self) -> bool:
        """True while more may be chosen."""
        return len(self.chosen) < self.free

    def terms_of(self, room: str) -> Terms:
        """Return the terms of a room."""
        return self.terms.get(room, _USUAL)

    def has_room(self, room: str) -> bool:
        """Check whether the room has more, and is below its own limit."""
        return room in self.left and self._taken[room] < self.terms_of(room).most

    def may_take(self, room: str) -> bool:
        """Check whether a chunk of this room may be chosen now."""
        return self.is_open and self.has_room(room)

    def take(self, room: str, job: WaitingJob, *, is_first: bool = False) -> None:
        """Choose the next chunk of a job."""
        self.chosen.append((job.job, is_first))
        self._taken[room] += 1
        job.left, job.put = job.left - 1, job.put + 1
        if not job.left:
            self.left[room].remove(job)
        if not self.left[room]:
            del self.left[room]


@dataclass(slots=True)
class Served:
    """The seconds of work that each room was served in the last minute."""

    _puts: deque[tuple[float, str, float]] = field(default_factory=deque)

    def add(self, now: float, room: str, seconds: float) -> None:
        """Add what was put just now."""
        self._puts.append((now, room, seconds))

    def sum_up(self, now: float) -> dict[str, float]:
        """Return the seconds of each room."""
        while self._puts and self._puts[0][0] < now - MINUTE:
            self._puts.popleft()
        found: dict[str, float] = {}
        for _, room, seconds in self._puts:
            found[room] = found.get(room, 0.0) + seconds
        return {room: round(seconds, 3) for room, seconds in found.items()}


#: The window is never smaller, and a change is never smaller than half of it.
LEAST_WINDOW: Final = 32
#: With fewer messages than this at the front of the queues, tasks may find none. `LEAST_WINDOW` of them are more than they need.
HUNGRY: Final = 8
#: The rest between two rounds of the feeder. Its requests are a fiftieth of those of the chunks, of three requests each.
SHORTEST_REST, LONGEST_REST, OF_THE_CHUNKS = 0.5, 2.0, 17.0


def next_window(window: int, *, visible: int, ended: float, pace: FleetPace, rest: float) -> int:
    """Return the window by the messages at the front of the queues, and by how many ended in a second.

    It lasts until the feeder comes again after its rest. New processes have reported no seconds of a chunk. While their
    tasks find nothing at the front, it grows by the chunks that ended.
    """
    lasts = max(1.0, rest)
    if visible < HUNGRY:
        grown = window * 2 if not visible else window + max(LEAST_WINDOW // 2, window // 2)
        most = ceil(max(1, pace.decided) * max(1.75, 1 + lasts / pace.chunk))
        seen = min(4 * window, ceil(2 * ended * lasts)) if pace.seconds is None else 0
        return max(LEAST_WINDOW, min(grown, most), seen)
    if visible >= LEAST_WINDOW:
        return max(LEAST_WINDOW, min(window, ceil(ended * (pace.chunk + lasts) * 1.2)))
    return window


def count_hidden(resting: int, *, depth: int, visible: int, pace: FleetPace) -> int:
    """Return how many messages hide after a failure: the `resting` ones that are reported, as far as the queues agree.

    A report may be twenty seconds old, and counts messages that have come again meanwhile. But those that are not at the
    front are in the hands of tasks or hide, and tasks have one message each, or those of a second.
    """
    most = depth - visible - min(pace.in_work, pace.decided)
    least = depth - visible - ceil(pace.decided * max(1.0, AHEAD / pace.chunk)) if visible < HUNGRY else 0
    return max(0, least, min(resting, most))


def spread_hidden(hidden: int, resting: Mapping[str, int]) -> dict[str, int]:
    """Return how many messages may hide by room: one with failures may have all that no report tells of."""
    unreported = max(0, hidden - sum(resting.values()))
    return {room: number + unreported for room, number in resting.items() if number}


def next_rest(queues: int, pace: FleetPace, *, is_dry: bool = False) -> float:
    """Return the seconds until the feeder's next round, which reads each queue twice. `is_dry`: tasks wait for it."""
    if is_dry:
        return SHORTEST_REST
    cheap = OF_THE_CHUNKS * (1 + 2 * queues) * pace.chunk / max(1, pace.in_work)
    return min(max(SHORTEST_REST, cheap), max(LONGEST_REST, pace.chunk / 2))


def next_look(pace: FleetPace) -> float:
    """Return the seconds until the feeder checks again whether a room has come, by one request."""
    # Without a report, nothing is known of the chunks.
    cheap = OF_THE_CHUNKS * pace.chunk / pace.in_work if pace.in_work else 0.0
    return min(max(SHORTEST_REST, cheap), LONGEST_REST)


def part_of(window: int, weight: int, weights: int) -> int:
    """Return the part of the window that a room has, by its weight and the sum of all."""
    return max(1, window * weight // max(1, weights))


def agree_terms(
    rooms: Iterable[str], shares: Shares, window: int, resting: Mapping[str, int], beyond: Mapping[str, int]
) -> dict[str, Terms]:
    """Return the terms of rooms in which jobs wait.

    A room of which more messages wait after failures than its part of the window gets nothing new. `resting` counts them.
    `beyond` counts the chunks of a room that were put and have not ended.
    """
    named = list(rooms)
    weights = sum(shares.of(room).weight for room in named)
    found = {}
    for room in named:
        share = shares.of(room)
        part, most = part_of(window, share.weight, weights), inf
        if share.most is not None:
            most = max(0, share.most - beyond.get(room, 0))
        if resting.get(room, 0) > part:
            most = 0
        found[room] = Terms(share.weight, most, part, shares.urgent)
    return found
