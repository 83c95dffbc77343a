"""The options of `make up`. Standard library only: a wrong one is refused before anything is installed."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from functions_local_host.plan import WORKERS

#: Where `.vscode/launch.json` attaches; `func` has its debugger there too.
DEBUG_PORT = 9091


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options, or end the process: with status 0 after `--help`, with 2 and one line of remedy otherwise."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.debug is not None:
        if options.flex or (options.host, options.worker, options.instances or 1) != ("local", "local", 1):
            parser.error("argument --debug: it is for one process of the local host and its own worker")
        options.instances = 1
    options.instances = 2 if options.instances is None else options.instances
    if options.instances < 1:
        parser.error(f"argument --instances: {options.instances} is too few, expected 1 or more")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make up ARGS=", description="Run the stack until Ctrl-C.")
    parser.add_argument("--host", choices=("local", "func"), default="local", help="what runs the app")
    parser.add_argument("--worker", choices=WORKERS, default="local", help="whose worker runs it in the local host")
    parser.add_argument("--instances", type=int, help="worker processes of the local host (2)")
    parser.add_argument("--flex", action="store_true", help="each non-HTTP function in processes of its own")
    parser.add_argument("--port", type=int, default=7071, help="where HTTP functions answer (7071; 0: any free one)")
    parser.add_argument("--data", type=Path, help="keep storage in this folder; without it, it is in memory")
    parser.add_argument(
        "--trigger", action="store_true", help="the host polls for work, no signal wakes the app for it"
    )
    parser.add_argument("--rooms", default="", metavar="ROOMS", help="rooms of publishers, separated by commas")
    parser.add_argument(
        "--capabilities", default="", metavar="NAMES", help="parts to turn on, separated by commas, as registration"
    )
    parser.add_argument("--spans", action="store_true", help="show what each piece of work took, as a trace of its job")
    parser.add_argument(
        "--debug",
        type=int,
        nargs="?",
        const=DEBUG_PORT,
        metavar="PORT",
        help=f"let an editor attach to the app ({DEBUG_PORT}), in one process (docs/workloads.md)",
    )
    parser.add_argument(
        "--external",
        action="store_true",
        help="start only the host; storage and bus are those of local.settings.json (tools/compose.yaml, or Azure)",
    )
    return parser
