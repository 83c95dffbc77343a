"""`sluice cost`: the price of jobs, months and choices, from a table. Reads the ledger, so the app may be down."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from shared.app import Stores
from shared.concurrency import Observation, Rules, Stretch, read as read_trace
from shared.dequeue import SlotPlan
from shared.errors import PlanLostError
from shared.ledger import Job, Ledger
from shared.pipeline import PlanStore, read_plan
from shared.usage import (
    BUILT_IN,
    WorkVolume,
    bill_of,
    demand_of_arrivals,
    demand_of_jobs,
    forecast_month,
    load,
    read_notes,
)
from tools.cli import cost_compare_view as comparison, cost_idle, cost_view as view
from tools.cli.cost_idle import InstancesOption, PollingOption, installed
from tools.cli.jobs import JobArgument, find_job
from tools.cli.options import JsonOption, PricesOption, SettingsOption, connected
from tools.cli.screen import Screen
from tools.planning.comparison import InlineOrBlob, PushOrPoll, Work
from tools.planning.example import IdlePolling
from tools.planning.idle_modes import IdleModes
from tools.planning.wake_prices import Dispatch, wakings

#: Jobs that a forecast looks back at: each is a request.
MOST_JOBS = 500
#: Plans that are read to learn how large payloads are.
MOST_PLANS = 20

app = typer.Typer(
    help="What it costs: a job, a month, push against polling; by prices that you can replace.\n\nAll figures are "
    "requests times a price: nothing is asked of Azure. `sluice cost prices` prints the table and how sure it is.",
    no_args_is_help=True,
)

TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", exists=True, dir_okay=False, help="A recorded trace instead of the jobs in the ledger."),
]
PushOption = Annotated[
    bool | None,
    typer.Option("--push/--trigger", help="As with SLUICE_DEQUEUE=push or =trigger, instead of that of the settings."),
]
app.command("idle")(cost_idle.idle)


@app.command("job")
def job_bill(
    job: JobArgument, prices: PricesOption = None, settings: SettingsOption = None, *, as_json: JsonOption = False
) -> None:
    """Bill one job, beside the price of one message per transaction."""
    table = load(prices)
    with connected(settings) as connections:
        bill = bill_of(find_job(Stores(connections), job), table)
    if as_json:
        typer.echo(json.dumps(view.job_document(bill)))
    else:
        view.print_job(bill, Screen())


@app.command("month")
def month_forecast(  # noqa: PLR0913 - each is one fact about the installation
    trace: TraceOption = None,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    *,
    days: Annotated[int, typer.Option(min=1, max=365, help="How many days of jobs to read.")] = 30,
    push: PushOption = None,
    instances: InstancesOption = 1,
    polling: PollingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast a month: work like the last days, polling when idle, and the fixed charges."""
    demand = _demand(trace, settings, days)
    one = installed(settings, instances=instances, polling=polling)
    one = one if push is None else replace(one, is_push=push)
    found = forecast_month(demand, one, table := load(prices))
    if as_json:
        typer.echo(json.dumps(view.month_document(found, table)))
    else:
        view.print_month(found, table, Screen())


