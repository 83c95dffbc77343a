"""`sluice gate`: opens, closes and shows gates, and waits for them. Needs storage only, not the app."""

import json
import re
import secrets
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shared.app import GateStores
from shared.errors import NameRefusedError, ReleaseExpiredError, ScheduleRefusedError
from shared.gate import GateState, check_name, is_of_timetable
from shared.operating import AuditedAct, Overview, describe_gate, hash_seed
from tools.cli.capabilities import without_unused
from tools.cli.completion import complete_gate
from tools.cli.moments import describe_plan, show_moment
from tools.cli.options import (
    WRONG_CALL,
    ByOption,
    JsonOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
    end,
    moment,
)
from tools.cli.watchable import watchable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.app import Stores
    from shared.azure import Connections
    from shared.gate import HeldSummary, Roll
    from shared.operating import GateActResult
    from tools.cli.warm import WarmForecast

#: What `wait` ends with when the gate was not opened in time; 0, 1 and 2 are what they are for every command.
NOT_OPENED = 3
_SEED: Final = re.compile(r"[0-9a-f]{64}")


class RollOrder(StrEnum):
    """How held orders start."""

    ARRIVAL = "arrival"
    LOTTERY = "lottery"


app = typer.Typer(
    help="Gates: work behind a closed gate waits, and starts at once when it is opened.\n\nStatus: 0 done, 1 failed or "
    "`status` of a gate that was never used, 2 the call makes no sense, 3 `wait` ended before the gate was opened.",
    no_args_is_help=True,
)


def _checked(name: str) -> str:
    try:
        return check_name(name)
    except NameRefusedError as error:
        raise typer.BadParameter(str(error)) from error


GateArgument = Annotated[
    str,
    typer.Argument(
        help="The gate, for instance nightly.", metavar="NAME", callback=_checked, autocompletion=complete_gate
    ),
]


