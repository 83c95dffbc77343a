"""Acts of a person on all jobs of a night: each job by itself, audited each, and safe to repeat.

The rows of the night say which jobs there are and which have ended; each act reads the row of its job.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.errors import JobStateError
from shared.ledger import CLOSED, Job, JobState, NightLine, is_failed_entirely
from shared.operating.job_acts import JobOperator

#: Jobs of one act. So many may be halted at a time, too.
MOST_ACTS: Final = 500


class NightAct(StrEnum):
    """An act of a person on all jobs of a night."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


#: The states of the jobs that an act is for. What waits for others is paused and stopped first, so that nothing starts meanwhile.
_OPEN: Final = (JobState.HELD, JobState.PLANNING, JobState.DISPATCHING, JobState.RUNNING)
_MEANT: Final = {
    NightAct.PAUSE: _OPEN,
    NightAct.RESUME: (JobState.PAUSED,),
    NightAct.STOP: (*_OPEN, JobState.PAUSED, JobState.FINISHING),
}
#: The gravest first.
_GRAVITY: Final = (
    JobState.PAUSED,
    JobState.UNBALANCED,
    JobState.COMPLETED_WITH_PARKED,
    JobState.STOPPED,
    JobState.RUNNING,
    JobState.DISPATCHING,
    JobState.FINISHING,
    JobState.PLANNING,
    JobState.HELD,
    JobState.COMPLETE,
    JobState.BURIED,
    JobState.ERASED,
)


@dataclass(frozen=True, slots=True)
class Acted:
    """The outcome of an act on one job."""

    job: str
    words: str
    is_done: bool


def judge_night(lines: Sequence[NightLine]) -> str:
    """Return the state of a night: the gravest of its jobs."""
    listed = [one.listed for one in lines]
    if any(is_failed_entirely(one) for one in listed):
        return "failed: all parked"
    states = {one.state for one in listed}
    if JobState.HELD in states and states <= {JobState.HELD, JobState.COMPLETE, JobState.BURIED} and len(states) > 1:
        # Between two of its jobs.
        return JobState.RUNNING.value
    return next((state.value for state in _GRAVITY if state in states), "not recorded")


def explain_line(line: NightLine, lines: Sequence[NightLine]) -> str:
    """Say why a job of a night is not further, by the rows of the night alone. Empty: nothing holds it up."""
    one, ended = line.listed, {JobState.COMPLETE, JobState.BURIED}
    if one.state is JobState.HELD and line.waits:
        known = {other.listed.job: other.listed for other in lines}
        waits = (known.get(name, name) for name in line.waits)
        for other in waits:
            if isinstance(other, str):
                return f"waits for {other}"
            if other.state not in ended:
                return f"waits for {other.job}, which is {other.state}" + (
                    f": {other.problem}" if other.problem else ""
                )
        return "starts within a minute"
    if one.state is JobState.HELD:
        return f"waits behind gate {one.gate}"
    return one.problem or ""


def choose_jobs(lines: Sequence[NightLine], act: NightAct) -> list[str]:
    """Return the jobs that an act is for, in the order in which it takes them."""
    meant = _MEANT[act]
    chosen = [one.listed for one in lines if one.listed.state in meant]
    return [one.job for one in sorted(chosen, key=lambda one: meant.index(one.state or JobState.HELD))]


def act_on_night(operator: JobOperator, jobs: Sequence[str], act: NightAct, *, by: str, why: str) -> Iterator[Acted]:
    """Act on these jobs, and yield what came of each. What cannot be done to one stops none of the others."""
    verbs: dict[NightAct, Callable[..., Job]] = {
        NightAct.PAUSE: operator.pause,
        NightAct.RESUME: operator.resume,
        NightAct.STOP: operator.stop,
    }
    for job in jobs[:MOST_ACTS]:
        try:
            yield Acted(job, f"is {verbs[act](job, by=by, why=why).state.value}", is_done=True)
        except JobStateError as refusal:
            # It has come further than the night's row says.
            yield Acted(job, str(refusal), is_done=False)


def count_ended(lines: Sequence[NightLine]) -> tuple[int, int]:
    """Return how many transactions of a night have ended, and how many it has so far."""
    ended = sum(one.accepted + one.rejected + one.parked for one in lines)
    closed = sum(one.listed.items for one in lines if one.listed.state in CLOSED)
    return max(ended, closed), sum(one.listed.items for one in lines)
