"""`sluice orders`, `sluice processes` and `sluice seats`: what an operator reads of registration, and its one key."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.options import PROBLEM_FOUND, WRONG_CALL, ByOption, JsonOption, SettingsOption, WhyOption, YesOption, connected
from cli.screen import Screen, clean
from cli.settings_file import load_connected
from shared.app import RegistrationStores, Stores
from shared.operating import AuditedAct
from shared.processes import STUCK_AFTER, TimeoutRow
from shared.registration import (
    KEYS,
    KEYS_KEPT,
    ORDER_MODEL,
    OrderPhase,
    OrderState,
    describe_order,
    order_home,
    state_of,
)
from shared.settings import Settings

orders = typer.Typer(help="Orders for the seats of conferences.", no_args_is_help=True)
processes = typer.Typer(help="What orders wait for, and why they are where they are.", no_args_is_help=True)
seats = typer.Typer(help="The seats of conferences.", no_args_is_help=True)

OrderArgument = Annotated[str, typer.Argument(help="The id of the order, or its number.", metavar="ORDER")]
MostOption = Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")]


@orders.command("show")
def show_order(order: OrderArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show an order as its customer reads it, with the payments that a person has to settle."""
    with _opened(settings) as (stores, _):
        view = stores.orders.look_up(order)
    if view is None:
        _end(f"there is no order {order!r}")
    else:
        _print(describe_order(view.order), as_json=as_json)


@orders.command("list")
def list_orders(
    state: Annotated[OrderPhase | None, typer.Option(help="Only orders in this state.")] = None,
    most: MostOption = 100,
    settings: SettingsOption = None,
    *,
    unsettled: Annotated[bool, typer.Option("--unsettled", help="Only orders with unsettled payments.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List orders from the current view, in no order of time."""
    found = []
    with _opened(settings) as (stores, _):
        for one in _views(stores):
            if (state is None or one.phase is state) and (one.unsettled or not unsettled):
                found.append(describe_order(one))
            if len(found) == most:
                break
    shown = ("order", "number", "conference", "state", "total", "paid", "expires_at")
    _print_rows("orders", found, shown, as_json=as_json)


@orders.command("new-key")
def add_key(
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add a key for the access codes of new orders. Earlier orders keep their key and their codes."""
    with _opened(settings) as (stores, _):
        if not yes:
            typer.confirm("Derive the access codes of new orders from a new key?", abort=True, err=True)
        with stores.stores.audit.record(AuditedAct(by, "orders new-key", KEYS, why)) as act:
            number = stores.code_keys.add()
            act.result = f"done: key {number}"
    minutes = KEYS_KEPT // timedelta(minutes=1)
    _print({"key": number, "in_use_within": f"{minutes} minutes"}, as_json=as_json)


@processes.command("list")
def list_processes(
    most: MostOption = 100,
    settings: SettingsOption = None,
    *,
    stuck: Annotated[bool, typer.Option("--stuck", help="Only those that should have ended two ticks ago.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the orders that run, the one that expires first at the top. An order that is held does not run."""
    with _opened(settings) as (stores, _):
        now = stores.clock.now()
        rows = stores.read_timeouts(now - STUCK_AFTER) if stuck else stores.read_timeouts()
    found = [_timeout(row, now) for row in rows[:most]]
    _print_rows("processes", found, ("order", "expires", "late_seconds"), as_json=as_json)
    if stuck and found:
        raise typer.Exit(PROBLEM_FOUND)


@processes.command("show")
def show_process(order: OrderArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show the causal story of an order: events, skipped replies with their class, and its commands.

    A command was sent when a later write knew it: `sent_by` is the time of that write. The last one has no later write.
    """
    with _opened(settings) as (stores, parsed):
        found = stores.tell_order(order, parsed.registration)
    if found is None:
        _end(f"there is no order {order!r}")
        return
    if as_json:
        typer.echo(json.dumps(found))
        return
    events, commands = found.pop("events"), found.pop("commands")
    _print(found, as_json=False)
    shown = ("version", "kind", "to", "generation", "decided_at", "sent_by", "id")
    _print_rows("commands", commands, shown, as_json=False)
    _print_rows("events", events, ("version", "at", "kind", "generation", "command", "body"), as_json=False)


@seats.command("show")
def show_seats(
    conference: Annotated[str, typer.Argument(help="The conference.", metavar="CONFERENCE")],
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the balance of a conference, proven from all its events: available, reserved and confirmed are the quota."""
    with _opened(settings) as (stores, _):
        found = stores.tell_seats(conference)
    if found is None:
        _end(f"there is no conference {conference!r}")
        return
    if as_json:
        typer.echo(json.dumps(found))
    else:
        rows = [{"type": name, **numbers} for name, numbers in found["types"].items()]
        _print_rows("seats", rows, ("type", "price", "quota", "available", "reserved", "confirmed"), as_json=False)
        _print({"events": found["events"], "uneven": found["uneven"], "overdue": found["overdue"]}, as_json=False)
    if found["uneven"]:
        raise typer.Exit(PROBLEM_FOUND)


@contextmanager
def _opened(settings: Path | None) -> Iterator[tuple[RegistrationStores, Settings]]:
    parsed = Settings.parse(load_connected(settings))
    if not parsed.registration.is_on:
        typer.echo("sluice: SLUICE_REGISTRATION is off: this installation has no orders", err=True)
        raise typer.Exit(WRONG_CALL)
    with connected(settings) as connections:
        yield RegistrationStores(Stores(connections)), parsed


def _views(stores: RegistrationStores) -> Iterator[OrderState]:
    pointer = stores.views.pointers.read(ORDER_MODEL)
    for page in stores.views.slots[pointer.slot].scan(ORDER_MODEL.name, pointer.current):
        yield from (state_of(one.view) for one in page if one.view)


def _timeout(row: TimeoutRow, now: datetime) -> dict[str, Any]:
    late = max(timedelta(), now - row.due).total_seconds()
    return {"order": row.home.removeprefix(order_home("")), "expires": row.due.isoformat(), "late_seconds": int(late)}


def _end(said: str) -> None:
    typer.echo(f"sluice: {said}", err=True)
    raise typer.Exit(PROBLEM_FOUND)


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document))
        return
    table = Table(show_header=False, box=None)
    for name, value in document.items():
        table.add_row(name, clean(_text(value)))
    Screen().show(table)


def _print_rows(name: str, rows: list[dict[str, Any]], shown: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({name: rows}))
        return
    table = Table(*shown)
    for row in rows:
        table.add_row(*(clean(_text(row[column])) for column in shown))
    Screen().show(table)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