@app.command("open")
def open_gate(  # noqa: C901, PLR0913 - each option of the command is an argument
    name: GateArgument,
    by: ByOption,
    *,
    at: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="Open it then, for instance 2026-11-21T09:00Z."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Close it again after the work that is held now.")] = False,
    every: Annotated[
        str,
        typer.Option(
            metavar="LINE",
            help='Open it again and again, each time once, by five fields of cron such as "0 2 * * mon-fri"; off ends that.',
        ),
    ] = "",
    zone: Annotated[
        str, typer.Option(metavar="ZONE", help="With --every: whose clock, for instance Europe/Berlin or UTC.")
    ] = "",
    minutes: Annotated[
        float,
        typer.Option(
            min=1, help="With --at, --every: from the opening to the last chunk, which instances are warmed for."
        ),
    ] = 10,
    cold: Annotated[bool, typer.Option("--cold", help="With --at, --every: warm no instances.")] = False,
    order: Annotated[RollOrder, typer.Option(help="How its held orders start.")] = RollOrder.ARRIVAL,
    seed: Annotated[str, typer.Option(metavar="HEX", help="By lottery: it is drawn by `sluice gate seed`.")] = "",
    why: WhyOption = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would start, and open nothing: jobs, seconds, price.")
    ] = False,
    yes: YesOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a gate, now, at a time or by a timetable: everything held behind it starts, which cannot be undone."""
    seed = seed.lower()
    if why_not := _refuse_lottery(name, order, seed, at):
        end(why_not, WRONG_CALL)
    if every or zone:
        # An opening at once has no use for it.
        from tools.cli import gate_timetable  # noqa: PLC0415

        if why_not := gate_timetable.refuse(name, every, zone, at, seed):
            end(why_not, WRONG_CALL)
        wanted = gate_timetable.Wanted(name, every, zone, None if cold else minutes, by, why)
    if dry_run:
        # Prices and tables: an opening has no time for them.
        from tools.cli.gate_forecast import show_forecast  # noqa: PLC0415

        show_forecast(name, settings, as_json=as_json)
        return
    if every:
        gate_timetable.change(wanted, settings, is_sure=yes, as_json=as_json)
        return
    with connected(settings) as connections:
        whole = _open_stores(connections) if at else None
        stores = whole or GateStores(connections)
        # What it holds before it opens: the work is released at once, and then it is too late to count.
        held = stores.held.summary(name)
        warm = _say_warm(whole, settings, name, at, None if cold else minutes, as_json) if whole and at else None
        if not yes:
            _ask(connections, stores, name, held, at)
        try:
            if whole and at:
                outcome = _plan(whole, name, at, held, warm, drops=cold, by=by, why=why, once=once)
            else:
                noted = _foretell(connections, name, held, stores.clock.now())
                outcome = stores.gate_operator.open(name, by=by, why=why, once=once, seed=seed, forecast=noted)
        except ScheduleRefusedError as error:
            end(str(error), WRONG_CALL)
        # After the signal: the app makes it meanwhile, unless this is faster.
        is_rolled = held.has_orders and outcome.after.epoch > outcome.before.epoch
        roll = _open_stores(connections).rolls.open(name, outcome.after) if is_rolled else None
        _report(name, outcome, held, as_json=as_json, warm=warm, roll=roll)


def _open_stores(connections: "Connections") -> "Stores":
    """Return all stores of the installation. An opening of a gate that holds nothing needs few, and imports these alone."""
    with without_unused():
        from shared.app import Stores  # noqa: PLC0415

    return Stores(connections)


def _foretell(connections: "Connections", name: str, held: "HeldSummary", now: datetime) -> "Mapping[str, str]":
    """Return the forecast that the audit keeps of an opening now."""
    if not held.count:
        return {}
    from shared.usage import load  # noqa: PLC0415

    return _open_stores(connections).gate_forecaster.note(name, held, load(), now)


def _say_warm(  # noqa: PLR0913, PLR0917 - each is a part of the command
    stores: "Stores",
    settings: Path | None,
    name: str,
    at: datetime,
    minutes: float | None,
    as_json: bool,  # noqa: FBT001 - a part of the command
) -> "WarmForecast | None":
    """Return the instances that a planned opening warms, after a person has read of them. `minutes`: None for none."""
    from tools.cli.warm import forecast, forecast_lines  # noqa: PLC0415

    found = None if minutes is None else forecast(stores, settings, name, at, minutes)
    if not as_json:
        typer.echo("\n".join(forecast_lines(found)))
    return found


def _plan(  # noqa: PLR0913 - each is a part of the command
    stores: "Stores",
    name: str,
    at: datetime,
    held: "HeldSummary",
    warm: "WarmForecast | None",
    *,
    drops: bool,
    **act: Any,
) -> "GateActResult":
    """Plan the opening, with its forecast and the instances that are warmed for it. `drops`: with none."""
    from shared.scaling import records_of  # noqa: PLC0415
    from shared.usage import load  # noqa: PLC0415

    noted = stores.gate_forecaster.note(name, held, load(), at)
    if drops:
        records_of(stores).drop(name)
    prepare = partial(records_of(stores).plan, name, warm.request) if warm else None
    return stores.gate_operator.schedule(name, at, prepare=prepare, forecast=noted, **act)


def _refuse_lottery(name: str, order: RollOrder, seed: str, at: datetime | None) -> str:
    """Return why the held orders cannot start like this, or an empty text."""
    if order is RollOrder.ARRIVAL:
        return f"gate {name!r}: --seed goes with --order lottery" if seed else ""
    if not seed:
        return (
            f"gate {name!r} was opened with order 'lottery' without --seed: publish its SHA-256 before the sale "
            "(`sluice gate seed`), then open with it"
        )
    if not _SEED.fullmatch(seed):
        return f"gate {name!r}: --seed is not one of `sluice gate seed`: expected 64 hexadecimal digits"
    if at is not None:
        return (
            f"gate {name!r}: a lottery is opened at its time and not planned by --at, since all who read gates could "
            "read its random seed until then"
        )
    return ""


@app.command("seed")
def draw_seed(
    name: GateArgument,
    by: ByOption,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="Where it is kept, if not in this folder.", metavar="FILE")
    ] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the random seed of a lottery. Publish the SHA-256 that this prints before the sale, and the random seed after it.

    The random seed itself is only in a file that you alone may read. The audit has the SHA-256, with the time.
    """
    kept, seed = file or Path(f"{name}.seed"), secrets.token_hex(32)
    with connected(settings) as connections:
        audit, sha256 = GateStores(connections).audit, hash_seed(seed)
        with audit.record(AuditedAct(by, "gate seed", name, "", {"seed_sha256": sha256})) as act:
            try:
                kept.touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                act.result = "refused: there is a file"
                end(f"{kept} is there already: a random seed is drawn once, so nothing was drawn", WRONG_CALL)
            kept.write_text(seed + "\n", encoding="ascii")
            act.result = "drawn"
    if as_json:
        typer.echo(json.dumps({"gate": name, "sha256": sha256, "file": str(kept)}))
    else:
        typer.echo(f"{sha256}\nkept in {kept}; open with: sluice gate open {name} --order lottery --seed $(cat {kept})")


