"""Ids for the shell's TAB: jobs, gates and causes that begin like the typed word.

One request, and a second at most. After any fault the shell gets nothing: a person types on.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from shared.app import Stores

#: Seconds that a person waits for a TAB, and words that a shell shows.
_WITHIN: Final = 1.0
_MOST: Final = 50


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of jobs."""
    return _read(ctx, incomplete, lambda stores: (job.job for job in stores.job_list.find(incomplete, _MOST)))


def complete_gate(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of gates."""
    return _read(ctx, incomplete, lambda stores: stores.gate_reader().list_names())


def complete_cause(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return fingerprints of causes."""
    return _read(ctx, incomplete, lambda stores: (one.fingerprint for one in stores.parked_table.read_causes().causes))


def _read(ctx: typer.Context, incomplete: str, read: "Callable[[Stores], Iterable[str]]") -> list[str]:
    found: list[str] = []

    def look() -> None:
        with suppress(Exception):
            from shared.app import Stores  # noqa: PLC0415 - other words need no library of Azure
            from tools.cli.options import connected  # noqa: PLC0415

            with connected(ctx.params.get("settings")) as connections:
                found.extend(name for name in read(Stores(connections)) if name.startswith(incomplete))

    reader = Thread(target=look, daemon=True)
    reader.start()
    reader.join(_WITHIN)
    return found[:_MOST]
