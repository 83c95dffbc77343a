"""Rooms that share one work queue, in virtual time. Whose chunk is put, and when, `shared.pipeline.fair` itself decides.

Tasks take the messages of one queue in their order. A feeder puts as many as the window has room for. Its own requests take
no time. A chunk takes its seconds, more or less by a third. One that fails hides for half a minute and comes again. The
feeder learns of it by reports that are up to ten seconds old.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from datetime import timedelta

from shared.concurrency import Fleet, FleetPace, Gauge, Shares
from shared.concurrency.fleet import LOOK_EVERY, Worker
from shared.dequeue import AGAIN_AFTER
from shared.pipeline.fair import LEAST_WINDOW, SHORTEST_REST, Ring, WaitingJob, agree_terms, next_rest, next_window
from tests.gate.conftest import NOON, ManualClock

#: A chunk takes at most so much more or less than its seconds.
SPREAD = 0.3
#: Seconds from the drop of a submission until its job waits: hint, plan and ready row.
ACCEPTED_IN = 1.3
#: Messages that a peek shows.
PEEKED = 32
#: Processes of the fleet. Each reports every ten seconds, at a moment of its own.
PROCESSES = 8


class Turns:
    """The queue, the tasks and the feeder of one fleet."""

    def __init__(self, tasks, seconds, *, shares=None, failing=()):
        self.tasks, self.seconds = tasks, seconds
        self.shares, self.failing = shares or Shares(), frozenset(failing)
        self.time, self.chance, self._due, self._order = 0.0, random.Random(29), [], itertools.count()
        self.queue, self.rooms, self.in_work, self.hidden = deque(), {}, 0, 0
        self.ring, self.window, self._depth, self._depth_at, self._put = Ring(), LEAST_WINDOW, 0, 0.0, 0
        self._seen, self._clock = deque([0] * PROCESSES, PROCESSES), ManualClock()
        self._gauge, self._fleet = Gauge(self._clock, cpu_seconds=lambda: 0.0), Fleet()
        #: Seconds of work by room, also of chunks that failed; of each job of one chunk: when it ended.
        self.served, self.ended = Counter(), {}
        self._feed()
        self._report()

    def flood(self, room, chunks=10**9, seconds=None):
        """Have a job with many chunks wait."""
        self.rooms.setdefault(room, []).append(WaitingJob(f"flood of {room}", chunks, 0, seconds or self.seconds))

    def probe(self, room, name):
        """Drop a job of one chunk, which waits a moment later."""
        self._at(ACCEPTED_IN, lambda: self.rooms.setdefault(room, []).append(WaitingJob(name, 1, 0, self.seconds)))

    def run(self, seconds):
        """Let so much time pass."""
        until = self.time + seconds
        while self._due[0][0] <= until:
            self.time, _, act = heapq.heappop(self._due)
            act()
        self.time = until

    def _at(self, seconds, act):
        heapq.heappush(self._due, (self.time + seconds, next(self._order), act))

    def _feed(self):
        depth, visible = len(self.queue) + self.in_work + self.hidden, min(PEEKED, len(self.queue))
        ended = max(0, self._depth + self._put - depth) / max(SHORTEST_REST, self.time - self._depth_at)
        pace, resting = (
            FleetPace(self.tasks, sum(self._seen) // PROCESSES, self.seconds),
            self._fleet.resting(self._now()),
        )
        rest = next_rest(1, pace)
        self.window = next_window(self.window, visible=visible, ended=ended, pace=pace, rest=rest)
        self.rooms = {room: left for room, jobs in self.rooms.items() if (left := [one for one in jobs if one.left])}
        terms = agree_terms(self.rooms, self.shares, self.window, resting, {})
        jobs = {one.job: (room, one.seconds) for room, found in self.rooms.items() for one in found}
        free = self.window - depth + sum(resting.values())
        self._depth, self._depth_at, self._put = depth, self.time, 0
        for choice in self.ring.choose(self.rooms, free, terms):
            self._put += choice.chunks
            self.queue.extend([(choice.job, *jobs[choice.job])] * choice.chunks)
        self._work()
        self._at(rest, self._feed)

    def _work(self):
        while self.queue and self.in_work < self.tasks:
            job, room, seconds = self.queue.popleft()
            self.in_work += 1
            taken = seconds * self.chance.uniform(1 - SPREAD, 1 + SPREAD)
            self._at(taken, lambda one=(job, room, seconds), taken=taken: self._end(one, taken))

    def _end(self, chunk, taken):
        job, room, _ = chunk
        self.in_work -= 1
        self.served[room] += taken
        self.ended[job] = self.time
        if room in self.failing:
            self.hidden += 1
            self._gauge.note_failed(room, self._now() + timedelta(seconds=AGAIN_AFTER))
            self._at(AGAIN_AFTER, lambda: self._come_again(chunk))
        self._work()

    def _come_again(self, chunk):
        self.hidden -= 1
        self.queue.append(chunk)
        self._work()

    def _report(self):
        self._clock.advance(seconds=(self._now() - self._clock.now()).total_seconds())
        counted, now = self._gauge.read(), self._now()
        report = Worker(name="w", at=now, started_at=now, in_flight=0, done=0, busy=0.0, resting=counted.resting)
        self._fleet = Fleet(workers=[report])
        self._seen.append(self.in_work)
        self._at(LOOK_EVERY / PROCESSES, self._report)

    def _now(self):
        return NOON + timedelta(seconds=self.time)
