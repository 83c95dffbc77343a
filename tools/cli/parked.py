"""`sluice parked`: shows, replays and discards messages that failed for good. Only a replay needs the app."""

import json
import sys
import time
from functools import partial
from typing import Annotated, NoReturn

import msgspec
import typer

from shared.app import Stores, build_entry_reader
from shared.operating import (
    CAUSES,
    ENTRIES,
    ParkedOperator,
    ReplayPace,
    Selection,
    choose,
    summarize_causes,
    waves,
)
from shared.parked import MOST_TOGETHER, Entry, OverFile, files_in_words, join_by_cause
from shared.usage import load as load_prices
from tools.cli import parked_view as view
from tools.cli.before_act import print_replay, say_of_replay
from tools.cli.completion import complete_cause
from tools.cli.lists import make_list
from tools.cli.options import (
    FORMER_NAMES,
    PROBLEM_FOUND,
    ByOption,
    JsonOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
    end,
)
from tools.cli.replays import build_operator, follow, open_operator, open_stores, replays, step_replay, stop
from tools.cli.screen import Screen, clean
from tools.cli.watchable import watchable

app = typer.Typer(
    help="What failed for good: look at it, replay it, discard it.\n\nStatus: 0 done, 1 something came back, did not "
    "answer, could not be sent or is not there, 2 the call makes no sense.",
    no_args_is_help=True,
)

FingerprintArgument = Annotated[
    str | None,
    typer.Argument(
        help="The cause, as `list` shows it; its beginning is enough.",
        metavar="FINGERPRINT",
        autocompletion=complete_cause,
    ),
]
OneCauseArgument = Annotated[
    str,
    typer.Argument(help="The cause; its beginning is enough.", metavar="FINGERPRINT", autocompletion=complete_cause),
]
JobOption = Annotated[
    str | None, typer.Option(help="Of this job only, and what was refused at the door and claims it.", metavar="JOB")
]
ReasonOption = Annotated[str | None, typer.Option(help="Parked for this reason only.", metavar="REASON")]
KeyOption = Annotated[str | None, typer.Option(help="With this key only.", metavar="KEY")]
RoomOption = Annotated[
    str | None, typer.Option(help="Of this room only; - is the common room. Without it: of all rooms.", metavar="ROOM")
]
#: Messages between two lines of progress.
_PROGRESS = 1000
#: Of the dots that a person sees when there are more waves.
WAVES_SHOWN = 8


