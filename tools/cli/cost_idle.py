"""`sluice cost idle`: a day without work by its senders, by trigger and by push."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shared.capability import CAPABILITIES, Chosen, choose, line_of
from shared.errors import SettingsError
from shared.grammar import MOST_ROOMS
from shared.settings import SETTINGS
from shared.usage import Installation, Prices, load, polling_seconds
from tools.cli.cost_view import plain
from tools.cli.options import JsonOption, PricesOption, SettingsOption
from tools.cli.screen import Screen
from tools.cli.settings_file import load as read_settings
from tools.planning.idle_modes import IdleModes

#: The host's settings as they are deployed.
HOST_JSON = Path(__file__).parents[2] / "host.json"

InstancesOption = Annotated[int, typer.Option(min=0, max=1000, help="Instances that are always there.")]
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
    queues: Annotated[int, typer.Option(min=1, max=100, envvar="SLUICE_WORK_QUEUES", help="Work queues.")] = 1,
    rooms: Annotated[int, typer.Option(min=0, max=MOST_ROOMS, help="Rooms beside the common one.")] = 0,
    capabilities: Annotated[
        str,
        typer.Option(envvar=CAPABILITIES, help="The capabilities that are on, separated by commas.", metavar="LINE"),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the requests of a day without work by their sender, by trigger and by push, with the price of a month."""
    one = Installation(
        rooms=rooms,
        instances=instances,
        work_queues=queues,
        capabilities=_chosen(capabilities, read_settings(settings)),
    )
    modes, table = both_modes(settings, polling, one), load(prices)
    if as_json:
        typer.echo(json.dumps(document(modes, table)))
    else:
        print_out(modes, table, Screen())


def _chosen(line: str, environ: Mapping[str, str]) -> tuple[Chosen, ...]:
    faults: list[str] = []
    found = choose(line_of({CAPABILITIES: line}), SETTINGS, environ, faults.append)
    if faults:
        raise SettingsError("; ".join(faults))
    return found


def both_modes(settings: Path | None, polling: float | None, one: Installation) -> IdleModes:
    """Return the installation in both modes, at the interval that is deployed or the one that was typed."""
    if polling is not None:
        return IdleModes.of(one, by_push=polling, by_trigger=polling)
    deployed = json.loads(HOST_JSON.read_text(encoding="utf-8"))
    return IdleModes.of(one, by_push=polling_seconds(deployed, read_settings(settings)))


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
        "polling_seconds": {mode: one.polling_seconds for mode, one in modes.named.items()},
        "askers": rows,
        "sums": {one.what: one.requests for one in lines if one.is_sum},
        "currency": prices.currency,
        "prices": str(prices),
    }
