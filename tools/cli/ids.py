"""`sluice ids`: draws numbers, explains one, and shows a sequence."""

import json
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from shared.app import TRANSACTION_IDS, Stores
from shared.capability import find_known
from shared.ids import Explanation, NumberFate, RangeGenerator, SequenceWrite, explain_in, read_sequence
from shared.operating import find_job_of_number
from tools.cli.moments import show_moment
from tools.cli.options import PROBLEM_FOUND, JsonOption, SettingsOption, connected
from tools.cli.screen import Screen, clean
from tools.cli.settings_file import settings_here

#: A person sees the last reservations on one screen; --json has all that the blob keeps.
LAST_SHOWN = 10

app = typer.Typer(help="Unique ids: draw numbers, explain one, show a sequence.", no_args_is_help=True)

SequenceArgument = Annotated[str, typer.Argument(help="The sequence, for instance ordernumber.", metavar="SEQUENCE")]


@app.command("next")
def next_ids(
    sequence: SequenceArgument,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many, as one block without gaps.")] = 1,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Draw numbers. Drawn numbers are used up."""
    with connected(settings) as connections:
        store = Stores(connections).sequence(sequence)
        # Draws no more than `count`: a prefetched range would be a gap as soon as this command ends.
        with RangeGenerator(store, prefetch=False) as ids:
            block = ids.next_ids(count)
    if as_json:
        typer.echo(json.dumps({"sequence": sequence, "first": block.start, "last": block.stop - 1}))
    else:
        typer.echo("\n".join(map(str, block)))


@app.command()
def explain(
    sequence: SequenceArgument,
    number: Annotated[int, typer.Argument(help="The number to explain.")],
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Explain a number: the job or the order that has it, its holder, the time, and why it may be missing.

    The search for a job is mostly one request, and sixteen at most; that for an order is one.
    """
    with connected(settings) as connections:
        stores = Stores(connections)
        store = stores.sequence(sequence)
        told = explain_in(store, number)
        is_unknown = told.fate is NumberFate.NOT_RESERVED and read_sequence(store) is None
        owner = _find_owner(stores, sequence, told)
    if is_unknown:
        _say_that_it_was_never_used(sequence, as_json=as_json)
        raise typer.Exit(PROBLEM_FOUND)
    typer.echo(json.dumps(_story(sequence, told, owner)) if as_json else _in_words(told, owner))


class _Owner(NamedTuple):
    """The job or order that has a number. Without an id, `why` says how far the search went."""

    kind: str = ""
    id: str | None = None
    why: str = ""


def _find_owner(stores: Stores, sequence: str, told: Explanation) -> _Owner:
    between = told.time_of_draw(stores.clock.now())
    for capability in find_known(settings_here()):
        for one in capability.capability.sequences:
            if one.name == sequence:
                owner = capability.load(one.find)(stores, told.number)
                return _Owner(one.owner, owner, "" if owner else f"no {one.owner} has it")
    if between is None:
        return _Owner(why="" if told.fate is not NumberFate.FORGOTTEN else "its job was not looked for")
    if sequence != TRANSACTION_IDS:
        return _Owner(why=f"who uses {sequence} is not known here")
    job = find_job_of_number(stores.job_list, stores.ledger, told.number, between)
    found = (
        "no job was found that has it. Of jobs that an earlier version listed, `sluice jobs reindex` adds the numbers"
    )
    return _Owner("job", job, "" if job else found)


def _in_words(told: Explanation, owner: _Owner) -> str:
    if owner.id is None:
        return f"{told}; {owner.why}" if owner.why else str(told)
    held = told.reservation
    since = f", reserved by {held.by.node} at {show_moment(held.by.at)} UTC" if held else ""
    return f"{told.number} belongs to {owner.kind} {owner.id}{since}: sluice {owner.kind}s show {owner.id}"


@app.command()
def status(sequence: SequenceArgument, settings: SettingsOption = None, *, as_json: JsonOption = False) -> None:
    """Show the next free number of a sequence and the last reservation."""
    with connected(settings) as connections:
        page = read_sequence(Stores(connections).sequence(sequence))
    if page is None:
        _say_that_it_was_never_used(sequence, as_json=as_json)
        raise typer.Exit(PROBLEM_FOUND)
    if as_json:
        events = [_event(event) for event in page.events]
        typer.echo(json.dumps({"sequence": sequence, "next": page.next, "events": events}))
        return
    Screen().show(_table(sequence, page.events[-LAST_SHOWN:]))
    typer.echo(f"the next free number of {sequence} is {page.next}")


def _say_that_it_was_never_used(sequence: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"sequence": sequence, "next": None, "events": []}))
    else:
        typer.echo(f"no number was ever drawn from {sequence}: check its spelling", err=True)


def _table(sequence: str, events: tuple[SequenceWrite, ...]) -> Table:
    table = Table("when (UTC)", "what", "numbers", "node", title=f"Last changes of {sequence}")
    for event in events:
        numbers = f"{event.start} to {event.stop - 1}" if event.numbers else "-"
        table.add_row(show_moment(event.by.at), event.kind.value, numbers, clean(event.by.node))
    return table


def _event(event: SequenceWrite) -> dict[str, object]:
    at = event.by.at.isoformat()
    return {"kind": event.kind.value, "start": event.start, "stop": event.stop, "node": event.by.node, "at": at}


def _story(sequence: str, told: Explanation, owner: _Owner) -> dict[str, object]:
    return {
        "sequence": sequence,
        "number": told.number,
        "fate": told.fate.value,
        "reservation": _event(told.reservation) if told.reservation else None,
        "last_heard": _event(told.heard) if told.heard else None,
        "job": owner.id if owner.kind == "job" else None,
        "order": owner.id if owner.kind == "order" else None,
        "text": _in_words(told, owner),
    }
