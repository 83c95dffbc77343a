"""The tables and documents that `sluice migrate` prints."""

import json
from datetime import UTC, datetime
from typing import Final

from rich.table import Table

from shared.readmodels import ModelPointer, Rehearsal, Verification, say_next
from tools.cli.screen import Screen, clean

#: Rows of a rehearsal that a person reads.
_ROWS: Final = 5


def print_rehearsal(model: str, to: int, found: Rehearsal) -> None:
    """Print the size of a migration, and some rows."""
    screen = Screen()
    table = Table("home", "key", "row", title=f"Some rows of version {to} of {model}")
    for row in found.rows[:_ROWS]:
        table.add_row(clean(row.home), clean(row.key.key), clean(json.dumps(row.view)))
    screen.show(table)
    screen.print(
        f"{found.homes} homes with {found.events} events: about {found.requests} requests and {found.seconds:.0f} s to "
        f"build and to verify them. Nothing was written.\nNext: sluice migrate start {model} --to {to}",
        soft_wrap=True,
    )


def rehearsal_document(model: str, to: int, found: Rehearsal) -> dict[str, object]:
    """Return the same as JSON."""
    return {
        "model": model,
        "to": to,
        "homes": found.homes,
        "events": found.events,
        "requests": found.requests,
        "seconds": round(found.seconds, 3),
        "rows": [{"home": row.home, "key": row.key.key, "row": row.view} for row in found.rows],
    }


def print_verification(model: str, to: int, found: Verification) -> None:
    """Print the outcome of a comparison."""
    screen = Screen()
    table = Table("figure", "value", title=f"Version {to} of {model} against the log")
    for name, value in found.figures.items():
        table.add_row(name.replace("_", " "), str(value))
    screen.show(table)
    for line in found.differences:
        screen.print(clean(f"differs: {line}"))
    command = "switch" if found.is_right else "finish"
    outcome = "no row differs" if found.is_right else "it must not be switched to; give it up, and mend its projection"
    screen.print(f"{outcome}\nNext: sluice migrate {command} {model} --to {to}", soft_wrap=True)


def print_pointer(pointer: ModelPointer) -> None:
    """Print how far a migration is, and what to type next."""
    screen = Screen()
    table = Table("what", "value", title=f"Read model {pointer.model}")
    document = {name: value for name, value in pointer_document(pointer).items() if name not in {"model", "figures"}}
    for name, value in {**document, **pointer.figures}.items():
        table.add_row(name.replace("_", " "), clean("-" if value is None else str(value)))
    screen.show(table)
    if following := say_next(pointer):
        screen.print(f"Next: {following}", soft_wrap=True)


def pointer_document(pointer: ModelPointer) -> dict[str, object]:
    """Return the pointer as JSON."""
    changed = pointer.changed_at
    silent = None if changed is None else round((datetime.now(UTC) - changed).total_seconds())
    return {
        "model": pointer.model,
        "phase": str(pointer.phase),
        "current": pointer.current,
        "table": str(pointer.slot),
        "also_written": pointer.doubled,
        "to": pointer.target,
        "is_verified": pointer.is_verified,
        "seconds_since_change": silent,
        "figures": dict(pointer.figures),
    }


def loss(pointer: ModelPointer) -> str:
    """Return the question before the rows of a version are removed."""
    if pointer.current == pointer.target:
        return f"remove the former version of {pointer.model}? There is no rollback afterwards"
    return f"give up version {pointer.target} of {pointer.model}? Readers use version {pointer.current} and keep it"
