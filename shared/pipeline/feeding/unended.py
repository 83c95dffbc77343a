"""Counts the chunks of limited rooms that were put and have not ended, by the rows of their jobs.

The feeder notes what it puts. A job's row says how many of its chunks have ended. It is read only while that may change a
decision: its room is at its limit, or all of the room was put. So a room's jobs keep their ready rows until then, and
the next feeder counts them too.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from shared.grammar import room_of
from shared.ledger import CLOSED, Job, JobState
from shared.pipeline.feeding.ready import ReadyJob

#: Rows that are read of a room in one round, of jobs that have chunks on the queues afterwards.
MOST_READ: Final = 8
#: The chunks of a job that is paused or has ended are not awaited: some may be lost.
_OVER: Final = CLOSED | {JobState.PAUSED, JobState.FINISHING}


class _PutChunks(NamedTuple):
    put: int
    ended: int


class Unended:
    """The jobs of limited rooms of which chunks were put. One feeder has it, and guards it by its lock."""

    def __init__(self, read: Callable[[str], Job | None]) -> None:
        self._read = read
        #: By room; the job whose row was read longest ago first.
        self._jobs: dict[str, dict[str, _PutChunks]] = {}
        self._known: set[str] = set()

    def note(self, job: str, put: int, ended: int) -> None:
        """Note that the first chunks of a job were put, and how many of them had ended when its row was read."""
        self._known.add(job)
        self._jobs.setdefault(room_of(job), {})[job] = _PutChunks(max(put, ended), ended)

    def count(self, room: str) -> int:
        """Return how many chunks of the room were put and have not ended, as far as known."""
        return sum(one.put - one.ended for one in self._jobs.get(room, {}).values())

    def learn(self, jobs: Iterable[ReadyJob]) -> list[str]:
        """Read the rows of jobs that another feeder may have put, the oldest first. Return those of which all was put.

        Where it put nothing of a job, it put nothing of a younger one either, unless that was urgent.
        """
        is_untouched, all_put = False, list[str]()
        for row in jobs:
            if row.job in self._known or (is_untouched and row.deadline is None):
                continue
            self._known.add(row.job)
            job = self._read(row.job)
            if job is None:
                continue
            if self.awaits(job):
                # Lost chunks are on no queue: counted as put, they would keep their own room at its limit.
                put = job.dispatch_cursor if job.again_from is None else job.again_from
                self.note(row.job, put, job.ended_chunks)
                if put >= job.chunks:
                    all_put.append(row.job)
            is_untouched = is_untouched or not job.dispatch_cursor
        return all_put

    @staticmethod
    def awaits(job: Job) -> bool:
        """Check whether chunks of the job are on the queues, as far as its row says."""
        return job.state not in _OVER and job.ended_chunks < job.dispatch_cursor

    def look(self, room: str) -> list[str]:
        """Read the rows of the room's jobs, and return those of which no chunk is on the queues any more."""
        jobs, over, left = self._jobs.get(room, {}), list[str](), 0
        for name in list(jobs):
            if left >= MOST_READ:
                break
            put = jobs.pop(name).put
            job = self._read(name)
            if job is None or job.state in _OVER or job.ended_chunks >= put:
                over.append(name)
                continue
            left += 1
            jobs[name] = _PutChunks(put, job.ended_chunks)
        return over
