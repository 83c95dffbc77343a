"""`sluice nights`: the jobs that share a night, their state and price together, and acts on all of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from shared.app import Stores
from shared.ledger import NightLine, describe_state
from shared.operating import (
    MOST_ACTS,
    NightAct,
    choose_jobs,
    describe_check,
    explain_line,
    sum_up,
)
from shared.usage import Prices, load as load_prices
from tools.cli.before_act import say_of_night
from tools.cli.cost_view import money, plain
from tools.cli.gate_view import check_fields
from tools.cli.options import (
    FORMER_NAMES,
    PROBLEM_FOUND,
    ByOption,
    DryRunOption,
    JsonOption,
    PricesOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
    end,
)
from tools.cli.screen import Screen, clean

app = typer.Typer(
    help="Nights: jobs that share a name. Look at them together, pause, resume, stop, rerun or erase them.\n\nStatus: 0 done or so "
    "already, 1 there is no such night or a job refused, 2 the call makes no sense.",
    no_args_is_help=True,
)
NightArgument = Annotated[str, typer.Argument(help="The name of the night; of a room ROOM~NIGHT.", metavar="NIGHT")]
#: An act asks before it ends anything for good.
_PAST: Final = {
    NightAct.PAUSE: "paused",
    NightAct.RESUME: "resumed",
    NightAct.STOP: "stopped",
    NightAct.RERUN: "begun again",
    NightAct.ERASE: "erased",
}
_QUESTIONS: Final = {
    NightAct.STOP: "end for good, unpublished: stop them?",
    NightAct.RERUN: "run again with the deployed code, those that wait for others after these: go on?",
    NightAct.ERASE: "lose all that is theirs, for good: erase them?",
}


@app.command("list", context_settings=FORMER_NAMES)
def list_nights(
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many, the newest first.")] = 20,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the latest nights, by a request and one for each."""
    table = load_prices(prices)
    with connected(settings) as connections:
        stores = Stores(connections)
        found = {night: stores.job_list.read_night(night) for night in stores.job_list.list_nights(limit)}
    now = datetime.now(UTC)
    documents = [_document(night, lines, table, now) for night, lines in found.items()]
    if as_json:
        typer.echo(json.dumps({"nights": [{**one, "jobs": len(found[str(one["night"])])} for one in documents]}))
        return
    shown = Table(
        "night", "state", "jobs", "transactions", "ended", "ends (UTC)", "due (UTC)", table.currency, title="Nights"
    )
    for night, lines in found.items():
        one = sum_up(lines, table, now)
        cells = (night, one.state, f"{one.jobs:,}", f"{one.items:,}", one.share, _moment(one.ends), _moment(one.due))
        shown.add_row(*map(clean, (*cells, money(one.amount))))
    Screen().show(shown)


