"""`sluice tune`: the allowed tasks with their reasons, other rules on a trace, and the capacity for a volume."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from shared.app import Stores
from shared.concurrency import BUILT_IN, Trace, lint, parse, read, trace_of, write
from shared.errors import SettingsError, TraceRefusedError
from shared.grammar import read_rooms
from shared.operating import put_rules, warn_of_older_processes
from shared.simulation import SEED, Outcome, Push, Simulation, bursty_day
from shared.usage import load
from shared.watch import KEPT, hours_of_day
from tools.cli import tune_shares, tune_view as view
from tools.cli.capacity import show_capacity
from tools.cli.cost_idle import ROOMS
from tools.cli.options import (
    FORMER_NAMES,
    PROBLEM_FOUND,
    ByOption,
    JsonOption,
    PricesOption,
    SettingsOption,
    WhyOption,
    connected,
    end,
)
from tools.cli.plan import plan_for_gate
from tools.cli.screen import Screen
from tools.cli.settings_file import load as read_settings
from tools.cli.warm import show_warm

app = typer.Typer(
    help="Concurrency: how many tasks may run, why, and what other rules would have done.\n\nStatus: 0 done, 1 a version or day "
    "does not exist or the rules are wrong, 2 the call makes no sense.",
    no_args_is_help=True,
)
rules = typer.Typer(help="The rules of an operator: look at them, check them, put them in force.", no_args_is_help=True)
app.add_typer(rules, name="rules")
app.command("plan")(plan_for_gate)
app.command("warm")(show_warm)
app.command("capacity")(show_capacity)

FileArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="RULES", help="A file with rules.")]


@app.command()
def show(settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show the present decision with every term, the rules in force, and the working processes."""
    with connected(settings) as connections:
        fleet = Stores(connections).fleet.read()
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps(view.fleet_document(fleet, now)))
    else:
        Screen().show(view.fleet_table(fleet, now))


@app.command(context_settings=FORMER_NAMES)
def explain(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many decisions, the newest first.")] = 20,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the last decisions, each with its reason."""
    with connected(settings) as connections:
        found = Stores(connections).fleet.history(limit)
    if as_json:
        typer.echo(json.dumps({"decisions": [view.decision_document(one) for one in found]}))
    else:
        Screen().show(view.history_table(found))


@app.command("shares")
def show_shares(settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show how the rooms share the work, what waits in them, and what they were served."""
    with connected(settings) as connections:
        fleet = Stores(connections).fleet.read()
    now = datetime.now(UTC)
    if as_json:
        typer.echo(json.dumps(tune_shares.shares_document(fleet, now)))
        return
    Screen().show(tune_shares.shares_table(fleet))
    typer.echo(tune_shares.describe_feeder(fleet, now))


@app.command("dry-run")
def dry_run(
    file: FileArgument,
    trace: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A recorded trace; else the synthetic day.")
    ] = None,
    prices: PricesOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Replay a trace with these rules and the built-in ones: delay, requests, price."""
    wanted, replayed = parse(file.read_text(encoding="utf-8")), _read(trace)
    table = load(prices)
    outcomes = [
        _outcome(replayed, Push(wanted, f"version {wanted.version}")),
        _outcome(replayed, Push(BUILT_IN, "built in")),
    ]
    if as_json:
        documents = [view.outcome_document(one, table) for one in outcomes]
        typer.echo(json.dumps({"trace": replayed.header.what, "seed": replayed.header.seed, "outcomes": documents}))
    else:
        Screen().show(view.outcomes_table(replayed, outcomes, table))


@app.command("trace")
def get_trace(
    day: Annotated[str | None, typer.Argument(metavar="DAY", help="For instance 2026-11-20; else today, UTC.")] = None,
    synthetic: Annotated[
        int | None, typer.Option(metavar="SEED", help=f"Make a day instead, for instance {SEED}.")
    ] = None,
    settings: SettingsOption = None,
) -> None:
    """Print the recorded trace of a day, for `dry-run --trace`."""
    if synthetic is not None:
        typer.echo(write(bursty_day(synthetic)).decode(), nl=False)
        return
    try:
        wanted = datetime.fromisoformat(day) if day else datetime.now(UTC)
    except ValueError as error:
        raise typer.BadParameter(f"{day!r} is not a day: use the form 2026-11-20") from error
    with connected(settings) as connections:
        found = trace_of(Stores(connections).watch.read_hours(*hours_of_day(wanted.date())))
    if found is None:
        end(f"nothing was recorded on {wanted:%Y-%m-%d}: no job was open, or it is longer ago than {KEPT.days} days")
    typer.echo(write(found).decode(), nl=False)


@rules.command("get")
def get_rules(
    version: Annotated[int | None, typer.Option(min=1, help="An older version.")] = None,
    settings: SettingsOption = None,
) -> None:
    """Print the rules in force, or those of a version."""
    with connected(settings) as connections:
        text = Stores(connections).rules.text(version)
    if text is None:
        end("there are no such rules: the built-in ones apply (docs/concurrency.md)")
    typer.echo(text, nl=False)


@rules.command("check")
def check_rules(file: FileArgument, settings: SettingsOption = None) -> None:
    """Check rules and print faults line by line. Needs no installation, for the rooms are those of the settings."""
    found = lint(file.read_text(encoding="utf-8"), _read_rooms(settings))
    for problem in [*found.problems, *found.notes]:
        typer.echo(f"{file}: {problem}", err=bool(found.problems))
    if found.rules is None:
        raise typer.Exit(PROBLEM_FOUND)
    named = len(found.rules.shares.rooms)
    shares = f" and the shares of {named} room{'s' * (named != 1)}" if named else ""
    typer.echo(f"version {found.rules.version}: {len(found.rules.rules)} rules{shares}, nothing is wrong with them")


@rules.command("put")
def put(file: FileArgument, by: ByOption, why: WhyOption = "", settings: SettingsOption = None) -> None:
    """Put rules in force. The next tick with an open job follows them."""
    text, rooms = file.read_text(encoding="utf-8"), _read_rooms(settings)
    with connected(settings) as connections:
        stores = Stores(connections)
        wanted = put_rules(stores.rules, stores.audit, text, by=by, why=why, rooms=rooms)
        notes = warn_of_older_processes(wanted, stores.fleet, datetime.now(UTC))
    typer.echo(f"version {wanted.version} is in force: `sluice tune explain` shows what is decided by it")
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _read_rooms(settings: Path | None) -> Sequence[str] | None:
    """Return the rooms of the settings. None: they name none, which says nothing about those of the installation."""
    faults = list[str]()
    rooms = read_rooms(ROOMS, read_settings(settings).get(ROOMS, ""), faults.append)
    if faults:
        raise SettingsError("; ".join(faults))
    return rooms or None


def _read(trace: Path | None) -> Trace:
    if trace is None:
        return bursty_day()
    found = read(trace.read_bytes().splitlines())
    if not any(stretch.arrived for stretch in found.stretches):
        raise TraceRefusedError(f"nothing arrives in the trace {trace.name}: there is nothing to replay")
    return found


def _outcome(trace: Trace, strategy: Push) -> Outcome:
    return Simulation(trace, strategy).run()
