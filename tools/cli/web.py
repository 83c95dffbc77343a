"""`sluice web`: the pages of the console on this machine, with the rights of the person who starts it.

The app may be down. Only the browser that opens an address printed here is let in.
"""

from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from shared.app import Stores
from shared.settings import Settings
from tools.cli.options import ByOption, SettingsOption, connected
from tools.cli.replays import follow_quietly
from tools.cli.settings_file import load_connected

PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0: any free one.")]
OpenOption = Annotated[str, typer.Option("--open", metavar="PATH", help="The page that it begins with: /job/x.")]


def web(
    by: ByOption,
    *,
    port: PortOption = 0,
    page: OpenOption = "/",
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, without acts.")] = False,
    settings: SettingsOption = None,
) -> None:
    """Show the console in a browser of this machine: jobs, gates, parked messages, and why. Ctrl-C ends it."""
    # Most commands need no templates and no server.
    from capabilities.console.visit import build_view  # noqa: PLC0415
    from tools.cli.web_server import serve  # noqa: PLC0415

    parsed = Settings.parse(load_connected(settings))
    with connected(settings) as connections, Stores(connections) as stores:
        view = build_view(stores, parsed, step_replay=partial(_step, settings))
        serve(view, port, by, page, may_act=not read_only)


def _step(settings: Path | None, replay: str) -> None:
    """Go on with a replay in a thread that ends with this process."""
    Thread(target=follow_quietly, args=(settings, replay), daemon=True).start()
