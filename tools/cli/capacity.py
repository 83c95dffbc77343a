"""`sluice tune capacity`: what a load takes, and which ceiling comes first with how many instances."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from shared.app import Stores
from shared.ledger import MERGED_MOST
from shared.memory import MIB
from shared.payload import Limits
from shared.usage import load as load_prices
from tools.cli import capacity_view as view
from tools.cli.cost_idle import installed
from tools.cli.options import PROBLEM_FOUND, JsonOption, PricesOption, SettingsOption, connected, end
from tools.cli.screen import Screen
from tools.planning.azure_limits import INSTANCES, REGION
from tools.planning.capacity import STEPS
from tools.planning.load import Load, Machines
from tools.planning.measured import constants

#: Beyond this the arithmetic says nothing that an operator could use.
MOST_TRANSACTIONS: Final = 100_000_000_000

InstancesOption = Annotated[
    list[int] | None,
    typer.Option(
        "--instances",
        min=1,
        max=INSTANCES.most,
        help=f"A row for so many instances; may be repeated. Else {', '.join(map(str, STEPS))}.",
    ),
]


def show_capacity(  # noqa: PLR0913 - each is a property of the load or of the app
    *,
    transactions: Annotated[
        int, typer.Option(min=1, max=MOST_TRANSACTIONS, help="Transactions of a day, all dropped at once.")
    ] = 10_000_000,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Jobs that they are divided into. Else as few as a job's bound allows.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="As SLUICE_CHUNK_ITEMS. Else as `auto` decides.")
    ] = None,
    accounts: Annotated[int, typer.Option(min=1, max=10_000_000, help="Accounts of a job.")] = 500,
    has_split: Annotated[
        bool, typer.Option("--split/--no-split", help="Whether your workload has `split`, as billing has.")
    ] = True,
    is_raw: Annotated[
        bool, typer.Option("--raw-file", help="The payload is a plain file: above 128 MiB all workers cut it.")
    ] = False,
    cpu: Annotated[
        float | None,
        typer.Option(
            "--cpu-us", min=0.01, max=1e8, help="Microseconds of CPU of your `map` per transaction. Else billing's."
        ),
    ] = None,
    wall: Annotated[
        float | None,
        typer.Option(
            "--wall-ms", min=0.000_1, max=1e5, help="Milliseconds of a chunk per transaction, waiting included."
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="Take --wall-ms from this workload's measured speed in the installation.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, max=2000, help="Tasks that your rules allow. Else as the built-in ones do.")
    ] = None,
    queues: Annotated[int, typer.Option(min=1, max=100, help="As SLUICE_WORK_QUEUES.")] = 1,
    instances: InstancesOption = None,
    most: Annotated[
        int, typer.Option(min=1, max=INSTANCES.most, help="Maximum instance count: of each function.")
    ] = 100,
    round_trip: Annotated[
        float, typer.Option("--round-trip-ms", min=0, max=1000, help="Milliseconds of a request on its way. Assumed.")
    ] = 10.0,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate a load: time, requests, money, the longest tick, memory, and the ceiling that comes first.

    The constants were measured on one machine and on Azurite (docs/capacity.md). None was measured on Azure.
    """
    if workload is not None and wall is not None:
        raise typer.BadParameter("give one of --workload and --wall-ms: both say how long a transaction takes")
    items_most = Limits().of_stretches().items_most
    wanted = Load(
        transactions=transactions,
        jobs=jobs or math.ceil(transactions / items_most),
        chunk_items=chunk,
        accounts=accounts,
        has_split=has_split,
        is_raw=is_raw,
        cpu=None if cpu is None else cpu / 1e6,
        wall=None if wall is None else wall / 1e3,
    )
    if wanted.jobs > transactions:
        raise typer.BadParameter(f"{wanted.jobs} jobs cannot share {transactions} transactions", param_hint="--jobs")
    if wanted.job_items > items_most:
        raise typer.BadParameter(
            f"{wanted.jobs} jobs of {wanted.job_items:,} transactions each: a job has at most {items_most:,}, so give "
            f"{math.ceil(transactions / items_most)} jobs or more",
            param_hint="--jobs",
        )
    _end_if_too_large(wanted)
    if workload is not None:
        wanted = replace(wanted, wall=_measured_wall(workload, settings))
    if most > REGION.most:
        typer.echo(f"sluice: note that a region gives a subscription {REGION.most} {REGION.what}", err=True)
    groups = installed(settings).function_groups
    machines = Machines(tasks=tasks, queues=queues, most=most, round_trip=round_trip / 1e3)
    estimate = view.Estimate.of(
        wanted, machines, constants(), load_prices(prices), sorted(set(instances or STEPS)), groups=groups
    )
    if as_json:
        typer.echo(json.dumps(view.document(estimate)))
    else:
        screen = Screen()
        for table in view.tables(estimate):
            screen.show(table)


def _end_if_too_large(wanted: Load) -> None:
    """End with the reason for which such a job would be paused."""
    if wanted.is_too_large:
        typer.echo(
            f"does not end: the merged partial would have {wanted.merged_bytes / MIB:.0f} MiB, one process may have "
            f"{MERGED_MOST / MIB:.0f} (SLUICE_MERGED_MIB). Give the workload a split.",
            err=True,
        )
        raise typer.Exit(PROBLEM_FOUND)


def _measured_wall(workload: str, settings: Path | None) -> float:
    with connected(settings) as connections:
        speed = Stores(connections).speeds.read(workload)
    if speed is None:
        end(
            f"workload {workload!r} has no measured speed: its next job of 100,000 or more transactions notes "
            "it; until then give --wall-ms"
        )
    return speed.milliseconds / speed.items / 1e3