@app.command()
def show(
    night: NightArgument, prices: PricesOption = None, settings: SettingsOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the jobs of a night, by one request and two for each gate. States are as of the last news of each job."""
    table, now = load_prices(prices), datetime.now(UTC)
    with connected(settings) as connections:
        stores = Stores(connections)
        lines = _read(stores, night)
        checked = stores.forecast_check.check_night(lines, table)
    if as_json:
        jobs = [_line_document(one, lines) for one in lines]
        opened = [{"gate": gate, **check_fields((note, happened))} for gate, note, happened in checked]
        typer.echo(json.dumps({**_document(night, lines, table, now), "jobs": jobs, "openings": opened}))
        return
    found = sum_up(lines, table, now)
    words = [found.state, f"{found.items:,} transactions", found.share]
    words += [f"ends about {_moment(found.ends)} UTC"] if found.ends else []
    words += [f"due {_moment(found.due)} UTC"] if found.due else []
    typer.echo(f"night {night}: {', '.join(words)}, {money(found.amount)} {table.currency} so far")
    for gate, note, happened in checked:
        typer.echo(clean(f"opening of {gate}: {describe_check(note, happened)}").plain)
    shown = Table("job", "state", "transactions", "why")
    for one in lines:
        ways = {"rejected": one.rejected, "parked": one.parked}
        counts = f"{one.listed.items:,} = {one.accepted:,}" + "".join(f" + {n:,} {way}" for way, n in ways.items() if n)
        state = describe_state(one.listed) or "not recorded"
        shown.add_row(*map(clean, (one.listed.job, state, counts, explain_line(one, lines))))
    Screen().show(shown)


@app.command("pause")
def pause_night(
    night: NightArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="The problem, as lists and each job's page show it.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Pause all jobs of a night: those that wait first, so that none starts meanwhile."""
    _act(night, NightAct.PAUSE, by, why, settings, yes=True, dry_run=dry_run)


@app.command("resume")
def resume_night(
    night: NightArgument,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Let all paused jobs of a night go on."""
    _act(night, NightAct.RESUME, by, why, settings, yes=True, dry_run=dry_run)


@app.command("stop")
def stop_night(  # noqa: PLR0913 - each option of the command is an argument
    night: NightArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why they end, as lists and each job's page show it.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """End all open jobs of a night for good. What has ended stays."""
    _act(night, NightAct.STOP, by, why, settings, yes=yes, dry_run=dry_run)


@app.command("rerun")
def rerun_night(  # noqa: PLR0913 - each option of the command is an argument
    night: NightArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why they run again, for the audit.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Run all jobs of a night again that have ended. One that is made from others waits for their new revisions."""
    _act(night, NightAct.RERUN, by, why, settings, yes=yes, dry_run=dry_run)


@app.command("erase")
def erase_night(  # noqa: PLR0913 - each option of the command is an argument
    night: NightArgument,
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why they go, for the audit.", metavar="TEXT")],
    settings: SettingsOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Remove everything of all jobs of a night for good, those that are made from others first."""
    _act(night, NightAct.ERASE, by, why, settings, yes=yes, dry_run=dry_run)


def _act(  # noqa: PLR0913 - who does what to which night, and why
    night: str, act: NightAct, by: str, why: str, settings: SettingsOption, *, yes: bool, dry_run: bool
) -> None:
    with connected(settings) as connections:
        stores = Stores(connections)
        lines = _read(stores, night)
        jobs = choose_jobs(lines, act)
        if dry_run or not yes:
            say_of_night(stores, act, lines)
        if dry_run:
            return
        if not yes and jobs:
            typer.confirm(f"{len(jobs):,} of {len(lines):,} jobs of night {night} {_QUESTIONS[act]}", abort=True)
        refused = 0
        for acted in stores.night_operator.act(jobs, act, by=by, why=why):
            refused += not acted.is_done
            typer.echo(clean(f"{acted.job} {acted.words}").plain, err=not acted.is_done)
    done, left = min(len(jobs), MOST_ACTS) - refused, max(0, len(jobs) - MOST_ACTS)
    typer.echo(
        f"night {night}: {done:,} jobs {_PAST[act]}, {len(lines) - len(jobs):,} were so already or have ended"
        + (f", {refused:,} refused" if refused else "")
    )
    if left:
        typer.echo(f"{left:,} jobs are left: an act takes {MOST_ACTS}; say the same again", err=True)
    if refused or left:
        raise typer.Exit(PROBLEM_FOUND)


def _read(stores: Stores, night: str) -> list[NightLine]:
    lines = stores.job_list.read_night(night)
    if not lines:
        end(f"there is no night {night!r}: `sluice nights list` shows the last ones")
    return lines


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def _document(night: str, lines: Sequence[NightLine], prices: Prices, now: datetime) -> dict[str, object]:
    found = sum_up(lines, prices, now)
    return {
        "night": night,
        "state": found.state,
        "items": found.items,
        "ended": found.ended,
        "predicted": _iso(found.ends),
        "deadline": _iso(found.due),
        "amount": plain(found.amount),
        "currency": prices.currency,
    }


def _line_document(line: NightLine, lines: Sequence[NightLine]) -> dict[str, object]:
    return {
        "job": line.listed.job,
        "state": line.listed.state,
        "items": line.listed.items,
        "accepted": line.accepted,
        "rejected": line.rejected,
        "parked": line.parked,
        "waits": list(line.waits),
        "why": explain_line(line, lines),
        "as_of": _iso(line.listed.as_of),
    }
