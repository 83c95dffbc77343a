"""Warms instances before planned openings and gives them back: one check reads, decides, notes and sends.

The order of one check:

1. Read the record, how far the due openings are, and the app.
2. Decide, in a pure function.
3. Write the pointer to the next check, then the record with the counts that are wanted.
4. Send the change. The next check reads it back.
5. The pointer that led here goes.

So a count is in the record before it is in Azure, and a pointer leads to the record for as long as a count is raised.
A check that is repeated, doubled or ended in between finds the same decision.
"""

import dataclasses
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from azure.storage.blob import ContainerClient
from msgspec.structs import replace

from shared.azure import BlobStore
from shared.clock import Clock
from shared.gate import FirstChunk, FirstChunks, Gates, HeldTable, Spread, spread
from shared.ledger import Job, JobState, Ledger
from shared.pending import JOB_POINTER, PendingTable, Pointer
from shared.scaling.instances import HeldVolume, InstanceRequest, chunk_seconds, count_instances
from shared.scaling.resource_manager import ResourceManager
from shared.scaling.site import Site, WarmChoice, make_counts_body, scale_of, setting
from shared.scaling.warm_decisions import (
    OpeningKey,
    WarmDecision,
    WarmOpening,
    WarmProgress,
    WarmRecord,
    decide,
    has_started,
)
from shared.scaling.warm_records import WARM_RECORD, WarmReading, WarmRecords
from shared.telemetry import events, tell

#: Held jobs whose chunks are counted. If there are more, these stand for all, evenly spread over their names.
SAMPLED: Final = 200
#: Finished jobs that show how long a chunk takes.
LOOKED_AT: Final = 5
#: Open jobs that are read to find one of a gate. If there are more, the gate's work counts as unfinished.
MOST_READ: Final = 100
#: How late a planned opening may be.
LATE_OPENING: Final = timedelta(minutes=5)
_AT_WORK: Final = frozenset({JobState.DISPATCHING, JobState.RUNNING, JobState.FINISHING})


#: Seconds from reading the record to sending a change. A check that takes longer leaves the change to the next one.
PATIENCE: Final = 120
#: The clock of the instance that wrote a pointer may be ahead by this.
SKEW: Final = timedelta(minutes=15)


