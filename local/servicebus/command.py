"""The broker's command line: read a topology, serve it until told to stop."""

import argparse
import asyncio
import errno
import importlib
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from local.servicebus.broker import Broker
from local.servicebus.emulator import config
from local.servicebus.server import Server
from shared.topology import Bus, Topology

_DEFAULT_TOPOLOGY = "shared.topology:topology"


def connection_string(port: int) -> str:
    """Return what a client needs to find this broker; the key is a placeholder that the emulator's clients use too."""
    return (
        f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )


def bus_from(spec: str, work_queues: int | None = None) -> Bus:
    """Call `module:function` for the bus to serve; the function returns a Topology or a Bus."""
    module, _, function = spec.partition(":")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"topology {spec!r} cannot be loaded: {error}; expected module:function") from error
    made = make() if work_queues is None else make(work_queues)
    bus = made.bus if isinstance(made, Topology) else made
    if not isinstance(bus, Bus):
        raise TypeError(f"topology {spec!r} returned {type(bus).__name__}, expected a Topology or a Bus")
    return bus


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.servicebus", description=sys.modules[__package__].__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="write the port there once it is open")
    parser.add_argument("--topology", default=_DEFAULT_TOPOLOGY, help="module:function, default %(default)s")
    parser.add_argument("--work-queues", type=int, help="passed to the topology's function")
    parser.add_argument(
        "--lock-seconds", type=float, help="every lock's length, shorter than the service allows: tests"
    )
    parser.add_argument("--emulator-config", action="store_true", help="print the official emulator's Config.json")
    return parser.parse_args(arguments)


async def _serve(options: argparse.Namespace, broker: Broker) -> None:
    server = Server(broker)
    port = await server.start(options.port)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    if options.port_file:
        # Written beside and moved into place: whoever waits for the file must never read half a number.
        draft = options.port_file.with_suffix(".draft")
        draft.write_text(str(port))
        draft.replace(options.port_file)
    print(
        f"local Service Bus stand-in for development, in memory, not for production: {connection_string(port)}",
        flush=True,
    )
    await stopped.wait()
    await server.stop()


def _explained(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on 127.0.0.1:{port}: the port is in use; stop what uses it, or take a free one: --port 0"
    return f"cannot listen on 127.0.0.1:{port}: {error}"


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    options = _parsed(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        bus = bus_from(options.topology, options.work_queues)
        if options.emulator_config:
            print(json.dumps(config(bus), indent=2))
            return 0
        asyncio.run(_serve(options, Broker(bus, options.lock_seconds)))
    except OSError as error:
        print(_explained(error, options.port), file=sys.stderr)
        return 1
    except (TypeError, ValueError) as error:
        print(f"cannot serve topology {options.topology!r}: {error}", file=sys.stderr)
        return 1
    return 0