@app.command("day")
def day(
    when: Annotated[
        datetime | None, typer.Argument(formats=["%Y-%m-%d"], metavar="[DAY]", help="UTC; else today.")
    ] = None,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Add up the requests that all processes noted on a day: by queue, container, table and cause."""
    wanted, table = (when or datetime.now(UTC)).date(), load(prices)
    with connected(settings) as connections:
        notes = read_notes(Stores(connections).usage, wanted)
    if as_json:
        typer.echo(json.dumps(view.day_document(wanted, notes, table)))
    else:
        view.print_day(wanted, notes, table, Screen())


@app.command("example")
@app.command("seed", hidden=True)
def example(prices: PricesOption = None, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Work out an example: the price of idle pollers, and of the same idleness with Sluice."""
    if as_json:
        typer.echo(json.dumps(view.example_document(IdlePolling())))
    else:
        view.print_example(IdlePolling(), IdleModes.of(installed(settings)), load(prices), Screen())


@app.command("compare")
def compare(  # noqa: PLR0913 - each is one fact about the comparison
    trace: TraceOption = None,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    *,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between polls.")] = 1.0,
    permits: Annotated[int, typer.Option(min=1, help="Permits of one awakening.")] = 1,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks that a permit starts.")] = 4,
    days: Annotated[int, typer.Option(min=1, max=365, help="How many days of jobs to read.")] = 30,
    stored: Annotated[
        int | None, typer.Option(min=1, help="Stored bytes of a payload; else the median of the last jobs.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare push with polling, the policies of waking, messages with blobs: where they cross, and where you are."""
    table, woken = load(prices), []
    if trace:
        work, span = _work_of_trace(trace)
    else:
        with connected(settings) as connections:
            stores = Stores(connections)
            jobs = _since(stores.ledger, datetime.now(UTC) - timedelta(days=days))
            woken = wakings(_dispatches(jobs), _fleet(stores.fleet.read().rules, tasks))
            stored = stored or median_stored(stores.plans, stores.ledger, jobs)
        work, span = _work_of_jobs(jobs)
    found = comparison.Comparison(
        PushOrPoll(interval, permits, tasks, table),
        InlineOrBlob(table),
        tuple(work),
        span,
        tuple(woken),
        stored,
    )
    if as_json:
        typer.echo(json.dumps(comparison.document(found)))
    else:
        comparison.print_out(found, Screen())


@app.command("prices")
def show_prices(prices: PricesOption = None) -> None:
    """Print the table of prices, to read or to change."""
    load(prices)
    typer.echo((prices or BUILT_IN).read_text(encoding="utf-8"), nl=False)


def _demand(trace: Path | None, settings: Path | None, days: int) -> WorkVolume:
    if trace is None:
        return demand_of_jobs(_jobs(settings, days), datetime.now(UTC))
    arrivals = [(one.at, one.seconds, one.arrived) for one in _trace(trace)]
    return demand_of_arrivals(arrivals, f"the trace {trace}")


def _work_of_jobs(jobs: list[Job]) -> tuple[list[Work], timedelta]:
    now = datetime.now(UTC)
    since = min((job.accepted_at for job in jobs), default=now)
    return [Work(job.started_at or job.accepted_at, job.finished_at) for job in jobs], now - since


def _work_of_trace(trace: Path) -> tuple[list[Work], timedelta]:
    found = [one for one in _trace(trace) if one.arrived or one.depth]
    work = [Work(one.at, one.at + timedelta(seconds=one.seconds)) for one in found]
    return work, (work[-1].ended or work[-1].began) - work[0].began if work else timedelta()


def _fleet(rules: Rules, tasks: int) -> SlotPlan:
    return SlotPlan(rule=lambda depth: rules.ask(Observation(depth=depth)).tasks, cap=lambda: rules.most, tasks=tasks)


def median_stored(plans: PlanStore, ledger: Ledger, jobs: list[Job]) -> int | None:
    """Return the median stored size of the newest jobs' payloads, or None if no plan is left."""
    sizes = []
    for job in jobs[:MOST_PLANS]:
        # The plans of old jobs are swept with their payloads.
        with suppress(PlanLostError):
            if job.plan is not None:
                sizes.append(read_plan(plans, ledger, job).stored)
    return round(median(sizes)) if sizes else None


def _dispatches(jobs: list[Job]) -> list[Dispatch]:
    return [
        Dispatch(job.started_at, job.chunks, job.finished_at - job.started_at)
        for job in jobs
        if job.started_at and job.finished_at
    ]


def _trace(path: Path) -> list[Stretch]:
    with path.open("rb") as file:
        return read_trace(file).stretches


def _jobs(settings: Path | None, days: int) -> list[Job]:
    with connected(settings) as connections:
        return _since(Stores(connections).ledger, datetime.now(UTC) - timedelta(days=days))


def _since(ledger: Ledger, since: datetime) -> list[Job]:
    listed = [one for one in ledger.newest(MOST_JOBS) if one.accepted_at >= since]
    return [job for one in listed if (job := ledger.read(one.job)) is not None]
