"""The forecast of an opening: the jobs that it would start, transactions, chunks, seconds, price. It writes nothing.

The chunks of the held jobs are put one job after the other, as a release does, and the tasks that the rules in force
allow work them off. What the workload calls is not known here, nor jobs that come meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Final, NamedTuple

from shared.azure import governors_of_work
from shared.concurrency import Fleet, FleetTable, Observation, decide_tasks
from shared.errors import SluiceError
from shared.gate import HeldEntry, HeldSummary, HeldTable
from shared.ledger import CLOSED, Job, JobList, JobState, Listed, Wanted
from shared.operating.job_pace import JobPace, measure_pace
from shared.pipeline import Speed, Speeds
from shared.topology import submission_queue
from shared.usage import (
    Prices,
    add,
    bill_of,
    count_requests,
    load as load_prices,
    price,
    requests_of_job,
    requests_of_rerun,
)

#: Held rows that are read, and lines of the list beside them, a request for a thousand.
MOST_HELD: Final = 5_000
_PAGE: Final = 1_000
#: The detail of an act that has its forecast.
DETAIL: Final = "forecast"
_NO_PACE: Final = JobPace()
#: Stands for an end that is not known.
_UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True)
class JobForecast:
    """A job behind the gate."""

    job: str
    chunks: int
    #: None: the list has no line of it.
    items: int | None
    deadline: datetime | None
    #: Seconds of one chunk. None: no speed is known of its workload.
    chunk_seconds: float | None
    #: When it ends. None where the speed of it, or of a job before it, is not known.
    ends: datetime | None = None

    @property
    def is_late(self) -> bool:
        """Return whether it ends after its deadline."""
        return self.deadline is not None and self.ends is not None and self.ends > self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The work that would start. Jobs stand in their order."""

    jobs: Sequence[JobForecast]
    #: Held messages that are no jobs: orders, and those of others.
    others: int
    #: More is held than was read.
    is_cut: bool
    #: Messages that wait already, as last seen.
    waiting: int
    tasks: int
    binding: str
    requests: int
    amount: Decimal
    now: datetime

    @property
    def chunks(self) -> int:
        """All chunks."""
        return sum(job.chunks for job in self.jobs)

    @property
    def items(self) -> int:
        """All transactions, as far as they are known."""
        return sum(job.items or 0 for job in self.jobs)

    @property
    def is_about(self) -> bool:
        """Return whether the transactions of a job are not known."""
        return any(job.items is None for job in self.jobs)

    @property
    def ends(self) -> datetime | None:
        """When all have ended. None: a speed is not known."""
        ends = [job.ends for job in self.jobs]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    @property
    def seconds(self) -> float | None:
        """Seconds until all have ended. None: a speed is not known."""
        return None if self.ends is None else (self.ends - self.now).total_seconds()


