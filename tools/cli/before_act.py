"""Says before an act on jobs or a replay what it would do. `--dry-run` ends there, and `--yes` computes nothing."""

import json
from collections.abc import Sequence
from typing import Any

import typer

from shared.app import Stores
from shared.ledger import Job, NightLine
from shared.operating import NightAct, ReplayForecast, describe_act, describe_replay
from shared.usage import load as load_prices
from tools.cli.screen import clean


def say_of_jobs(stores: Stores, act: NightAct, jobs: Sequence[Job]) -> None:
    """Print what the act would do to each of these jobs, with the state that it is in."""
    prices, now = load_prices(), stores.clock.now()
    for job in jobs:
        found = stores.act_forecaster.of_jobs(act, [job], prices, now)
        problem = f" ({job.problem})" if job.problem else ""
        state = f"job {job.job} is {job.state.value} at revision {job.revision}{problem}"
        typer.echo(clean(f"{state}. To {act.value} it: {describe_act(found)}").plain)


def say_of_night(stores: Stores, act: NightAct, lines: Sequence[NightLine]) -> None:
    """Print what the act would do to the jobs of a night."""
    found = stores.act_forecaster.of_night(act, lines, load_prices(), stores.clock.now())
    typer.echo(f"to {act.value} it: {describe_act(found, len(lines))}")


def say_of_replay(found: ReplayForecast, sizes: Sequence[int], *, most: int, err: bool = False) -> None:
    """Print what a replay would do, with the sizes of its first waves. `err`: before a question."""
    shown = ", ".join(map(str, sizes[:most])) + (" ..." if len(sizes) > most else "")
    typer.echo(f"{describe_replay(found)}\n{found.size.entries} to replay, in waves of {shown}", err=err)


def print_replay(found: ReplayForecast, sizes: Sequence[int]) -> None:
    """Print the same for programs."""
    document: dict[str, Any] = {
        "entries": found.size.entries,
        "waves": list(sizes),
        "jobs": found.jobs,
        "again": found.again,
        "items": found.items,
        "is_about": found.is_about,
        "seconds": [found.size.least, found.size.most],
        "requests": found.requests,
        "amount": f"{found.amount:f}",
        "currency": found.currency,
    }
    typer.echo(json.dumps(document))