@app.command("list")
@watchable
def list_parked(  # noqa: PLR0913 - each option of the command is an argument
    fingerprint: FingerprintArgument = None,
    *,
    job: JobOption = None,
    reason: ReasonOption = None,
    closed: Annotated[bool, typer.Option("--all", help="Also entries that are done or discarded.")] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List parked entries by cause, the most frequent first. With a cause, list its entries."""
    selection = Selection(fingerprint=fingerprint, job=job, reason=reason)
    with open_operator(settings) as operator:
        is_of_all = fingerprint is None and job is None and not closed
        counted, now = operator.table.read_causes() if is_of_all else None, operator.clock.now()
        if counted is not None and counted.checked_at is not None:
            entries, causes = [], [one for one in counted.causes if reason in {None, one.reason}]
        else:
            # Before its first comparison, the index lacks what was parked before the upgrade.
            entries = operator.select(selection, closed=closed)
            causes = summarize_causes(entries)
            if is_of_all:
                causes = join_by_cause([*causes, *(file.sums for file in operator.causes.list_files())])
    if as_json and fingerprint is not None:
        typer.echo(json.dumps({"entries": [view.entry_document(entry) for entry in entries]}))
    elif as_json:
        typer.echo(json.dumps({"groups": [view.cause_document(cause) for cause in causes]}))
    elif not causes:
        typer.echo("nothing is parked" if selection == Selection() else f"nothing is parked of {selection}")
    else:
        of_all = fingerprint is None
        Screen().show(make_list("Parked", CAUSES, causes, now) if of_all else make_list("", ENTRIES, entries, now))
    if not causes and selection != Selection():
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def show(
    job: Annotated[str, typer.Argument(help="The job; ~door or ~none where `list` shows that.")],
    key: Annotated[str, typer.Argument(help="The entry's key; its beginning is enough.")],
    *,
    body: Annotated[bool, typer.Option("--body", help="Write the original bytes, and nothing else.")] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one entry."""
    with open_operator(settings) as operator:
        entry = operator.show(job, key)
        if body:
            sys.stdout.buffer.write(operator.body(entry))
        elif as_json:
            typer.echo(json.dumps(view.entry_document(entry)))
        else:
            Screen().show(view.entry_table(entry))


@app.command(context_settings=FORMER_NAMES)
def lines(  # noqa: PLR0913 - each option of the command is an argument
    job: Annotated[str, typer.Argument(help="The job; ~door or ~none where `list` shows that.")],
    key: Annotated[str, typer.Argument(help="The entry's key; its beginning is enough.")],
    by: ByOption,
    why: WhyOption = "",
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many lines.")] = 50,
    settings: SettingsOption = None,
) -> None:
    """Write the transactions of an entry, from the one that failed if that is known. The audit keeps who saw them."""
    with connected(settings) as connections, Stores(connections) as stores:
        entry = stores.build_parked_operator(time.sleep).show(job, key)
        found = build_entry_reader(stores).read_lines(entry, limit, by=by, why=why)
    if found.problem:
        typer.echo(
            f"sluice: its transactions cannot be read, these are the lines of its message: {found.problem}", err=True
        )
    for line in found.lines:
        typer.echo(clean(line).plain if sys.stdout.isatty() else line)
    if found.is_cut:
        typer.echo("sluice: there are more, or a line is cut: --limit", err=True)


@app.command()
def replay(  # noqa: PLR0913 - each option of the command is an argument
    by: ByOption,
    fingerprint: FingerprintArgument = None,
    *,
    job: JobOption = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Replay at most so many, the oldest.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most so many messages per second.")] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the effects of a wave.")
    ] = ReplayPace().patience,
    again: Annotated[
        bool, typer.Option("--again", help="Also entries that were replayed without an effect yet.")
    ] = False,
    as_job: Annotated[
        str | None, typer.Option("--as", help="The job that an `unnamed` submission is; one entry only.", metavar="JOB")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the waves and do nothing.")] = False,
    why: Annotated[str, typer.Option(help="Kept in the audit.", metavar="TEXT")] = "",
    yes: YesOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put entries back on their queues in growing waves. Stop when one comes back for the same cause."""
    selection = _selection(fingerprint, job, reason, key)
    pace = ReplayPace(limit=limit, rate=rate, patience=patience, again=again)
    with open_stores(settings) as stores:
        operator = build_operator(stores)
        found = operator.select(selection)
        entries = choose(found, pace)
        if not entries:
            _end_without_any(operator, selection, found, as_json=as_json)
        if dry_run or not yes:
            _show_plan(stores, entries, as_json=as_json and dry_run, err=not dry_run)
        if dry_run:
            return
        if not yes:
            typer.confirm(f"Replay {len(entries)} parked messages of {selection}?", abort=True, err=True)
        if as_job is not None:
            selection = _named(operator, entries, as_job, by=by, why=why)
        step_replay(operator, operator.ask_replay(selection, pace, by=by, why=why), as_json=as_json)


@app.command()
def discard(  # noqa: PLR0913 - each option of the command is an argument
    by: ByOption,
    why: Annotated[str, typer.Option(help="Why it is not needed; kept with each entry.", metavar="TEXT")],
    fingerprint: FingerprintArgument = None,
    *,
    job: JobOption = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close entries for good, with a reason. Their transactions stay uncounted."""
    if not why.strip():
        raise typer.BadParameter("say why it is not needed", param_hint="--why")
    selection = _selection(fingerprint, job, reason, key)
    with open_operator(settings) as operator:
        count = operator.count(selection)
        is_of_cause = selection == Selection(fingerprint=fingerprint)
        files = operator.list_files(fingerprint) if fingerprint and is_of_cause else []
        if not count and not files:
            _end_without_any(operator, selection, [], as_json=as_json)
        over = sum(file.sums.over for file in files)
        if not yes:
            more = f" and {over} more in {files_in_words(len(files))}" if files else ""
            typer.confirm(f"Discard {count} parked messages of {selection}{more} for good?", abort=True, err=True)
        report = partial(_report_discarded, whole=count)
        closed = operator.discard(selection, by=by, why=why, report=report).closed if count else 0
        if files:
            operator.discard_files(files, by=by, why=why)
    if as_json:
        typer.echo(json.dumps({"discarded": closed, "over": over}))
    else:
        typer.echo(f"{closed} of {count} discarded" + (f", and {over} in files" if files else ""))
    if closed < count:
        raise typer.Exit(PROBLEM_FOUND)


def _report_discarded(closed: int, whole: int) -> None:
    if closed % _PROGRESS < MOST_TOGETHER and closed < whole:
        typer.echo(f"{closed:,} of {whole:,} discarded; it may be stopped, and repeated", err=True)


@app.command()
def export(
    fingerprint: OneCauseArgument,
    by: ByOption,
    why: WhyOption = "",
    *,
    room: RoomOption = None,
    settings: SettingsOption = None,
) -> None:
    """Write the messages above the bound at the door, a line of JSON each. The audit keeps who saw them."""
    with open_operator(settings) as operator:
        for line in operator.export(_files_of(operator, fingerprint, room), by=by, why=why):
            typer.echo(msgspec.json.encode(line))


@app.command()
def readmit(  # noqa: PLR0913 - each option of the command is an argument
    fingerprint: OneCauseArgument,
    by: ByOption,
    *,
    room: RoomOption = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most so many messages per second.")] = None,
    why: Annotated[str, typer.Option(help="Kept in the audit.", metavar="TEXT")] = "",
    yes: YesOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the messages above the bound at the door back on their queue. What fails again is parked again."""
    with open_operator(settings) as operator:
        files = _files_of(operator, fingerprint, room)
        over = sum(file.sums.over for file in files)
        if not yes:
            typer.confirm(
                f"Put {over} messages of {files_in_words(len(files))} back on their queue?", abort=True, err=True
            )
        number = 0
        for number, _ in enumerate(operator.readmit(files, by=by, why=why), start=1):
            if number % _PROGRESS == 0:
                typer.echo(f"{number} of {over} are back on their queue", err=True)
            if rate is not None:
                operator.pause(1 / rate)
    typer.echo(json.dumps({"readmitted": number}) if as_json else f"{number} are back on their queue")


def _files_of(operator: ParkedOperator, fingerprint: str, room: str | None) -> list[OverFile]:
    # A dash is the common room, as in the names of the files.
    files = operator.list_files(fingerprint, None if room is None else room.removeprefix("-"))
    if not files:
        of_room = "" if room is None else f" of room {room}"
        end(
            f"cause {fingerprint}{of_room} has no messages above the bound at the door: `sluice parked list` "
            "shows which have"
        )
    return files


def _selection(fingerprint: str | None, job: str | None, reason: str | None, key: str | None) -> Selection:
    selection = Selection(fingerprint=fingerprint, job=job, reason=reason, key=key)
    if selection == Selection():
        raise typer.BadParameter("say which: a fingerprint, --job, --reason or --key")
    return selection


def _end_without_any(operator: ParkedOperator, selection: Selection, found: list[Entry], *, as_json: bool) -> NoReturn:
    """End a command that has nothing to do. That is well only where all that was meant is closed already."""
    closed = [] if found else operator.select(selection, closed=True)
    if found:
        said = f"{len(found)} of {selection} were replayed before and have no effect yet: --again sends them once more"
    elif closed:
        said = f"all {len(closed)} of {selection} are done or discarded already"
    else:
        said = f"nothing is parked of {selection}: `sluice parked list` shows what is"
    typer.echo(json.dumps({"entries": 0, "why": said}) if as_json else said)
    raise typer.Exit(0 if closed else PROBLEM_FOUND)


def _named(operator: ParkedOperator, entries: list[Entry], job: str, *, by: str, why: str) -> Selection:
    if len(entries) != 1:
        raise typer.BadParameter(f"{len(entries)} entries are meant: select one by --key", param_hint="--as")
    try:
        entry = operator.name(entries[0], job, by=by, why=why)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--as") from error
    return Selection(job=entry.job, key=entry.key)


def _show_plan(stores: Stores, entries: list[Entry], *, as_json: bool, err: bool) -> None:
    found, sizes = stores.act_forecaster.of_replay(entries, load_prices()), [len(wave) for wave in waves(entries)]
    if as_json:
        print_replay(found, sizes)
    else:
        say_of_replay(found, sizes, most=WAVES_SHOWN, err=err)


app.command()(replays)
app.command()(follow)
app.command()(stop)
