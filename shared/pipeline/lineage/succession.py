"""Starts jobs that wait for others, and wakes them when one of these has ended.

A job that waits is held, and has no plan: an instance of an earlier version starts nothing without one. It walks along the
jobs that it waits for, one at a time. `precedence` says how each of them stands.

The order: pointer; row; its name in the row of the other, by that row's ETag; the place on the way in its own row. Where the
other was not accepted yet, the name goes into a row of names, which becomes the other's: so no order of submission is slow. When all
are passed: the pointer of a job that starts; plan, ids, gate and revisions in one write; start. After a crash anywhere the
pointer leads back, and the walk repeats what it did. A plan that was stored and not noted is removed with the job's folder.

Who ends a job sends a hint for each name in the row that it has written. If none can be sent, the next tick does it. A lost
hint costs the time until the pointer of the one that waits is due.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import ContentionError, PlanLostError, RefusedError, SignalNotSentError
from shared.grammar import Amounts
from shared.ledger import (
    BY_ITSELF,
    Job,
    JobState,
    Ledger,
    Passage,
    PlanBlob,
    PlanText,
    add_waiter,
    change,
    counting,
    find_circle,
    judge_predecessor,
    next_look,
    note_waits_at,
    pause,
)
from shared.payload import Declared
from shared.pending import WAIT_POINTER, PendingTable, Pointer
from shared.pipeline.plan import Plan, PlanStore
from shared.pipeline.start import Placed, Planning, Starter, leave_to_gate, point_to_start
from shared.pipeline.sweep import warn
from shared.signals import Signals
from shared.telemetry import events, tell

#: A job whose name the other one has no room for is looked at again after this time.
SOON: Final = timedelta(minutes=1)
#: Hints that a tick sends before it makes the plan of a job from others itself: that may take as long as a tick.
HINTS: Final = 3


@dataclass(frozen=True, slots=True)
class Made:
    """The plan of a job that is made from others, and what its row gets with it."""

    plan: Plan
    declared: Declared
    used: Mapping[str, int]


class MakePlan(Protocol):
    """Makes the plan of a job from the lines of its sources. Raises RefusedError if that cannot be taken."""

    def __call__(self, job: Job, sources: Mapping[str, Job], /) -> Made:
        """Read the lines of the sources, and store them as the payload of the job."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeWaiters:
    """Sends the hints for the jobs that wait for one. One per process."""

    hints: Signals
    pending: PendingTable
    clock: Clock

    def __call__(self, job: Job) -> None:
        """Have each job look whose name is in this row. No request for a row without one."""
        for waiter in job.waiters:
            try:
                self.hints.send_job(waiter)
            except SignalNotSentError:
                self.pending.add(Pointer(WAIT_POINTER, self.clock.now(), waiter))


