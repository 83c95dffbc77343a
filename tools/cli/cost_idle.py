"""`sluice cost idle`: a day without work by its senders, by trigger and by push."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from shared.capability import CAPABILITIES, choose, line_of
from shared.errors import SettingsError
from shared.grammar import MOST_ROOMS, read_rooms
from shared.settings import SETTINGS, Dequeue
from shared.topology import MOST_WORK_QUEUES
from shared.usage import Installation, Prices, load, polling_seconds
from tools.cli.cost_view import plain
from tools.cli.options import JsonOption, PricesOption, SettingsOption
from tools.cli.screen import Screen
from tools.cli.settings_file import load as read_settings
from tools.planning.idle_modes import IdleModes

#: The host's settings as they are deployed.
HOST_JSON = Path(__file__).parents[2] / "host.json"

InstancesOption = Annotated[int, typer.Option(min=0, max=1000, help="Instances that are always there.")]
QUEUES, ROOMS, DEQUEUE = "SLUICE_WORK_QUEUES", "SLUICE_ROOMS", "SLUICE_DEQUEUE"
#: The end of a flag's help.
_INSTEAD: Final = "instead of those of the settings"
PollingOption = Annotated[
    float | None,
    typer.Option(min=0.1, max=3600, help="Seconds between an idle host's polls, instead of the deployed ones."),
]


def idle(  # noqa: PLR0913 - each is one fact about the installation
    prices: PricesOption = None,
    settings: SettingsOption = None,
    *,
    instances: InstancesOption = 1,
    polling: PollingOption = None,
    queues: Annotated[int | None, typer.Option(min=1, max=MOST_WORK_QUEUES, help=f"Work queues, {_INSTEAD}.")] = None,
    rooms: Annotated[
        int | None, typer.Option(min=0, max=MOST_ROOMS, help=f"Rooms beside the common one, {_INSTEAD}.")
    ] = None,
    capabilities: Annotated[
        str | None,
        typer.Option(help=f"The capabilities that are on, separated by commas, {_INSTEAD}.", metavar="LINE"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the requests of a day without work by their sender, by trigger and by push, with the price of a month.

    It is the day of the settings in force. A flag asks how another one would be.
    """
    one = installed(settings, instances=instances, polling=polling, line=capabilities)
    one = replace(
        one,
        work_queues=one.work_queues if queues is None else queues,
        rooms=one.rooms if rooms is None else rooms,
    )
    modes, table = IdleModes.of(one), load(prices)
    if as_json:
        typer.echo(json.dumps(document(modes, table)))
    else:
        print_out(modes, table, Screen())


def installed(
    settings: Path | None, *, instances: int = 1, polling: float | None = None, line: str | None = None
) -> Installation:
    """Return the installation of the settings in force, with this interval of the host's polls if one was typed."""
    environ, faults = read_settings(settings), list[str]()
    host_json = json.loads(HOST_JSON.read_text(encoding="utf-8"))
    chosen = choose(line_of(environ if line is None else {CAPABILITIES: line}), SETTINGS, environ, faults.append)
    rooms = read_rooms(ROOMS, environ.get(ROOMS, ""), faults.append)
    queues, dequeue = environ.get(QUEUES, "1"), environ.get(DEQUEUE, Dequeue.PUSH)
    if not (queues.isascii() and queues.isdigit() and 1 <= int(queues) <= MOST_WORK_QUEUES):
        faults.append(f"{QUEUES} is {queues!r}, expected 1 to {MOST_WORK_QUEUES}")
    if dequeue not in set(Dequeue):
        faults.append(f"{DEQUEUE} is {dequeue!r}, expected {' or '.join(Dequeue)}")
    if faults:
        raise SettingsError("; ".join(faults))
    return Installation(
        is_push=dequeue == Dequeue.PUSH,
        work_queues=int(queues),
        rooms=len(rooms),
        capabilities=chosen,
        instances=instances,
        polling_seconds=polling_seconds(host_json, environ) if polling is None else polling,
    )


def print_out(modes: IdleModes, prices: Prices, screen: Screen) -> None:
    """Print the requests of each sender, the price of a month of such days, and how the polls are reckoned."""
    table = Table("", title=f"A day without work: requests a day, and {prices.currency} a month of such days")
    for mode in modes.named:
        table.add_column(mode, justify="right", no_wrap=True)
        table.add_column(prices.currency, justify="right", no_wrap=True)
    for line in modes.lines(prices):
        cells = [cell for mode in modes.named for cell in (f"{line.requests[mode]:,}", f"{line.amounts[mode]:.2f}")]
        if line.is_sum:
            table.add_section()
        table.add_row(str(line), *cells)
    screen.print(f"settings in force: {modes.in_force}")
    screen.show(table)
    for line_of_mode in modes.formulas():
        screen.print(line_of_mode)
    screen.print(f"Operations of the bus come with its fixed charge. Prices: {prices}")


def document(modes: IdleModes, prices: Prices) -> dict[str, object]:
    """Return the idle day as JSON has it."""
    lines = list(modes.lines(prices))
    rows = [
        {"who": one.who, "what": one.what, "requests": one.requests, "proven": one.is_proven}
        | {"amount": {mode: plain(amount) for mode, amount in one.amounts.items()}}
        for one in lines
        if not one.is_sum
    ]
    return {
        "in_force": modes.in_force,
        "polling_seconds": {mode: one.polling_seconds for mode, one in modes.named.items()},
        "askers": rows,
        "sums": {one.what: one.requests for one in lines if one.is_sum},
        "currency": prices.currency,
        "prices": str(prices),
    }
