"""Output of `sluice parked`: tables for people, documents for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.table import Table

from shared.operating import Replay, ReplayFate, Wave, describe_fates
from shared.parked import CauseSums, Entry
from tools.cli.screen import clean

_MOMENT = "%Y-%m-%d %H:%M:%S"


def causes_table(causes: Sequence[CauseSums]) -> Table:
    """Return the causes."""
    table = Table("fingerprint", "reason", "entries", "last jobs", "what to do", "last (UTC)", "stage", title="Parked")
    for cause in causes:
        table.add_row(
            cause.fingerprint,
            clean(cause.reason),
            cause.number,
            clean(" ".join(cause.jobs)),
            clean(cause.instead),
            cause.last_at.strftime(_MOMENT) if cause.last_at else "",
            clean(cause.stage),
        )
    return table


def entries_table(entries: list[Entry]) -> Table:
    """Return the entries of a selection."""
    table = Table("job", "key", "state", "reason", "attempts", "replays", "came back", "last (UTC)", "stage")
    for entry in entries:
        counts = (str(entry.attempts), str(entry.replays), str(entry.returns))
        table.add_row(
            clean(entry.about),
            entry.key,
            entry.state.value,
            clean(entry.reason),
            *counts,
            entry.last_at.strftime(_MOMENT),
            clean(entry.stage),
        )
    return table


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


def replays_table(replays: list[Replay], now: datetime) -> Table:
    """Return the replays, the newest first."""
    table = Table("replay", "state", "of", "entries", "waves", "result", "who", "why", title="Replays")
    for replay in replays:
        table.add_row(
            replay.id,
            describe_state(replay, now),
            clean(str(replay.selection)),
            f"{replay.taken}/{replay.entries}",
            str(replay.begun),
            clean(replay.result or describe_fates(replay.counts)),
            clean(replay.who),
            clean(replay.why),
        )
    return table


def describe_state(replay: Replay, now: datetime) -> str:
    """Return the state of a replay in words."""
    return f"{replay.state}, stands still" if replay.is_still(now) else replay.state.value


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
