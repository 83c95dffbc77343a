"""`sluice worker`: works off the queues in this process, for a VM or a container without a Functions host."""

import logging
import os
import signal
import sys
import time
from threading import Event, Thread
from typing import Annotated

import typer

from shared.app import App
from shared.azure import Connections
from shared.errors import SettingsError
from shared.settings import Settings
from shared.telemetry import quiet_libraries, telemetry
from shared.usage import keep
from shared.workloads import Workloads
from tools.cli.options import PROBLEM_FOUND, SettingsOption
from tools.cli.settings_file import add_app_to_path, load_connected

#: Seconds between two checks whether the lanes have ended: a signal of the system is handled in between.
CHECK_SECONDS = 0.2


def worker(
    settings: SettingsOption = None,
    *,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Permits that this process follows at a time.")] = 5,
    grace: Annotated[
        int, typer.Option(min=0, help="Seconds that messages in work may still take after SIGTERM or Ctrl+C.")
    ] = 60,
) -> None:
    """Work off the queues until SIGTERM or Ctrl+C, with the app's settings, workloads and rules.

    The process follows permits from the bus, as the function `drain_work` does. While the bus does not answer, it polls.
    At the end each task ends after its message, gives back what it has not begun, and another process is woken.
    """
    environ = load_connected(settings)
    parsed = Settings.parse(environ)
    _log_to_stderr()
    add_app_to_path(settings)
    stop = Event()
    with (
        Connections.parse(environ, telemetry=telemetry(parsed.telemetry)) as connections,
        App(connections, parsed, Workloads.load(parsed.workloads, environ)) as app,
    ):
        if not app.is_pushed:
            raise SettingsError("SLUICE_DEQUEUE is `trigger`, so the app's host takes the work: a worker needs `push`")
        keep(app.stores.diary)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        lanes = Thread(target=app.work, args=(stop, at_once), name="worker", daemon=True)
        lanes.start()
        _say(f"follows up to {at_once} permits at a time, process {os.getpid()}; ends at SIGTERM or Ctrl+C")
        _wait(lanes, stop, grace)
    _say("ended: what it had received is done or given back")


def _wait(lanes: Thread, stop: Event, grace: int) -> None:
    while lanes.is_alive() and not stop.is_set():
        lanes.join(CHECK_SECONDS)
    _say(f"ends: messages in work have {grace} s")
    until = time.monotonic() + grace
    while lanes.is_alive() and time.monotonic() < until:
        lanes.join(CHECK_SECONDS)
    if lanes.is_alive():
        _say(f"messages were still in work after {grace} s: they are delivered again within a minute")
        # Not an ordinary exit: it would wait for the messages in work.
        os._exit(PROBLEM_FOUND)


def _log_to_stderr() -> None:
    quiet_libraries()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, force=True, format="%(asctime)s %(levelname)s %(message)s"
    )


def _say(progress: str) -> None:
    typer.echo(f"sluice worker: {progress}", err=True)
