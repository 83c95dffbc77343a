"""Acts of a person on all jobs of a night: each job by itself, audited each, and safe to repeat.

The rows of the night say which jobs there are and which have ended; each act reads the row of its job.

The sum of a night, and its jobs in the order in which they wait for each other, by its rows alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Final

from shared.azure import Charge
from shared.errors import JobStateError, TooManyHaltsError
from shared.ledger import CLOSED, Job, JobState, NightLine, is_failed_entirely, read_progress
from shared.operating.audit import ActKey
from shared.operating.erase_acts import JobEraser
from shared.operating.job_acts import JobOperator
from shared.usage import Prices, add, price, take_counts

#: Jobs of one act. So many may be halted at a time, too.
MOST_ACTS: Final = 500
#: Seconds for which an act removes the blobs and rows of one job. Then the tick goes on.
REMOVES_FOR: Final = 2.0


class NightAct(StrEnum):
    """An act of a person on all jobs of a night."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RERUN = "rerun"
    ERASE = "erase"


#: The states of the jobs that an act is for. What waits for others is paused and stopped first, so that nothing starts meanwhile.
_OPEN: Final = (JobState.HELD, JobState.PLANNING, JobState.DISPATCHING, JobState.RUNNING)
_MEANT: Final = {
    NightAct.PAUSE: _OPEN,
    NightAct.RESUME: (JobState.PAUSED,),
    NightAct.STOP: (*_OPEN, JobState.PAUSED, JobState.FINISHING),
    NightAct.RERUN: (JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED, JobState.UNBALANCED, JobState.STOPPED),
    NightAct.ERASE: tuple(state for state in JobState if state is not JobState.ERASED),
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
    if act in {NightAct.RERUN, NightAct.ERASE}:
        # Again after those that it is made from; gone before those that it was made from.
        steps = put_in_order(lines) if act is NightAct.RERUN else reversed(put_in_order(lines))
        return [one.listed.job for step in steps for one in step if one.listed.state in meant]
    chosen = [one.listed for one in lines if one.listed.state in meant]
    return [one.job for one in sorted(chosen, key=lambda one: meant.index(one.state or JobState.HELD))]


@dataclass(frozen=True, slots=True)
class NightOperator:
    """Acts on the jobs of a night, one by one."""

    operator: JobOperator
    eraser: JobEraser

    def act(
        self, jobs: Sequence[str], act: NightAct, *, by: str, why: str, named: ActKey | None = None
    ) -> Iterator[Acted]:
        """Act on these jobs, and yield what came of each. What cannot be done to one stops none of the others.

        `named`: see AuditTable.record; the act on each job has a name of its own by it.
        """
        verb = self._verb(act, jobs)
        for number, job in enumerate(jobs[:MOST_ACTS]):
            name = named and ActKey(named.at, f"{named.nonce}-{number:03}")
            try:
                found = verb(job, by=by, why=why, named=name)
            except (JobStateError, TooManyHaltsError) as refusal:
                # It has come further than the night's row says.
                yield Acted(job, str(refusal), is_done=False)
            else:
                yield Acted(job, f"is {found.state.value}", is_done=True)

    def _verb(self, act: NightAct, jobs: Sequence[str]) -> Callable[..., Job]:
        verbs: dict[NightAct, Callable[..., Job]] = {
            NightAct.PAUSE: self.operator.pause,
            NightAct.RESUME: self.operator.resume,
            NightAct.STOP: self.operator.stop,
            NightAct.RERUN: self.operator.rerun,
            NightAct.ERASE: partial(self.eraser.erase, also=jobs, seconds=REMOVES_FOR),
        }
        return verbs[act]


@dataclass(frozen=True, slots=True)
class NightSum:
    """All jobs of a night together."""

    state: str
    jobs: int
    #: Transactions that have ended, and all of them so far.
    ended: int
    items: int
    #: When the last job ends at the rates so far. None: one of them has no rate yet, or all have ended.
    ends: datetime | None
    #: The first of their deadlines.
    due: datetime | None
    amount: Decimal

    @property
    def share(self) -> str:
        """How much has ended, in words."""
        return f"{100 * self.ended / self.items:.0f} %" if self.items else "0 %"


def sum_up(lines: Sequence[NightLine], prices: Prices, now: datetime) -> NightSum:
    """Return the sum of a night."""
    ended = sum(one.accepted + one.rejected + one.parked for one in lines)
    closed = sum(one.listed.items for one in lines if one.listed.state in CLOSED)
    left = [read_progress(one.listed, now).predicted for one in lines if one.listed.state not in CLOSED]
    known = [one for one in left if one is not None]
    return NightSum(
        state=judge_night(lines),
        jobs=len(lines),
        ended=max(ended, closed),
        items=sum(one.listed.items for one in lines),
        ends=max(known) if known and len(known) == len(left) else None,
        due=min((one.listed.deadline for one in lines if one.listed.deadline), default=None),
        amount=add_bills(lines, prices),
    )


def add_bills(lines: Sequence[NightLine], prices: Prices) -> Decimal:
    """Return the bills of these jobs together, as far as they have come."""
    metered = ({Charge.parse(text): number for text, number in one.requests.items()} for one in lines)
    taken = (take_counts(one.listed.ended_chunks) for one in lines)
    return price(add(*metered, *taken), prices).total


def put_in_order(lines: Sequence[NightLine]) -> list[list[NightLine]]:
    """Return the jobs that wait for no other of the night, then those that wait for these, and so on.

    Those that wait for each other in a circle come last, together.
    """
    left, found = {one.listed.job: one for one in lines}, list[list[NightLine]]()
    while left:
        ready = [one for one in left.values() if not any(name in left for name in one.waits)] or list(left.values())
        found.append(ready)
        for one in ready:
            del left[one.listed.job]
    return found
