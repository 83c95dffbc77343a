"""`sluice doctor --deep`: whether storage and bus do what Sluice relies on."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.table import Table

from shared.azure import Connections
from shared.usage import load, price
from tools.cli.cost_view import money
from tools.cli.options import PROBLEM_FOUND
from tools.cli.screen import Screen, clean
from tools.cli.settings_file import load_connected
from tools.conformance import (
    PREFIX,
    PROPERTIES,
    QUEUES,
    REQUESTS,
    SECONDS,
    TOPICS,
    Finding,
    Report,
    State,
    examine,
    new_nonce,
)

#: A request that gets no answer says so at once: its check can be repeated.
_RETRIES: Final = 0


def check_deeply(settings: Path | None, only: Sequence[str], *, is_sure: bool, as_json: bool) -> None:
    """Ask, run the checks, print what they found."""
    keys, now = _chosen(only), datetime.now(UTC)
    nonce = new_nonce(now)
    with Connections.parse(load_connected(settings), is_person=True, retries=_RETRIES) as connections:
        if not is_sure:
            _ask(len(keys), nonce)
        with _ended_as_by_hand():
            report = examine(connections, keys, now, nonce, _tell_progress)
    if as_json:
        typer.echo(json.dumps(_document(report)))
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(PROBLEM_FOUND)


def _chosen(only: Sequence[str]) -> list[str]:
    """Return the properties that a person named, by their keys or by their services. None named: all."""
    found = [key for key in PROPERTIES if not only or any(one in {key, key.partition(".")[0]} for one in only)]
    known = {*PROPERTIES, *(one.service for one in PROPERTIES.values())}
    if unknown := [one for one in only if one not in known]:
        raise typer.BadParameter(
            f"{unknown[0]!r} is no property: name a service such as blob, or one of {', '.join(PROPERTIES)}"
        )
    return found


def _ask(count: int, nonce: str) -> None:
    bill = price(REQUESTS, load())
    typer.echo(
        f"This tries {count} properties in places of its own: a container, a table, queues, and on the bus "
        f"{len(QUEUES)} queues and {len(TOPICS)} topic, all named {PREFIX}-{nonce}. It reads and writes nothing of jobs, "
        "and removes all of it afterwards.\n"
        f"It takes about {SECONDS} s and {bill.requests} requests at most, for {money(bill.total)} USD.",
        err=True,
    )
    typer.confirm("go on?", abort=True, err=True)


def _tell_progress(ended: int, count: int) -> None:
    typer.echo(f"{ended} of {count} checks have ended", err=True)


@contextmanager
def _ended_as_by_hand() -> Iterator[None]:
    """Let a closed terminal and a SIGTERM end the run as Ctrl-C does: what it made is removed."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _document(report: Report) -> dict[str, object]:
    return {
        "ok": report.ok,
        "properties": [
            {
                "property": one.property.key,
                "what": one.property.what,
                "page": f"docs/{one.property.page}.md",
                "state": one.state.value,
                "tried": one.tried,
                "expected": one.expected,
                "found": one.found,
                "why": one.why,
            }
            for one in report.findings
        ],
        "borrowed": list(report.borrowed),
        "left": [{"kind": one.kind, "name": one.name, "why": one.why} for one in report.left],
        "swept": [{"kind": one.kind, "name": one.name} for one in report.swept],
    }


def _print(report: Report) -> None:
    table = Table("name", "what Sluice relies on", "state", "how it is known", title="Properties of storage and bus")
    for one in report.findings:
        table.add_row(one.property.key, one.property.what, one.state.value, clean(_said(one)))
    Screen().show(table)
    counts = [f"{sum(one.state is state for one in report.findings)} {_COUNTED[state]}" for state in State]
    typer.echo(f"{len(report.findings)} properties: {', '.join(counts)}")
    if report.borrowed:
        typer.echo(f"Your login may make none of its own, so this used the app's {' and '.join(report.borrowed)}.")
    for swept in report.swept:
        typer.echo(f"removed: {swept.kind} {swept.name}, which a killed run had left", err=True)
    for left in report.left:
        typer.echo(f"left over: {left.kind} {left.name} ({left.why}). Remove it by hand.", err=True)


_COUNTED: Final = {
    State.HOLDS: "hold",
    State.BROKEN: "do not hold",
    State.UNCHECKED: "could not be checked",
}


def _said(one: Finding) -> str:
    if one.state is State.BROKEN:
        return f"to {one.tried}: expected {one.expected}, found {one.found}"
    return one.why or f"docs/{one.property.page}.md relies on it"
