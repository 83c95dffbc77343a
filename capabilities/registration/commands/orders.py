"""`sluice orders`, `sluice processes` and `sluice seats`: what an operator reads of registration."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from capabilities.registration.entities import RegistrationChoice
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.http import describe_order
from capabilities.registration.order import OrderPhase, OrderState
from capabilities.registration.order_columns import ORDERS, RUNNING_ORDERS, RunningOrder, running_order
from capabilities.registration.views import ORDER_MODEL, state_of
from shared.processes import STUCK_AFTER
from shared.settings import Settings
from tools.cli import opening
from tools.cli.lists import make_list
from tools.cli.options import FORMER_NAMES, PROBLEM_FOUND, JsonOption, SettingsOption, end
from tools.cli.screen import Screen, clean
from tools.cli.watchable import watchable

orders = typer.Typer(help="Orders for the seats of conferences.", context_settings=FORMER_NAMES, no_args_is_help=True)
processes = typer.Typer(
    help="What orders wait for, and why they are where they are.", context_settings=FORMER_NAMES, no_args_is_help=True
)
seats = typer.Typer(help="The seats of conferences.", no_args_is_help=True)

#: Orders that overtook one, which a person is shown.
_MOST_SHOWN = 10
OrderArgument = Annotated[str, typer.Argument(help="The id of the order, or its number.", metavar="ORDER")]
LimitOption = Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")]


@orders.command("show")
def show_order(order: OrderArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show an order as its customer reads it, with the payments that a person has to settle."""
    with opened(settings) as (stores, _, _):
        view = stores.orders.look_up(order)
    if view is None:
        end(f"there is no order {order!r}")
    else:
        print_document(describe_order(view.order), as_json=as_json)


