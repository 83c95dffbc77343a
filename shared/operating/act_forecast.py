"""The forecast of an act on jobs, or of a replay: what it runs, leaves out or removes, seconds, price. It writes nothing.

The command and the console say it before the act, in the same sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Final, NamedTuple

from shared.concurrency import Fleet
from shared.ledger import CLOSED, ENDED, Job, JobState, Ledger, NightLine, refuse_rerun
from shared.operating.forecast import Forecast, WorkPart, forecast_work, speed_of
from shared.operating.job_acts import refuse_pause
from shared.operating.listing import describe_duration
from shared.operating.night_acts import NightAct, add_bills, choose_jobs
from shared.operating.replay_record import Estimate, estimate
from shared.parked import NO_JOB, Entry
from shared.pipeline import Speed, Speeds
from shared.usage import Prices, bill_of, price, requests_of_replay

#: Jobs of a replay whose rows are read, a request each.
MOST_READ: Final = 10
#: The acts that run chunks. Of these, all chunks or those that have not ended.
_RUNS: Final = frozenset({NightAct.RESUME, NightAct.RERUN})
_OF_ALL: Final = frozenset({NightAct.RERUN, NightAct.ERASE})


def may_act(job: Job, act: NightAct) -> bool:
    """Check whether an act has an effect on a job in this state."""
    match act:
        case NightAct.PAUSE:
            return job.state is not JobState.PAUSED and not refuse_pause(job)
        case NightAct.RESUME:
            return job.state is JobState.PAUSED
        case NightAct.STOP:
            return job.state not in CLOSED
        case NightAct.RERUN:
            return not refuse_rerun(job)
        case NightAct.ERASE:
            return job.state is not JobState.ERASED


class JobSize(NamedTuple):
    """A job as an act finds it."""

    job: str
    workload: str
    #: All, and those that have not ended.
    chunks: int
    items: int
    open_chunks: int
    open_items: int
    #: Transactions that are parked.
    parked: int
    #: What it has cost so far.
    spent: Decimal
    #: That of its chunks which have ended. None: of none, or its line does not say it.
    speed: Speed | None = None


def size_of_job(job: Job, prices: Prices) -> JobSize:
    """Return the size of a job by its row."""
    return JobSize(
        job=job.job,
        workload=job.workload,
        chunks=job.chunks,
        items=job.items,
        open_chunks=job.chunks - job.ended_chunks,
        open_items=job.not_run,
        parked=job.totals.parked.items,
        spent=bill_of(job, prices).total,
        speed=speed_of(job),
    )


def size_of_line(line: NightLine, prices: Prices) -> JobSize:
    """Return the size of a job by its row of the night."""
    one, ended = line.listed, line.accepted + line.rejected + line.parked
    return JobSize(
        job=one.job,
        workload=one.workload,
        chunks=one.chunks,
        items=one.items,
        open_chunks=one.chunks - one.ended_chunks,
        open_items=max(0, one.items - ended),
        parked=line.parked,
        spent=add_bills([line], prices),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActForecast:
    """An act on jobs. Chunks and transactions are those that it runs, leaves out or removes."""

    act: NightAct
    jobs: int
    chunks: int
    items: int
    parked: int
    spent: Decimal
    currency: str
    #: What it runs. None: nothing.
    work: Forecast | None = None


def forecast_act(  # noqa: PLR0913, PLR0917 - each is read from another place
    act: NightAct,
    sizes: Sequence[JobSize],
    speeds: Mapping[str, Speed],
    fleet: Fleet | None,
    prices: Prices,
    now: datetime,
) -> ActForecast:
    """Return the forecast of an act on these jobs. `fleet`: for one that runs chunks. Pure."""
    is_whole = act in _OF_ALL
    parts = [
        WorkPart(
            one.job,
            one.workload,
            one.chunks if is_whole else one.open_chunks,
            one.items if is_whole else one.open_items,
        )
        for one in sizes
    ]
    own = {one.workload: one.speed for one in sizes if one.speed}
    return ActForecast(
        act=act,
        jobs=len(sizes),
        chunks=sum(part.chunks for part in parts),
        items=sum(part.items for part in parts),
        parked=sum(one.parked for one in sizes),
        spent=sum((one.spent for one in sizes), Decimal()),
        currency=prices.currency,
        work=forecast_work(parts, {**speeds, **own}, fleet, prices, now) if fleet and act in _RUNS else None,
    )


def describe_act(found: ActForecast, of: int | None = None) -> str:
    """Say what the act will do. `of`: the jobs of the night that it is done to."""
    whole = f"{found.jobs:,} of {of:,}" if of else f"{found.jobs:,}"
    jobs = f"{whole} {'job' if (of or found.jobs) == 1 else 'jobs'}"
    them = f"{found.chunks:,} chunks with {found.items:,} transactions"
    parked = f"; {found.parked:,} parked transactions" if found.parked else ""
    spent = f"{_money(found.spent, found.currency)} so far"
    match found.act:
        case NightAct.PAUSE:
            return f"{jobs}: {them} wait. About ten seconds later none of them begins; what is in work ends, and counts"
        case NightAct.RESUME:
            return f"{jobs}: {them} have not ended and are put again{_run(found)}"
        case NightAct.STOP:
            return f"{jobs}, for good: {them} are not run, nothing is published{parked and f'{parked} stay so'}; spent: {spent}"
        case NightAct.RERUN:
            closed = parked and f"{parked} of the run before are closed"
            return f"{jobs}, with the deployed code: {them}{_run(found)}; spent: {spent}. The outputs of the run before stay{closed}"
        case NightAct.ERASE:
            gone = parked and f", {found.parked:,} of them parked,"
            return f"{jobs}, for good: payload, plan, results, outputs, totals and parked entries of {found.items:,} transactions{gone} go"


def _run(found: ActForecast) -> str:
    work = found.work
    if work is None:
        return ""
    seconds = "no speed is known" if work.seconds is None else f"about {describe_duration(work.seconds)}"
    amount = _money(work.amount, found.currency)
    return f": {seconds} with {work.tasks:,} tasks (bound by {work.binding}), {work.requests:,} requests, {amount}"


def _money(amount: Decimal, currency: str) -> str:
    return f"{amount:.7f} {currency}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayForecast:
    """A replay: its entries and waves, the jobs, transactions and price."""

    size: Estimate
    jobs: int
    #: Jobs that have ended: each gets a new revision. None: more are meant than were read.
    again: int | None
    items: int
    #: A job was not read, or the transactions of an entry are the mean of its job's chunks.
    is_about: bool
    requests: int
    amount: Decimal
    currency: str


def forecast_replay(
    entries: Sequence[Entry], known: Mapping[str, Job], size: Estimate, prices: Prices
) -> ReplayForecast:
    """Return the forecast of a replay of these entries, by the rows of some of their jobs. Pure."""
    names = list_jobs_of(entries)
    again = sum(1 for name in names if name in known and known[name].state in ENDED)
    counts = [_count_items(entry, known.get(entry.job)) for entry in entries]
    usage = requests_of_replay(len(entries), size.waves, again)
    return ReplayForecast(
        size=size,
        jobs=len(names),
        again=again if len(names) <= MOST_READ else None,
        items=round(sum(number for number, _ in counts)),
        is_about=not all(is_exact for _, is_exact in counts),
        requests=sum(usage.values()),
        amount=price(usage, prices).total,
        currency=prices.currency,
    )


def list_jobs_of(entries: Iterable[Entry]) -> list[str]:
    """Return the jobs of these entries. A message at the door has none yet."""
    return list(dict.fromkeys(entry.about for entry in entries if entry.about != NO_JOB))


def _count_items(entry: Entry, job: Job | None) -> tuple[float, bool]:
    """Return the transactions of an entry, and whether that is exact."""
    if entry.items is not None:
        return entry.items, True
    if entry.chunk is None:
        # A submission that was refused, or a message without transactions.
        return 0, True
    if job is None or not job.chunks:
        return 0, False
    return job.items / job.chunks, job.chunks == 1


def describe_replay(found: ReplayForecast) -> str:
    """Say what the replay will do."""
    size = found.size
    about = "about " if found.is_about else ""
    jobs = f"{found.jobs:,} {'job' if found.jobs == 1 else 'jobs'}"
    again = "" if found.again is None else f", of which {found.again:,} get a new revision"
    return (
        f"{size.entries:,} {'entry' if size.entries == 1 else 'entries'} of {jobs}{again}: {about}{found.items:,} transactions in "
        f"{size.waves:,} {'wave' if size.waves == 1 else 'waves'}, {describe_duration(size.least)} to "
        f"{describe_duration(size.most)}, about {found.requests:,} requests, {_money(found.amount, found.currency)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActForecaster:
    """Reads what the forecast of an act needs: the fleet, rows of jobs, and the speed of each workload once."""

    ledger: Ledger
    fleet: Callable[[], Fleet]
    speeds: Speeds
    _known: dict[str, Speed | None] = field(default_factory=dict, init=False)

    def of_jobs(self, act: NightAct, jobs: Sequence[Job], prices: Prices, now: datetime) -> ActForecast:
        """Return the forecast of an act on these jobs. One request for one that runs chunks, one for an unknown speed."""
        return self._of(act, [size_of_job(job, prices) for job in jobs], prices, now)

    def of_night(self, act: NightAct, lines: Sequence[NightLine], prices: Prices, now: datetime) -> ActForecast:
        """Return the forecast of an act on the jobs of a night that it is for. One request more for each of its workloads."""
        meant = frozenset(choose_jobs(lines, act))
        return self._of(act, [size_of_line(one, prices) for one in lines if one.listed.job in meant], prices, now)

    def of_replay(self, entries: Sequence[Entry], prices: Prices) -> ReplayForecast:
        """Return the forecast of a replay of these entries. One request for each of their first ten jobs."""
        names = islice(list_jobs_of(entries), MOST_READ)
        known = {name: job for name in names if (job := self.ledger.read(name)) is not None}
        return forecast_replay(entries, known, estimate(entries), prices)

    def _of(self, act: NightAct, sizes: Sequence[JobSize], prices: Prices, now: datetime) -> ActForecast:
        if act not in _RUNS or not sizes:
            return forecast_act(act, sizes, {}, None, prices, now)
        return forecast_act(act, sizes, dict(self._read_speeds(sizes)), self.fleet(), prices, now)

    def _read_speeds(self, sizes: Sequence[JobSize]) -> Iterator[tuple[str, Speed]]:
        for name in sorted({one.workload for one in sizes} - {one.workload for one in sizes if one.speed}):
            if name not in self._known:
                self._known[name] = self.speeds.read(name)
            if (speed := self._known[name]) is not None:
                yield name, speed