@dataclass(slots=True)
class _Walk:
    """How far a job has come along those that it waits for."""

    at: int
    #: The rows that were read on this way.
    known: dict[str, Job]
    #: Why it cannot go on by itself.
    broken: str = ""
    #: Whether nothing has its name, so that no hint comes.
    is_unnamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """Starts jobs that wait for others. One per process."""

    ledger: Ledger
    pending: PendingTable
    plans: PlanStore
    planning: Planning
    make_plan: MakePlan
    starter: Starter
    hints: Signals
    clock: Clock
    #: How long after a lost hint a job is looked at.
    overdue: timedelta

    def point(self, job: Job, note: str = "", after: timedelta = SOON) -> Pointer:
        """Leave a pointer to a job that waits for others."""
        now = self.clock.now()
        due = next_look(job.deadline, now, after)
        return self.pending.add(Pointer(WAIT_POINTER, due, job.job, note=note))

    def look(self, job: Job, until: float | None = None) -> Placed:
        """Let a job start if all that it waits for have ended. Else write its name where the next hint comes from."""
        walk = self._walk(job)
        if not walk.broken and walk.at < len(job.waits):
            tell(events.JOB_WAITS, job=job.job, other=job.waits[walk.at], left=len(job.waits) - walk.at)
        return self._go_on(job, walk, until)

    def follow(self, pointer: Pointer, until: float) -> None:
        """Follow a due pointer: the hint may be lost, or the process that was to look may have died."""
        if self.clock.monotonic() >= until:
            return
        job = self.ledger.read(pointer.id)
        if job is None or not job.awaits_others or job.state is not JobState.HELD:
            # Its row never came; or it has a pointer as every job; or a resume leaves another one.
            self.pending.remove(pointer)
            return
        with counting():
            job = warn(self.ledger, job, self.clock.now())
            walk, note = self._walk(job), ""
            is_next = not walk.broken and walk.at == len(job.waits)
            tried = int(pointer.note) if pointer.note.isdecimal() else 0
            if is_next and job.from_jobs and tried < HINTS and self._hint(job):
                note = str(tried + 1)
            else:
                self._go_on(job, walk, until)
        # The later pointer first. It is removed at its time if the job has started.
        self.point(job, note, SOON if note or walk.is_unnamed else self.overdue)
        self.pending.remove(pointer)

    def _hint(self, job: Job) -> bool:
        try:
            self.hints.send_job(job.job)
        except SignalNotSentError:
            return False
        return True

    def _walk(self, job: Job) -> _Walk:
        """Pass the jobs that are complete. At the first that is not, leave the name, and see whether it waits for this one."""
        walk = _Walk(job.waits_at, {})
        while walk.at < len(job.waits) and self._passes(job, job.waits[walk.at], walk):
            walk.at += 1
        return walk

    def _passes(self, job: Job, name: str, walk: _Walk) -> bool:
        parked, is_source = bool(job.after_parked), name in job.sources
        found, is_named = self._leave_name(job, name)
        verdict = judge_predecessor(found, after_parked=parked)
        if found is not None:
            walk.known[name] = found
        if verdict.standing is Passage.PASSED and (is_named or not is_source):
            return True
        if verdict.standing is Passage.BROKEN:
            walk.broken = f"{name} {verdict.words}"
        elif found is not None and is_source and not is_named:
            walk.broken = f"{len(found.waiters)} jobs wait for {name} or were made from it, and it takes no more"
        elif found is not None and (
            circle := find_circle(replace(job, waits_at=walk.at), self.ledger.read, walk.known)
        ):
            walk.broken = f"it waits for itself: {', '.join(circle)}"
        walk.is_unnamed = not is_named
        return False

    def _leave_name(self, job: Job, name: str) -> tuple[Job | None, bool]:
        """Leave the job's name with one that it waits for. Return that one's row, and whether it has the name."""
        add = partial(add_waiter, waiter=job.job, is_source=name in job.sources, after_parked=bool(job.after_parked))
        # The row of the write decides: it has either the end or the name. The requests are those of the one that waits.
        leave = partial(
            change, self.ledger, name, add, tried=f"have job {job.job!r} wait for job {name!r}", is_counted=False
        )
        found = leave()
        if found is None and self.ledger.name_waiter(name, job.job):
            # Jobs may be submitted in any order: its row will begin with the name.
            return None, True
        # It may have come since.
        found = found or leave()
        return found, found is not None and job.job in found.waiters

    def _go_on(self, job: Job, walk: _Walk, until: float | None) -> Placed:
        if self._wait_or_pause(job, walk):
            return Placed.HELD
        try:
            planned = self._plan(job, walk)
        except (RefusedError, PlanLostError) as error:
            # There is no message to park.
            self._pause(job, str(error))
            return Placed.HELD
        if planned is None:
            return Placed.HELD
        job, is_mine, pointer = planned
        placed = self.starter.start(job, is_new=is_mine, until=until)
        if placed is Placed.HELD:
            leave_to_gate(self.pending, job, pointer, self.clock.now())
        return placed

    def _wait_or_pause(self, job: Job, walk: _Walk) -> bool:
        """Note how far the job has come, or pause it. False: it has passed all that it waits for."""
        if walk.broken:
            self._pause(job, walk.broken)
        elif walk.at < len(job.waits):
            self._note(job, partial(note_waits_at, at=walk.at), "note how far it has come")
        return bool(walk.broken) or walk.at < len(job.waits)

    def _plan(self, job: Job, walk: _Walk) -> tuple[Job, bool, Pointer] | None:
        """Give the job its plan. Return its row, whether it is by this call, and the pointer. None: it waits again."""
        made = self._make(job, walk)
        if made is None:
            return None
        plan, stored, declared, used = made
        note = self.planning.prepare(plan, stored, job.gate)
        # Before its row says that it may start.
        pointer = self.pending.add(point_to_start(job.job, job.deadline, self.clock.now(), self.overdue))
        is_mine = False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            is_mine = found.awaits_others and found.state is JobState.HELD
            if not is_mine:
                return found
            waiting = replace(found, state=JobState.PLANNING, waits_at=len(found.waits), ready=None)
            return note(replace(waiting, declared=declared, used=used))

        written = self._note(job, decide, "record the plan")
        if written.awaits_others:
            # Paused or stopped meanwhile.
            self.pending.remove(pointer)
            return None
        return written, is_mine, pointer

    def _make(self, job: Job, walk: _Walk) -> tuple[Plan, PlanBlob | PlanText, Amounts, Mapping[str, int]] | None:
        """Return the plan, its place, the sums to prove, and the revisions that were taken. None: it waits again."""
        if job.ready is not None:
            return self.plans.read(job.job, job.ready), job.ready, job.declared, job.used
        for at, name in enumerate(job.sources[: job.waits_at]):
            # Those that were passed before may be at another revision by now, or on their way to one.
            if not self._passes(job, name, walk):
                walk.at = at
                self._wait_or_pause(job, walk)
                return None
        made = self.make_plan(job, walk.known)
        return made.plan, self.plans.put(made.plan), made.declared.sums, made.used

    def _note(self, job: Job, decide: Callable[[Job], Job], tried: str) -> Job:
        written = change(self.ledger, job.job, decide, tried=tried, known=job)
        if written is None:
            raise ContentionError(f"could not {tried}: job {job.job!r} is gone")
        return written

    def _pause(self, job: Job, why: str) -> None:
        """Pause the job until a person resumes it: then it looks again."""
        is_mine = False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            paused = pause(found, BY_ITSELF, why) if found.awaits_others and found.state is JobState.HELD else found
            is_mine = paused is not found
            return paused

        self._note(job, decide, "pause the job")
        if is_mine:
            tell(events.JOB_PAUSED, job=job.job, revision=job.revision, reason=why)
