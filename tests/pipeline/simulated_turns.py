"""Rooms that share one work queue, in virtual time. Whose chunk is put, and when, `shared.pipeline.feeding.fair` itself decides.

Tasks take the messages of one queue in their order. A feeder puts as many as the window has room for. Its own requests take
no time. A chunk takes its seconds, more or less by a third. One that fails hides for half a minute and comes again.

A job of one chunk has a finish, which a task takes next: the process that put it remembers it. With `is_last` it waits behind
the chunks of others.

Each process reports every ten seconds what failed there, and the feeder reads the reports as often. So it learns of a
failure up to twenty seconds later.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from datetime import timedelta

from shared.concurrency import Fleet, FleetPace, Gauge, Shares
from shared.concurrency.fleet import LOOK_EVERY, Worker
from shared.dequeue.work_queue import AGAIN_AFTER
from shared.pipeline.feeding.fair import (
    LEAST_WINDOW,
    SHORTEST_REST,
    Ring,
    WaitingJob,
    agree_terms,
    count_hidden,
    next_rest,
    next_window,
    spread_hidden,
)
from tests.gate.conftest import NOON, ManualClock

#: A chunk takes at most so much more or less than its seconds.
SPREAD = 0.3
#: Seconds from the drop of a submission until its job waits: hint, plan and ready row.
ACCEPTED_IN = 1.3
#: Seconds from the end of a chunk until its finish is put, and of the finish itself.
CREDITED_IN, FINISH = 0.12, 0.05
#: Messages that a peek shows.
PEEKED = 32
#: Processes of the fleet. Each reports every ten seconds, at a moment of its own.
PROCESSES = 2


class Turns:
    """The queue, the tasks and the feeder of one fleet."""

    def __init__(self, tasks, seconds, *, shares=None, failing=(), is_last=False):
        self.tasks, self.seconds, self._is_last = tasks, seconds, is_last
        self.shares, self.failing = shares or Shares(), frozenset(failing)
        self.time, self.chance, self._due, self._order = 0.0, random.Random(29), [], itertools.count()
        self.queue, self.rooms, self.in_work, self.hidden = deque(), {}, 0, 0
        self.ring, self.window, self._depth, self._depth_at, self._put = Ring(), LEAST_WINDOW, 0, 0.0, 0
        self._clock = ManualClock()
        self._gauges = [Gauge(self._clock, cpu_seconds=lambda: 0.0) for _ in range(PROCESSES)]
        self._reports, self._fleet = {}, Fleet()
        #: Seconds of work by room, also of chunks that failed; of each job of one chunk: when it ended.
        self.served, self.ended, self._probes = Counter(), {}, set()
        self._feed()
        for number in range(PROCESSES):
            self._at(number * LOOK_EVERY / PROCESSES, lambda number=number: self._report(number))
        self._at(LOOK_EVERY / 3, self._read)

    def flood(self, room, chunks=10**9, seconds=None):
        """Have a job with many chunks wait."""
        self.rooms.setdefault(room, []).append(WaitingJob(f"flood of {room}", chunks, 0, seconds or self.seconds))

    def probe(self, room, name):
        """Drop a job of one chunk, which waits a moment later."""
        self._probes.add(name)
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
        in_work, resting = sum(one.in_flight for one in self._fleet.workers), self._fleet.resting(self._now())
        pace = FleetPace(self.tasks, in_work, self.seconds)
        rest = next_rest(1, pace)
        self.window = next_window(self.window, visible=visible, ended=ended, pace=pace, rest=rest)
        self.rooms = {room: left for room, jobs in self.rooms.items() if (left := [one for one in jobs if one.left])}
        failed = sum(resting.values())
        hidden = count_hidden(failed, depth=depth, visible=visible, pace=pace)
        terms = agree_terms(self.rooms, self.shares, self.window, spread_hidden(hidden, resting), {})
        jobs = {one.job: (room, one.seconds) for room, found in self.rooms.items() for one in found}
        free = self.window - depth + hidden
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
        if job in self._probes:
            self._probes.remove(job)
            self._at(CREDITED_IN, lambda: self._finish(job, room))
        else:
            self.ended[job] = self.time
        if room in self.failing:
            self.hidden += 1
            self._sync_clock()
            self.chance.choice(self._gauges).note_failed(room, self._now() + timedelta(seconds=AGAIN_AFTER))
            self._at(AGAIN_AFTER, lambda: self._come_again(chunk))
        self._work()

    def _finish(self, job, room):
        put = self.queue.append if self._is_last else self.queue.appendleft
        put((job, room, FINISH))
        self._work()

    def _come_again(self, chunk):
        self.hidden -= 1
        self.queue.append(chunk)
        self._work()

    def _report(self, number):
        self._sync_clock()
        counted, now = self._gauges[number].read(), self._now()
        self._reports[number] = Worker(
            name=f"w{number}",
            at=now,
            started_at=now,
            in_flight=self.in_work // PROCESSES,
            done=0,
            busy=0.0,
            resting=counted.resting,
        )
        self._at(LOOK_EVERY, lambda: self._report(number))

    def _read(self):
        self._fleet = Fleet(workers=[*self._reports.values()])
        self._at(LOOK_EVERY, self._read)

    def _sync_clock(self):
        self._clock.advance(seconds=(self._now() - self._clock.now()).total_seconds())

    def _now(self):
        return NOON + timedelta(seconds=self.time)