class FirstChunkDelays(NamedTuple):
    """The measured times from an opening to the begin of its first chunk. None: not measured yet."""

    #: Of openings that had instances, and of the others, which met an app in any state.
    warm: Spread | None
    others: Spread | None
    #: Whether they are those of one gate, or of all gates.
    is_of_gate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSources:
    """The gates and jobs of one installation."""

    gates: Gates
    held: HeldTable
    first_chunks: FirstChunks
    ledger: Ledger
    pending: PendingTable

    def measure_held(self, gate: str) -> HeldVolume:
        """Measure the work that a gate holds."""
        ids = [entry.id for page in self.held.pages(gate) for entry in page]
        sample = ids[:: max(1, -(-len(ids) // SAMPLED))]
        jobs = [job for name in sample if (job := self.ledger.read(name)) is not None]
        each = len(ids) / len(sample) if sample else 1
        number = round(len(jobs) * each)
        return HeldVolume(jobs=number, chunks=round(sum(job.chunks for job in jobs) * each), others=len(ids) - number)

    def chunk_seconds(self) -> float:
        """Measure how long a chunk takes, by the last finished jobs."""
        jobs = [self.ledger.read(listed.job) for listed in self.ledger.newest(LOOKED_AT)]
        return chunk_seconds([job for job in jobs if job is not None])

    def first_chunk_delays(self, gate: str, past: Collection[OpeningKey]) -> FirstChunkDelays:
        """Measure the delay to the first chunk. `past`: the openings that had instances."""
        found = self.first_chunks.history(gate)
        measured = found or self.first_chunks.history()
        warm = [one for one in measured if _had_instances(one, past)]
        others = [one for one in measured if one not in warm]
        return FirstChunkDelays(
            spread(one.delay for one in warm), spread(one.delay for one in others), is_of_gate=bool(found)
        )

    def progress(self, opening: WarmOpening, until: datetime) -> WarmProgress:
        """Find out how far an opening is. `until`: every open job has a pointer that is due by then."""
        state = self.gates.read(opening.gate)
        if state.scheduled is not None and state.scheduled.at == opening.opens_at:
            return WarmProgress.WAITS
        if state.epoch <= opening.epoch and not state.is_open:
            return WarmProgress.ENDED
        holds = any(self.held.pages(opening.gate, None if state.is_open else state.epoch))
        return WarmProgress.WORKS if holds or self._has_open_job(opening.gate, until) else WarmProgress.ENDED

    def _has_open_job(self, gate: str, until: datetime) -> bool:
        found, _told = self.pending.read_known(until)
        names = [pointer.id for pointer in found if pointer.kind == JOB_POINTER]
        return len(names) > MOST_READ or any(_is_at_work(self.ledger.read(name), gate) for name in names)


class WarmStores(Protocol):
    """The stores that warming needs."""

    gates: Gates
    held: HeldTable
    first_chunks: FirstChunks
    pending: PendingTable
    clock: Clock

    @property
    def ledger(self) -> Ledger:
        """The jobs."""
        ...

    @property
    def container(self) -> Callable[[str], ContainerClient]:
        """Names a container."""
        ...


def records_of(stores: WarmStores) -> WarmRecords:
    """Return the record of an installation. Makes no request."""
    return WarmRecords(BlobStore(stores.container("settings"), WARM_RECORD), stores.pending, stores.clock)


def sources_of(stores: WarmStores) -> WarmSources:
    """Return the reader of the facts that decide about instances. Makes no request."""
    return WarmSources(
        gates=stores.gates,
        held=stores.held,
        first_chunks=stores.first_chunks,
        ledger=stores.ledger,
        pending=stores.pending,
    )


@dataclass(frozen=True, slots=True)
class WarmCheck:
    """A prepared check: the decision, and all that it was made from."""

    read: WarmReading
    app: dict[str, Any]
    decision: WarmDecision
    began: float

    @property
    def differences(self) -> list[str]:
        """The changes of counts, one line each."""
        before = scale_of(self.app).counts
        return [
            f"{name}: {before.get(name, 'not set')} -> {'not set' if count is None else count}"
            for name, count in self.decision.counts.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmer:
    """Carries out the record of one app."""

    records: WarmRecords
    sources: WarmSources
    manager: Callable[[], AbstractContextManager[ResourceManager]]
    #: The resource id of the app.
    site: str
    #: The installation; each opening has its own time and bound.
    wanted: InstanceRequest
    #: The pointer of an open job is due within this time.
    overdue: timedelta
    clock: Clock

    def follow(self, pointer: Pointer) -> None:
        """Do the check that a due pointer leads to."""
        if self.run():
            self.records.forget(pointer)

    def check(self) -> WarmCheck | None:
        """Read and decide. Change nothing. None: nothing is planned, and nothing is to be given back."""
        began, read = self.clock.monotonic(), self.records.read()
        if read.record.is_empty:
            return None
        self.records.demand_site(read.record, self.site)
        until, started = read.now + self.overdue + SKEW, partial(has_started, now=read.now)
        progress = {one.key: self.sources.progress(one, until) for one in filter(started, read.record.openings)}
        record = self._plan_started(read.record, progress, read.now)
        with self.manager() as manager:
            app = manager.read(Site.parse(self.site))
        return WarmCheck(read, app, decide(record, scale_of(app), progress, read.now), began)

    def carry_out(self, check: WarmCheck) -> bool:
        """Write the record, then send the change. Return False if another process was first: then it does the rest."""
        decision = check.decision
        if not self.records.try_write(check.read, decision.record, decision.again_at):
            return False
        for kept in decision.kept:
            tell(events.INSTANCES_KEPT, group=kept.group, found=kept.found, base=kept.base)
        if not decision.counts:
            return True
        # An old decision must not overtake a newer one: what was noted is then left to the next check.
        if self.clock.monotonic() - check.began > PATIENCE:
            return False
        with self.manager() as manager:
            manager.change(Site.parse(self.site), make_counts_body(check.app, decision.counts))
        before = scale_of(check.app).counts
        for name, count in decision.counts.items():
            tell(events.INSTANCES_CHANGED, group=name, before=before.get(name, 0), after=count or 0)
        return True

    def run(self) -> bool:
        """Do one check. Return False if it is to be repeated."""
        check = self.check()
        return check is None or self.carry_out(check)

    def _plan_started(self, record: WarmRecord, progress: dict[OpeningKey, WarmProgress], now: datetime) -> WarmRecord:
        """Plan the counts of openings that have just started, for the work that their gates hold now."""
        openings = tuple(
            self._plan(one) if one.wanted is None and has_started(one, now) and _is_alive(progress[one.key]) else one
            for one in record.openings
        )
        return record if openings == record.openings else replace(record, openings=openings)

    def _plan(self, opening: WarmOpening) -> WarmOpening:
        seconds = self.sources.chunk_seconds()
        wanted = dataclasses.replace(self.wanted, within=opening.within, most=opening.most, chunk_seconds=seconds)
        counts = count_instances(self.sources.measure_held(opening.gate), wanted)
        return replace(opening, wanted={setting(name): count for name, count in counts.items()})


def build_warmer(
    stores: WarmStores,
    choice: WarmChoice,
    overdue: timedelta,
    manager: Callable[[], AbstractContextManager[ResourceManager]],
) -> Warmer:
    """Build what carries out the record of an installation. Makes no request. `overdue`: see Warmer."""
    return Warmer(
        records=records_of(stores),
        sources=sources_of(stores),
        manager=manager,
        site=choice.site,
        wanted=InstanceRequest(),
        overdue=overdue,
        clock=stores.clock,
    )


def _is_alive(progress: WarmProgress) -> bool:
    return progress is not WarmProgress.ENDED


def _had_instances(measured: FirstChunk, past: Collection[OpeningKey]) -> bool:
    # The gate opens at its planned time or, if the tick is late, soon after.
    return any(
        gate == measured.gate and opens_at <= measured.opened_at < opens_at + LATE_OPENING for gate, opens_at in past
    )


def _is_at_work(job: Job | None, gate: str) -> bool:
    return job is not None and job.gate == gate and job.state in _AT_WORK
