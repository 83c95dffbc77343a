"""The turn of a job's messages on the work queues. It tells a job that waits from one whose messages are lost.

The front of a queue says what came before it. A watermark is the time before which a queue has handed out everything:
the insertion time of the first message that was never received. A job whose last message was put before the watermark
of each of its queues has had its turn. Neither depth nor the progress of other jobs counts: under lasting load, a lost
chunk would never be found by them.

Storage promises no order, and a crashed delivery returns behind later messages. So a message that waits may be put
again, which counts once. A lost one is never taken for one that waits. Nothing here makes a request.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from shared.ledger.progress import Turn, is_overdue, silent_since
from shared.ledger.records import Job, JobState
from shared.topology import work_queues_of

#: Messages that one request shows: storage shows no more.
FRONT: Final = 32
#: Storage names insertion times in whole seconds.
MARGIN: Final = timedelta(seconds=2)
#: How long a watermark may be unknown. After that, silence alone decides.
UNKNOWN_COUNTS_AFTER: Final = timedelta(hours=1)


class Fronted(NamedTuple):
    """One message at the front of a queue: when storage inserted it, and how often it was received."""

    inserted_on: datetime
    received: int


class Watermark(NamedTuple):
    """The time before which a queue has handed out everything. None: unknown."""

    moment: datetime | None
    #: Whether no message on the queue waits for its first delivery.
    is_drained: bool = False


def read_watermark(front: Sequence[Fronted], now: datetime, unknown_since: datetime | None = None) -> Watermark:
    """Return the watermark of a queue by its front: up to `FRONT` messages that could be received now."""
    fresh = [message.inserted_on for message in front if not message.received]
    if fresh:
        return Watermark(min(fresh))
    if len(front) < FRONT:
        return Watermark(now, is_drained=True)
    # Deliveries that failed fill the front. Behind them may be messages that were never received.
    is_too_long = unknown_since is not None and now - unknown_since >= UNKNOWN_COUNTS_AFTER
    return Watermark(now if is_too_long else None)


def read_turn(note: str) -> Turn | None:
    """Read the note of a job's pointer. None: the job waits for no turn. Pointers of earlier versions have no note."""
    put_until, _, rest = note.partition(" ")
    chunks, _, over = rest.partition(" ")
    try:
        over_since = datetime.fromisoformat(over) if over else None
        return Turn(datetime.fromisoformat(put_until), int(chunks), over_since)
    except ValueError:
        # Looking at a job is always right, and only costs a request.
        return None


def turn_of(job: Job) -> Turn | None:
    """Return the turn that the job waits for. None: it waits for no message."""
    silent = silent_since(job)
    if silent is None:
        return None
    if job.state is JobState.FINISHING:
        return Turn(silent, 1)
    # A row of an earlier version does not say when its chunks were put: no later than its silence began.
    return Turn(job.put_until or silent, job.dispatch_cursor) if job.dispatch_cursor else None


class Fronts(NamedTuple):
    """The watermarks of all work queues, by name."""

    watermarks: Mapping[str, Watermark]
    queues: int
    #: The lane, if these are the watermarks of its jobs.
    lane: str | None = None

    def is_over(self, job: str, turn: Turn) -> bool:
        """Check whether the job's queues have handed out everything that was put until then."""
        return all(
            # Nothing waits on a drained queue. So the clocks of its writers do not matter.
            mark.is_drained or (mark.moment is not None and turn.put_until + MARGIN <= mark.moment)
            for mark in self._of(job, turn.chunks)
        )

    def are_drained(self, job: str, turn: Turn) -> bool:
        """Check whether no message on the job's queues waits for its first delivery."""
        return all(mark.is_drained for mark in self._of(job, turn.chunks))

    def _of(self, job: str, chunks: int) -> list[Watermark]:
        names = {self.lane} if self.lane else work_queues_of(job, chunks, self.queues)
        return [self.watermarks[name] for name in sorted(names)]


class Silence(Enum):
    """The meaning of a job's silence."""

    #: It was not silent for long, or no progress is expected.
    SHORT = "short"
    #: Its messages wait on their queues.
    WAITS = "waits"
    #: Its messages were handed out, perhaps just now. Their workers have as much time as any others.
    IN_WORK = "in work"
    #: Its messages had their turn and their time.
    LOST = "lost"


def judge_silence(job: Job, noted: Turn | None, fronts: Fronts, now: datetime, patience: timedelta) -> Silence:
    """Decide whether silent messages are put again. `noted`: the turn in the pointer that led here."""
    if not is_overdue(job, now, patience):
        return Silence.SHORT
    turn = turn_of(job)
    if turn is None or job.again_from is not None:
        return Silence.LOST
    if not fronts.is_over(job.job, turn):
        return Silence.WAITS
    # On drained queues, the silence itself is long enough. Beside a backlog, the delivery may be a second old.
    since = over_since(turn, noted, now)
    return Silence.LOST if now - since >= patience or fronts.are_drained(job.job, turn) else Silence.IN_WORK


def over_since(turn: Turn, noted: Turn | None, now: datetime) -> datetime:
    """Return when a tick first found that this turn was over: as noted, or now."""
    if noted is not None and noted.over_since is not None and noted.put_until == turn.put_until:
        return noted.over_since
    # In whole seconds, as the pointer's due time.
    return now.replace(microsecond=0)
