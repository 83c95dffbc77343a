"""Output of `sluice parked`: tables for people, documents for programs."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.table import Table

from shared.operating import Replay, ReplayFate, Wave
from shared.parked import CauseSums, Entry
from tools.cli.screen import clean


def entry_table(entry: Entry) -> Table:
    """Return everything about one entry."""
    table = Table("what", "value", show_header=False)
    for name, value in entry_document(entry).items():
        if value not in (None, ""):
            table.add_row(name, clean(str(value)))
    return table


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry for a program."""
    known = {name: value for name, value in asdict(entry).items() if name not in {"scheme", "nonce", "etag"}}
    moments = {"first_at": entry.first_at.isoformat(), "last_at": entry.last_at.isoformat()}
    return {**known, **moments, "state": entry.state.value}


def cause_document(cause: CauseSums) -> dict[str, Any]:
    """Return a cause for a program."""
    return {
        "fingerprint": cause.fingerprint,
        "reason": cause.reason,
        "stage": cause.stage,
        "instead": cause.instead,
        "entries": cause.open,
        "over": cause.over,
        "files": cause.files,
        "last_jobs": list(cause.jobs),
        "first_at": cause.first_at.isoformat() if cause.first_at else None,
        "last_at": cause.last_at.isoformat() if cause.last_at else None,
    }


def wave_document(wave: Wave) -> dict[str, int]:
    """Return the effects of a wave, for a program."""
    return {"entries": wave.size, **{fate.name.lower(): wave.count(fate) for fate in ReplayFate}}


def replay_document(replay: Replay, now: datetime) -> dict[str, Any]:
    """Return a replay for a program."""
    return {
        "replay": replay.id,
        "state": replay.state.value,
        "stands_still": replay.is_still(now),
        "who": replay.who,
        "why": replay.why,
        "asked_at": replay.asked_at.isoformat(),
        "moved_at": replay.moved_at.isoformat(),
        "selection": asdict(replay.selection),
        "entries": replay.entries,
        "taken": replay.taken,
        "begun": replay.begun,
        "owner": replay.owner,
        "stopped_by": replay.stopped_by,
        "counts": {fate.name.lower(): replay.counts.get(fate, 0) for fate in ReplayFate},
        "result": replay.result,
    }