@dataclass(frozen=True, slots=True)
class GateForecaster:
    """Reads what a forecast needs: held rows, lines of jobs, the fleet, and the speed of each workload."""

    held: HeldTable
    jobs: JobList
    fleet: FleetTable
    speeds: Speeds

    def forecast(self, gate: str, prices: Prices, now: datetime) -> Forecast:
        """Return the forecast of opening the gate now. Five requests for a thousand jobs of one workload."""
        rows = list(islice((entry for page in self.held.pages(gate) for entry in page), MOST_HELD + 1))
        lines = self._read_lines(gate, len(rows))
        workloads = {line.workload for line in lines.values() if line.workload}
        speeds = {name: speed for name in sorted(workloads) if (speed := self.speeds.read(name)) is not None}
        ended = self.jobs.page(Wanted(state=JobState.COMPLETE), _PAGE).jobs if rows else []
        mean = sum(row.chunks for row in rows) / max(1, len(rows))
        pace = measure_pace(ended, mean, speeds)
        return forecast(rows, lines, speeds, self.fleet.read(), prices, now, pace)

    def note(self, gate: str, held: HeldSummary, prices: Prices, at: datetime) -> dict[str, str]:
        """Return the detail of an opening at that time, by the work that is held now.

        Empty: nothing is held, or orders, whose sale begins at once, or storage does not answer.
        """
        if held.count and not held.has_orders:
            with suppress(SluiceError):
                return note_forecast(self.forecast(gate, prices, at), prices)
        return {}

    def foretell(self, gate: str, at: datetime) -> dict[str, str]:
        """Return the detail of an opening that is planned. One request, and those of a forecast if something is held."""
        with suppress(SluiceError):
            return self.note(gate, self.held.summary(gate), load_prices(), at)
        return {}

    def _read_lines(self, gate: str, most: int) -> dict[str, Listed]:
        found, after = dict[str, Listed](), ""
        for _ in range(1 + most // _PAGE):
            page = self.jobs.page(Wanted(state=JobState.HELD, gate=gate), _PAGE, after, has_news=False)
            found |= {line.job: line for line in page.jobs}
            if page.after is None:
                break
            after = page.after
        return found


def forecast(  # noqa: PLR0913, PLR0917 - each is read from another place
    rows: Sequence[HeldEntry],
    lines: Mapping[str, Listed],
    speeds: Mapping[str, Speed],
    fleet: Fleet,
    prices: Prices,
    now: datetime,
    pace: JobPace = _NO_PACE,
) -> Forecast:
    """Return the forecast of these held rows. Pure."""
    read = rows[:MOST_HELD]
    held = [row for row in read if row.queue == submission_queue()]
    chunks, seen = sum(row.chunks for row in held), fleet.decision.observation if fleet.decision else None
    waiting = (seen.depth if seen and fleet.fresh(now) else 0) + fleet.waiting(now)
    latency = fleet.latency(now) or (seen.latency if seen else None)
    jobs = [_read_job(row, lines.get(row.id), speeds, latency) for row in held]
    mean = _mean_seconds(jobs)
    wanted = Observation(depth=waiting + chunks, hour=now.hour, latency=mean)
    decision = decide_tasks(fleet.rules, wanted, governors_of_work(fleet.governors), None, None, now)
    order = {row.id: row.order((mean or 0.0) / max(1, decision.tasks)) for row in held}
    ordered = sorted(jobs, key=lambda job: order[job.job])
    usage = add(*(requests_of_job(row.chunks) for row in held))
    return Forecast(
        jobs=_time_jobs(ordered, waiting * (mean or 0.0), decision.tasks, now, pace),
        others=len(read) - len(held),
        is_cut=len(rows) > MOST_HELD,
        waiting=waiting,
        tasks=min(decision.tasks, waiting + chunks),
        binding=decision.binding,
        requests=sum(usage.values()),
        amount=price(usage, prices).total,
        now=now,
    )


def _read_job(row: HeldEntry, line: Listed | None, speeds: Mapping[str, Speed], latency: float | None) -> JobForecast:
    items, speed = (line.items if line else None), speeds.get((line and line.workload) or "")
    seconds = latency
    if speed is not None and items is not None:
        seconds = items / max(1, row.chunks) * speed.milliseconds / speed.items / 1000
    return JobForecast(row.id, row.chunks, items, row.deadline, seconds)


def _mean_seconds(jobs: Iterable[JobForecast]) -> float | None:
    known = [(job.chunks, job.chunk_seconds) for job in jobs if job.chunk_seconds is not None]
    chunks = sum(number for number, _ in known)
    return sum(number * seconds for number, seconds in known) / chunks if chunks else None


def _time_jobs(
    jobs: Sequence[JobForecast], before: float, tasks: int, now: datetime, pace: JobPace
) -> list[JobForecast]:
    """Return the jobs with their ends: the work before each is shared by the tasks, and a chunk is done by one.

    No job ends sooner after the one before it than jobs ended lately.
    """
    found, work, is_known = list[JobForecast](), before, tasks > 0
    for number, job in enumerate(jobs, 1):
        is_known = is_known and job.chunk_seconds is not None
        if not is_known:
            found.append(job)
            continue
        seconds = job.chunk_seconds or 0.0
        work += job.chunks * seconds
        ends = now + timedelta(seconds=max(seconds, work / tasks, number * pace.each) + pace.rest)
        found.append(JobForecast(job.job, job.chunks, job.items, job.deadline, job.chunk_seconds, ends))
    return found


@dataclass(frozen=True, slots=True)
class ForecastNote:
    """A forecast as the audit keeps it: `<jobs> <end or -> <amount> <currency> <billed before>`."""

    jobs: int
    ends: datetime | None
    amount: Decimal
    currency: str
    #: The price of all requests of its job before the act.
    before: Decimal = Decimal()

    def __str__(self) -> str:
        ends = _UNKNOWN if self.ends is None else self.ends.astimezone(UTC).isoformat(timespec="seconds")
        return f"{self.jobs} {ends} {self.amount:f} {self.currency} {self.before:f}"


def note_forecast(found: Forecast, prices: Prices) -> dict[str, str]:
    """Return the detail of the act that this is the forecast of. Empty: it starts no job."""
    if not found.jobs:
        return {}
    return {DETAIL: str(ForecastNote(len(found.jobs), found.ends, found.amount, prices.currency))}


def read_note(text: str | None) -> ForecastNote | None:
    """Read the detail. None: the act has no such detail, or another version wrote it."""
    if text is None:
        return None
    try:
        jobs, ends, amount, currency, before = text.split(" ")
        at = None if ends == _UNKNOWN else datetime.fromisoformat(ends)
        return ForecastNote(int(jobs), at, Decimal(amount), currency, Decimal(before))
    except (ValueError, InvalidOperation):
        return None


@dataclass(frozen=True, slots=True)
class Happened:
    """How far the jobs have come that an opening started, and what they cost so far."""

    jobs: int
    ended: int
    #: When the last of them has ended. None: not all have.
    ended_at: datetime | None
    amount: Decimal


def describe_check(note: ForecastNote, happened: Happened) -> str:
    """Say what was forecast, and what happened."""
    ends = "no end" if note.ends is None else f"{note.ends:%H:%M:%S}"
    said = f"forecast {ends}, {note.amount:.7f} {note.currency}"
    cost = f"{happened.amount:.7f} {note.currency}"
    if happened.ended_at is None:
        return f"{said}; so far {happened.ended} of {note.jobs} jobs ended, {cost}"
    return f"{said}; happened {happened.ended_at:%H:%M:%S}, {cost}"


class WorkPart(NamedTuple):
    """Chunks of a job that are to run."""

    job: str
    workload: str
    chunks: int
    items: int


def forecast_work(
    parts: Sequence[WorkPart], speeds: Mapping[str, Speed], fleet: Fleet, prices: Prices, now: datetime
) -> Forecast:
    """Return the forecast of chunks that jobs run which were accepted before. Pure."""
    rows = [
        HeldEntry(gate="", id=one.job, epoch=0, queue=submission_queue(), message="", held_at=now, chunks=one.chunks)
        for one in parts
    ]
    lines = {one.job: Listed(one.job, now, one.workload, None, items=one.items, chunks=one.chunks) for one in parts}
    usage = add(*(requests_of_rerun(one.chunks) for one in parts))
    found = forecast(rows, lines, speeds, fleet, prices, now)
    return replace(found, requests=sum(usage.values()), amount=price(usage, prices).total)


def speed_of(job: Job) -> Speed | None:
    """Return the speed of the chunks of a job that have ended. None: of none."""
    ran = job.totals.items
    return Speed(milliseconds=job.milliseconds, items=ran) if ran and job.milliseconds else None


def forecast_rerun(job: Job, fleet: Fleet, prices: Prices, now: datetime, *, newest: bool = False) -> dict[str, str]:
    """Return the detail of another run of a job, of the size and at the speed of the run before. Empty: it had no plan.

    `newest`: its plan is made anew, from sources that moved on. How many lines they have now is read only then.
    """
    if not job.chunks:
        return {}
    speed = speed_of(job)
    speeds = {job.workload: speed} if speed else {}
    found = forecast_work([WorkPart(job.job, job.workload, job.chunks, job.items)], speeds, fleet, prices, now)
    amount = price(requests_of_job(job.chunks), prices).total if newest else found.amount
    before = price(count_requests(job), prices).total
    return {DETAIL: str(ForecastNote(1, found.ends, amount, prices.currency, before))}


def check_rerun(job: Job, note: ForecastNote, prices: Prices) -> tuple[ForecastNote, Happened]:
    """Return the forecast of another run of a job, and how far that is."""
    is_over = job.state in CLOSED
    spent = bill_of(job, prices).total - note.before
    return note, Happened(1, int(is_over), job.finished_at if is_over else None, spent)
