"""The commands of replays: `sluice parked replays`, `follow` and `stop`, and the steps of `sluice parked replay`."""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from shared.app import Parts, Stores
from shared.capability import line_of
from shared.errors import SluiceError
from shared.operating import (
    REPLAYS,
    ParkedOperator,
    Replay,
    ReplayFate,
    Wave,
    describe_end,
    describe_fates,
    describe_progress,
)
from shared.settings import Dequeue, Settings
from tools.cli import parked_view as view
from tools.cli.lists import make_list
from tools.cli.options import PROBLEM_FOUND, ByOption, JsonOption, SettingsOption, connected
from tools.cli.screen import Screen
from tools.cli.settings_file import load
from tools.cli.watchable import watchable

ReplayArgument = Annotated[str, typer.Argument(help="Its id, as `replays` shows it.", metavar="ID")]
#: The fates after which nothing is left to do.
WELL: Final = frozenset({ReplayFate.DONE, ReplayFate.DONE_BEFORE, ReplayFate.SKIPPED})


@contextmanager
def open_stores(settings: Path | None) -> Iterator[Stores]:
    """Yield the stores of an installation, with every stage of it."""
    dequeue = Dequeue(load(settings).get("SLUICE_DEQUEUE") or Dequeue.PUSH)
    with (
        connected(settings) as connections,
        Stores(connections, dequeue=dequeue) as stores,
        _further_stages(stores, settings),
    ):
        yield stores


def build_operator(stores: Stores) -> ParkedOperator:
    """Return the operator of a person who waits."""
    return stores.build_parked_operator(time.sleep, wake=stores.wake_workers)


@contextmanager
def open_operator(settings: Path | None) -> Iterator[ParkedOperator]:
    """Yield the operator of an installation."""
    with open_stores(settings) as stores:
        yield build_operator(stores)


def follow_quietly(settings: Path | None, replay: str) -> None:
    """Go on with a replay to its end, and print errors only."""
    try:
        with open_operator(settings) as operator:
            deque(operator.follow(operator.replays.get(replay)), maxlen=0)
    except SluiceError as error:
        typer.echo(f"sluice: replay {replay} stands still here: {error}", err=True)


def _further_stages(stores: Stores, settings: Path | None) -> AbstractContextManager[object]:
    """Register the stages of the capabilities that are on. Nothing of them is requested before a replay."""
    environ = load(settings)
    # A program that only replays jobs may have no more settings than its connections.
    parsed = Settings.parse(environ) if line_of(environ) else None
    return Parts(stores, parsed) if parsed else nullcontext()


@watchable
def replays(*, settings: SettingsOption = None, as_json: JsonOption = False) -> None:
    """List the last hundred replays, the newest first."""
    with open_operator(settings) as operator:
        found, now = operator.replays.newest(), operator.clock.now()
    if as_json:
        typer.echo(json.dumps({"replays": [view.replay_document(replay, now) for replay in found]}))
    elif not found:
        typer.echo("nothing was replayed yet")
    else:
        Screen().show(make_list("Replays", REPLAYS, found, now))


def follow(replay: ReplayArgument, *, settings: SettingsOption = None, as_json: JsonOption = False) -> None:
    """Go on with a replay up to its end, or look on while another process steps it."""
    with open_operator(settings) as operator:
        step_replay(operator, operator.replays.get(replay), as_json=as_json)


def stop(
    by: ByOption,
    replay: ReplayArgument,
    *,
    why: Annotated[str, typer.Option(help="Kept in the audit.", metavar="TEXT")] = "",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a replay. What is on its queue stays there."""
    with open_operator(settings) as operator:
        stopped = operator.stop_replay(replay, by=by, why=why)
        # If no process has it in hand, this one takes the last step.
        stopped, now = operator.run.step(stopped), operator.clock.now()
    if as_json:
        typer.echo(json.dumps(view.replay_document(stopped, now)))
    else:
        typer.echo(stopped.result or "its process stops it within seconds: `sluice parked replays`")


def step_replay(operator: ParkedOperator, replay: Replay, *, as_json: bool) -> None:
    """Step a replay to its end, and show its waves."""
    if not as_json:
        typer.echo(f"replay {replay.id} of {replay.entries}")
    seen: dict[int, Wave] = {}
    last = replay
    try:
        for last in operator.follow(replay):
            new = [wave for wave in last.waves if wave.number not in seen]
            seen |= {wave.number: wave for wave in new}
            for wave in [] if as_json else new:
                left = f"; {describe_progress(last)}" if last.has_more and not last.is_over else ""
                typer.echo(f"wave {wave.number} of {wave.size}: {describe_fates(wave.counts)}{left}")
    except KeyboardInterrupt:
        typer.echo(
            f"\nleft, not stopped: the app goes on within two minutes. `sluice parked stop {replay.id}` stops it, "
            f"`sluice parked follow {replay.id}` goes on here",
            err=True,
        )
        raise typer.Exit(PROBLEM_FOUND) from None
    if as_json:
        document = {"replay": last.id, "waves": [view.wave_document(wave) for wave in seen.values()]}
        typer.echo(json.dumps({**document, "result": last.result}))
    else:
        typer.echo(describe_end(last))
    if any(last.counts.get(fate) for fate in ReplayFate if fate not in WELL):
        raise typer.Exit(PROBLEM_FOUND)
