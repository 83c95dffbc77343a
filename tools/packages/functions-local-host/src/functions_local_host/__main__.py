"""`python -m functions_local_host`: run a Functions app locally, as the real host would."""

import argparse
import asyncio
import logging
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from functions_local_host.errors import StartError
from functions_local_host.host_json import HostJsonError, load_host_json
from functions_local_host.local_settings import SettingsError, load_settings
from functions_local_host.logs import HOST_LOG, set_up_logging
from functions_local_host.plan import WORKERS, HostArguments
from functions_local_host.run_folder import RunFolder, write
from functions_local_host.supervisor import Supervisor

#: Where `func` listens too.
DEFAULT_PORT = 7071


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m functions_local_host", description=__doc__)
    parser.add_argument("--app", type=Path, default=Path(), help="folder of function_app.py and host.json")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="HTTP port on 127.0.0.1; 0: any free one")
    parser.add_argument("--instances", type=int, default=1, help="processes per group")
    parser.add_argument(
        "--flex", action="store_true", help="each function without an HTTP trigger in its own processes"
    )
    parser.add_argument("--auth", action="store_true", help="require HTTP keys (func does not, locally)")
    parser.add_argument("--keys", type=Path, help="key file, made on the first start (default: in the run folder)")
    parser.add_argument("--message-lease", type=float, default=600.0, metavar="S", help="lease of a queue message")
    parser.add_argument("--timer-lease", type=float, metavar="S", help="lease of a timer, 15 to 60")
    parser.add_argument(
        "--timer-retry", type=float, metavar="S", help="how often other instances try to take a timer's lease"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=30.0, metavar="S", help="what runs may take after a stop"
    )
    parser.add_argument(
        "--longest-pause",
        type=float,
        default=30.0,
        metavar="S",
        help="before an instance that keeps dying young is started again",
    )
    parser.add_argument(
        "--run-folder", type=Path, help="where the processes leave their state (default: a temporary one)"
    )
    parser.add_argument("--worker", choices=WORKERS, default="local", help="whose worker runs user code")
    parser.add_argument("--worker-process", type=Path, metavar="FILE", help="the program that --worker grpc starts")
    parser.add_argument("--end-with-stdin", action="store_true", help="stop when standard input ends: for a launcher")
    parser.add_argument(
        "--debug", type=int, metavar="PORT", help="let an editor attach to the one instance, by debugpy on this port"
    )
    parser.add_argument("--verbose", action="store_true", help="show tracebacks of start errors")
    return parser


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise StartError(
            f"port {port} cannot be taken: {error.strerror}; stop what uses it or name another with --port"
        ) from error
    listening.listen(128)
    return listening


def _serve(given: argparse.Namespace, run_folder: Path) -> None:
    if os.name != "posix":
        raise StartError("the local host shares sockets between processes, which Windows cannot: run it in WSL")
    app = given.app.resolve()
    if given.instances < 1:
        raise StartError(f"--instances is {given.instances}, expected 1 or more")
    if given.timer_lease is not None and not 15 <= given.timer_lease <= 60:
        raise StartError(f"--timer-lease is {given.timer_lease:g}, a blob lease takes 15 to 60 seconds")
    if given.debug is not None and (given.instances > 1 or given.flex or given.worker != "local"):
        raise StartError(
            "--debug is for one instance with the local worker: leave --instances, --flex and --worker out"
        )
    environment = {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"} | load_settings(
        app / "local.settings.json", os.environ
    )
    load_host_json(app / "host.json", environment)
    keys = (given.keys or run_folder / "keys.json").resolve()
    arguments = HostArguments(
        app=str(app),
        run_folder=str(run_folder),
        is_flex=given.flex,
        keys=str(keys) if given.auth else None,
        message_lease=given.message_lease,
        timer_lease=given.timer_lease,
        timer_retry=given.timer_retry,
        drain_seconds=given.drain_seconds,
        longest_pause=given.longest_pause,
        is_verbose=given.verbose,
        worker=given.worker,
        worker_process=str(given.worker_process.resolve()) if given.worker_process else None,
        debug_port=given.debug,
    )
    listening = _listen(given.port)
    port = listening.getsockname()[1]
    RunFolder(run_folder).clear()
    write(RunFolder(run_folder).address, {"port": port, "keys": arguments.keys})
    HOST_LOG.info("listening on http://127.0.0.1:%d", port)
    asyncio.run(_supervise(arguments, environment, given, listening))


async def _supervise(
    arguments: HostArguments, environment: dict[str, str], given: argparse.Namespace, listening: socket.socket
) -> None:
    supervisor = Supervisor(arguments, environment, given.instances)
    if given.end_with_stdin:
        supervisor.end_with_stdin()
    await supervisor.run(listening)


@contextmanager
def _run_folder(given: Path | None) -> Iterator[Path]:
    if given:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="functions-local-host-") as scratch:
            yield Path(scratch).resolve()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped by a signal. Return the exit status."""
    given = _parser().parse_args(argv)
    set_up_logging(f"supervisor/{os.getpid()}", logging.INFO, {})
    try:
        with _run_folder(given.run_folder) as folder:
            _serve(given, folder)
    except (StartError, HostJsonError, SettingsError) as error:
        sys.stderr.write(f"error: {error}\n")
        if given.verbose:
            traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