@app.command("roll")
def show_roll(
    name: GateArgument,
    *,
    epoch: Annotated[int | None, typer.Option(min=1, help="The opening; else the last one that has a roll.")] = None,
    settings: SettingsOption = None,
) -> None:
    """Print the roll of an opening, byte for byte as its SHA-256 in the audit says: the order in which orders started."""
    with connected(settings) as connections:
        rolls = _open_stores(connections).rolls
        wanted = [epoch] if epoch else rolls.epochs(name)[:1]
        found = next((roll for one in wanted if (roll := rolls.find(name, one))), None)
    if found is None:
        end(f"gate {name!r} has no roll: it held no orders, or the retention of its roll is over")
    typer.echo(found.content.decode(), nl=False)


def _ask(connections: "Connections", stores: GateStores, name: str, held: "HeldSummary", at: datetime | None) -> None:
    """Say what the opening would start, and ask whether it is meant, or end."""
    if held.count:
        from tools.cli.gate_forecast import say_forecast  # noqa: PLC0415

        say_forecast(_open_stores(connections), name, at or stores.clock.now())
    typer.confirm(_question(stores, name, held, at), abort=True, err=True)


def _question(stores: GateStores, name: str, held: "HeldSummary", at: datetime | None) -> str:
    state = stores.gates.read(name)
    when = f"At {show_moment(at)} UTC this starts" if at else "This starts"
    doubt = "" if held.count or state.changes else f" (gate {name} was never used: is it spelt like this?)"
    return f"{when} the {held.count} entries held behind {name} and cannot be undone{doubt}. Go on?"


