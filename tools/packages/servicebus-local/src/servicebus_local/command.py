"""The broker's command line: read the entities, serve them until a signal ends it."""

import argparse
import asyncio
import errno
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from servicebus_local.broker import Broker
from servicebus_local.certificates import tls_context
from servicebus_local.emulator import config
from servicebus_local.entities import read
from servicebus_local.server import Server
from servicebus_local.tokens import POLICY, Gatekeeper, Policy, read_policies

#: Where this repository has it; another project names its own.
ENTITIES = Path("infra/entities.json")


def connection_string(port: int, key: str = "SAS_KEY_VALUE", *, policy: str = POLICY, tls: bool = False) -> str:
    """Return the address of this broker for clients. The key is a placeholder that the emulator's clients use too."""
    shown = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={policy};SharedAccessKey={key};"
    # What clients call the emulator is a broker without TLS.
    return shown if tls else f"{shown}UseDevelopmentEmulator=true;"


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m servicebus_local", description=sys.modules[__package__].__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="write the port there once it is open")
    parser.add_argument(
        "--entities", type=Path, default=ENTITIES, metavar="FILE", help="the JSON file of entities, default %(default)s"
    )
    parser.add_argument(
        "--part", action="append", default=[], metavar="NAME", help="a part of the file whose `bus` is served too"
    )
    parser.add_argument(
        "--lock-seconds", type=float, help="every lock's length, shorter than the service allows: tests"
    )
    parser.add_argument(
        "--operations-per-second",
        type=int,
        metavar="N",
        help="refuse what is over N sends and requests a second for an entity, and hand out N messages at most",
    )
    parser.add_argument(
        "--tls",
        type=Path,
        metavar="FOLDER",
        help="take TLS beside plain connections; the folder gets the certificates: trust its ca.pem",
    )
    parser.add_argument(
        "--tls-name",
        default="",
        metavar="NAME",
        help="one more name of the certificate, for clients that know Azure's alone",
    )
    parser.add_argument(
        "--sas-key", metavar="KEY", help=f"take only tokens of the policy {POLICY} with this key; without it any"
    )
    parser.add_argument(
        "--sas-policies",
        type=Path,
        metavar="FILE",
        help="take only tokens of these policies, each with rights, of one entity or the namespace: a JSON list",
    )
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input does: for a launcher")
    parser.add_argument("--emulator-config", action="store_true", help="print the official emulator's Config.json")
    return parser.parse_args(arguments)


def _gatekeeper(options: argparse.Namespace) -> Gatekeeper | None:
    policies = [] if options.sas_policies is None else read_policies(options.sas_policies)
    if options.sas_key is not None:
        policies.append(Policy(POLICY, options.sas_key))
    # A file without policies lets nobody in, as a namespace without any does.
    return None if options.sas_key is None and options.sas_policies is None else Gatekeeper(policies)


async def _serve(options: argparse.Namespace, broker: Broker, gatekeeper: Gatekeeper | None) -> None:
    tls = None if options.tls is None else tls_context(options.tls, options.tls_name)
    server = Server(broker, tls=tls, gatekeeper=gatekeeper)
    port = await server.start(options.port)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    if options.end_with_stdin:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stopped.set)
    if options.port_file:
        # Written beside and moved into place: a process that waits for the file must never read half a number.
        draft = options.port_file.with_suffix(".draft")
        draft.write_text(str(port))
        draft.replace(options.port_file)
    # A key that somebody chose is not printed.
    shown = connection_string(port, "SAS_KEY_VALUE" if gatekeeper is None else "(yours)", tls=tls is not None)
    print(f"local Service Bus stand-in for development, in memory, not for production: {shown}", flush=True)
    await stopped.wait()
    if options.end_with_stdin:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
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
        namespace = read(options.entities, options.part)
        if options.emulator_config:
            print(json.dumps(config(namespace), indent=2))
            return 0
        broker = Broker(namespace, options.lock_seconds, options.operations_per_second)
        asyncio.run(_serve(options, broker, _gatekeeper(options)))
    except OSError as error:
        print(_explained(error, options.port), file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"cannot serve {options.entities}: {error}", file=sys.stderr)
        return 1
    return 0
