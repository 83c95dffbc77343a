"""`sluice gate open --dry-run`: jobs, transactions, seconds and price of an opening. It writes nothing."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.table import Table

from shared.app import Stores
from shared.operating import Forecast
from shared.usage import load
from tools.cli.cost_view import money, plain
from tools.cli.moments import show_moment
from tools.cli.options import connected
from tools.cli.screen import Screen, clean

#: Jobs of the table.
_MOST_SHOWN: Final = 20


def show_forecast(name: str, settings: Path | None, *, as_json: bool) -> None:
    """Print what opening the gate would start."""
    with connected(settings) as connections:
        stores = Stores(connections)
        found = stores.gate_forecaster.forecast(name, load(), stores.clock.now())
    if as_json:
        typer.echo(json.dumps(_document(name, found)))
        return
    for sentence in _describe(name, found):
        typer.echo(sentence)
    if found.jobs:
        Screen().show(_table(found))


def say_forecast(stores: Stores, name: str, at: datetime) -> None:
    """Say before the question what opening the gate then would start."""
    found = stores.gate_forecaster.forecast(name, load(), at)
    for sentence in _describe(name, found) if found.jobs else ():
        typer.echo(sentence, err=True)


def _describe(name: str, found: Forecast) -> Iterator[str]:
    """Yield the sentences of a forecast."""
    about = "at least " if found.is_about or found.is_cut else ""
    wait = f"; {found.waiting:,} messages wait already" if found.waiting else ""
    yield (
        f"opening {name} starts {len(found.jobs):,} jobs: {about}{found.items:,} transactions in {found.chunks:,} chunks"
        f"{f', and {found.others:,} other messages' if found.others else ''}{wait}"
    )
    seconds = "a speed is not known" if found.seconds is None else f"about {found.seconds:,.0f} s"
    yield (
        f"{seconds} with {found.tasks:,} tasks (bound by {found.binding}), {found.requests:,} requests, {money(found.amount)} USD"
    )
    yield "not known here: what the workload calls, and jobs that come meanwhile"


def _table(found: Forecast) -> Table:
    """Return the jobs in the order in which they start."""
    more = len(found.jobs) - _MOST_SHOWN
    caption = f"and {more:,} more" if more > 0 else None
    table = Table("job", "transactions", "chunks", "ends (UTC)", "deadline", title="What would start", caption=caption)
    for job in found.jobs[:_MOST_SHOWN]:
        deadline = f"{show_moment(job.deadline)}{', late' if job.is_late else ''}" if job.deadline else ""
        items = "" if job.items is None else f"{job.items:,}"
        table.add_row(clean(job.job), items, f"{job.chunks:,}", show_moment(job.ends) if job.ends else "", deadline)
    return table


def _document(name: str, found: Forecast) -> dict[str, Any]:
    """Return the forecast for programs."""
    return {
        "gate": name,
        "jobs": len(found.jobs),
        "others": found.others,
        "items": found.items,
        "chunks": found.chunks,
        "waiting": found.waiting,
        "tasks": found.tasks,
        "binding": found.binding,
        "seconds": found.seconds,
        "requests": found.requests,
        "amount": plain(found.amount),
        "late": sum(job.is_late for job in found.jobs),
    }