@orders.command("list")
@watchable
def list_orders(
    state: Annotated[OrderPhase | None, typer.Option(help="Only orders in this state.")] = None,
    limit: LimitOption = 100,
    settings: SettingsOption = None,
    *,
    unsettled: Annotated[bool, typer.Option("--unsettled", help="Only orders with unsettled payments.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List orders from the current view, in no order of time."""
    found = []
    with opened(settings) as (stores, _, _):
        for one in _views(stores):
            if (state is None or one.phase is state) and (one.unsettled or not unsettled):
                found.append(describe_order(one))
            if len(found) == limit:
                break
        now = stores.clock.now()
    if as_json:
        typer.echo(json.dumps({"orders": found}))
    else:
        Screen().show(make_list("Orders", ORDERS, found, now))


@processes.command("list")
@watchable
def list_processes(
    limit: LimitOption = 100,
    settings: SettingsOption = None,
    *,
    stuck: Annotated[bool, typer.Option("--stuck", help="Only those that should have ended two ticks ago.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the orders that run, the one that expires first at the top. An order that is held does not run."""
    with opened(settings) as (stores, _, _):
        now = stores.clock.now()
        rows = stores.read_timeouts(now - STUCK_AFTER) if stuck else stores.read_timeouts()
    found = [running_order(row) for row in rows[:limit]]
    if as_json:
        typer.echo(json.dumps({"processes": [_document(row, now) for row in found]}))
    else:
        Screen().show(make_list("Processes", RUNNING_ORDERS, found, now))
    if stuck and found:
        raise typer.Exit(PROBLEM_FOUND)


@processes.command("show")
def show_process(order: OrderArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show the causal story of an order: events, skipped replies with their class, and its commands.

    A command was sent when a later write knew it: `sent_by` is the time of that write. The last one has no later write.
    """
    with opened(settings) as (stores, _, choice):
        found = stores.tell_order(order, choice)
    if found is None:
        end(f"there is no order {order!r}")
    if as_json:
        typer.echo(json.dumps(found))
        return
    events, commands = found.pop("events"), found.pop("commands")
    print_document(found, as_json=False)
    shown = ("version", "kind", "to", "generation", "decided_at", "sent_by", "id")
    _print_rows(commands, shown)
    _print_rows(events, ("version", "at", "kind", "generation", "command", "body"))


@seats.command("show")
def show_seats(
    conference: Annotated[str, typer.Argument(help="The conference.", metavar="CONFERENCE")],
    why: Annotated[
        str, typer.Option(metavar="ORDER", help="Show instead why this order of a gate got the seats that it got.")
    ] = "",
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the balance of a conference, proven from all its events: available, reserved and confirmed are the quota.

    It ends with status 1 if that does not hold, if an event says other numbers, or if an event was changed or removed. Those
    that an earlier version wrote have no hash: they are named as unproven.
    """
    if why:
        _show_why(conference, why, settings, as_json=as_json)
        return
    with opened(settings) as (stores, _, _):
        found = stores.tell_seats(conference)
    if found is None:
        end(f"there is no conference {conference!r}")
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_seats(found)
        told = ("events", "uneven", "contradictions", "changed", "unproven", "overdue")
        print_document({name: found[name] for name in told}, as_json=False)
    if found["uneven"] or found["contradictions"] or found["changed"]:
        raise typer.Exit(PROBLEM_FOUND)


def _show_why(conference: str, order: str, settings: Path | None, *, as_json: bool) -> None:
    with opened(settings) as (stores, _, _):
        found = stores.tell_why(conference, order)
    if found is None:
        end(
            f"order {order!r} has no place on a roll: it waited behind no gate, came when its gate was open, or the "
            "retention of the roll is over"
        )
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in why_lines(found):
        typer.echo(clean(line))


def why_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield what is said of an order's place and its answer."""
    places = f"place {found['place']:,} of {found['places']:,}"
    roll = f"on the roll of gate {found['gate']!r}, epoch {found['epoch']}, by {found['by']} (sha256 {found['sha256']})"
    yield f"{found['order']}: number {found['number']}; {places} {roll}"
    if found["granted"] is None:
        yield "not answered by this conference"
    else:
        got = [f"{found['granted'].get(name, 0)} of {wanted} {name}" for name, wanted in found["wanted"].items()]
        yield f"reserved {', '.join(got)}, as number {found['answered_as']:,}"
    for name in found["overtaken_by"][:_MOST_SHOWN]:
        yield f"{name}, with a later place, was answered before it: a command that failed is sent again later"
    yield f"{found['overtaking']:,} of {found['places']:,} were answered before an order with an earlier place"
    yield f"{found['inversions']:,} of them got seats of a type of which one with an earlier place got none"
    if found["came_back"]:
        yield f"{found['came_back']:,} got seats that came back after one with an earlier place got none"


@contextmanager
def opened(settings: Path | None) -> Iterator[tuple[RegistrationStores, Settings, RegistrationChoice]]:
    """Yield the stores of an installation with registration, its settings, and the choice of registration."""
    with opening.opened("registration", settings) as found:
        yield RegistrationStores(found.stores), found.settings, found.choice


def _views(stores: RegistrationStores) -> Iterator[OrderState]:
    pointer = stores.views.pointers.read(ORDER_MODEL)
    for page in stores.views.slots[pointer.slot].scan(ORDER_MODEL.name, pointer.current):
        yield from (state_of(one.view) for one in page if one.view)


def _document(row: RunningOrder, now: datetime) -> dict[str, Any]:
    return {"order": row.order, "expires": row.expires.isoformat(), "late_seconds": row.count_late(now)}


def print_document(document: dict[str, Any], *, as_json: bool) -> None:
    """Print names and values, each pair in a line."""
    if as_json:
        typer.echo(json.dumps(document))
        return
    table = Table(show_header=False, box=None)
    for name, value in document.items():
        table.add_row(name, clean(_text(value)))
    Screen().show(table)


def _print_rows(rows: list[dict[str, Any]], shown: tuple[str, ...]) -> None:
    table = Table(*shown)
    for row in rows:
        table.add_row(*(clean(_text(row[column])) for column in shown))
    Screen().show(table)


def print_seats(found: dict[str, Any]) -> None:
    """Print the seat types of a conference."""
    rows = [{"type": name, **numbers} for name, numbers in found["types"].items()]
    _print_rows(rows, ("type", "price", "quota", "available", "reserved", "confirmed"))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