@app.command("close")
def close_gate(
    name: GateArgument,
    by: ByOption,
    *,
    why: WhyOption = "",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close a gate: work from now on waits, and a planned opening is cancelled."""
    with connected(settings) as connections:
        stores = GateStores(connections)
        outcome = stores.gate_operator.close(name, by=by, why=why)
        _report(name, outcome, stores.held.summary(name), as_json=as_json)


def _report(  # noqa: PLR0913 - each is a part of the answer
    name: str,
    outcome: "GateActResult",
    held: "HeldSummary",
    *,
    as_json: bool,
    warm: "WarmForecast | None" = None,
    roll: "Roll | None" = None,
) -> None:
    if as_json:
        from tools.cli import gate_view as view  # noqa: PLC0415
        from tools.cli.warm import forecast_document  # noqa: PLC0415

        document = view.outcome_document(name, outcome, held) | view.roll_fields(roll)
        typer.echo(json.dumps({**document, "warm": forecast_document(warm)} if outcome.after.scheduled else document))
        return
    state = outcome.after
    done = "is now" if outcome.is_changed else "was already"
    if state.scheduled is None:
        starts = held.count and state.epoch > outcome.before.epoch
        what = (
            f"{held.count} held {'entry starts' if held.count == 1 else 'entries start'}"
            if starts
            else f"held: {held.count}"
        )
        typer.echo(f"{name} {done} {describe_gate(state)} at epoch {state.epoch}; {what}")
    else:
        typer.echo(f"{name} opens at {describe_plan(state.scheduled)} UTC; held: {held.count}")
    if roll:
        typer.echo(f"{len(roll.places)} orders start by {roll.order}: roll of epoch {roll.epoch}, sha256 {roll.sha256}")
    if outcome.before.scheduled and state.scheduled is None:
        if is_of_timetable(outcome.before.scheduled) and state.is_open:
            typer.echo(
                f"its timetable goes on: {describe_plan(outcome.before.scheduled)} UTC is planned again within a minute"
            )
        else:
            typer.echo(f"taken back: the opening planned for {describe_plan(outcome.before.scheduled)} UTC")
    if outcome.unsignalled:
        typer.echo(f"sluice: {outcome.unsignalled}", err=True)


@app.command()
def status(name: GateArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show a gate: state, history, held work, and who saw the last opening how late."""
    from shared.usage import load  # noqa: PLC0415
    from tools.cli import gate_view as view  # noqa: PLC0415
    from tools.cli.screen import Screen  # noqa: PLC0415

    with connected(settings) as connections:
        stores = _open_stores(connections)
        state = stores.gates.read(name)
        receipts = stores.receipts.of_epochs(name, max(0, state.epoch - 1))
        first_chunks = stores.first_chunks.history(name)
        timetable = stores.timetables.read().get(name)
        checked = stores.forecast_check.check(name, state, load())
        row = Overview(name, state, stores.held.summary(name))
        shown = view.Status(row, receipts, first_chunks, timetable, checked)
    if as_json:
        typer.echo(json.dumps(view.status_document(shown)))
    else:
        view.show_status(Screen(), shown, datetime.now(UTC))
    if state == GateState() and not shown.row.held.count and timetable is None:
        end(f"gate {name!r} was never used: check its spelling (`sluice gate list`)")


@app.command("list")
@watchable
def list_gates(settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show every gate, also those never opened, with the held work and its age."""
    from tools.cli import gate_view as view  # noqa: PLC0415
    from tools.cli.screen import Screen  # noqa: PLC0415

    with connected(settings) as connections:
        stores = _open_stores(connections)
        rows, timetables = stores.gate_reader().read(), stores.timetables.read()
    if as_json:
        typer.echo(json.dumps(view.overview_document(rows, timetables)))
    else:
        view.show_overview(Screen(), rows, timetables, datetime.now(UTC))


@app.command()
def wait(
    name: GateArgument,
    *,
    timeout: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Give up after that long.")] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until a gate is open, then end with status 0, so that a script can begin with it."""
    from shared.waiting import Release  # noqa: PLC0415

    with connected(settings) as connections, Release(connections, name) as release:
        try:
            receipt = release.wait(timeout)
        except ReleaseExpiredError as error:
            typer.echo(json.dumps({"gate": name, "epoch": None}) if as_json else f"sluice: {error}", err=not as_json)
            raise typer.Exit(NOT_OPENED) from error
    lag = receipt.lag.total_seconds()
    if as_json:
        document = {"gate": name, "epoch": receipt.epoch, "how": receipt.how.value, "lag_seconds": round(lag, 3)}
        typer.echo(json.dumps(document))
    else:
        typer.echo(f"{name} is open at epoch {receipt.epoch}, seen by {receipt.how.value} after {lag:.3f} s")
