"""`make up`: the stack in the foreground, so that publishers can drop messages, until Ctrl-C or SIGTERM."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from shared.capability import CAPABILITIES, find_known, line_of, names_of_settings
from shared.errors import SettingsError
from shared.own import lay, read_own
from shared.settings import NAMES, Dequeue, Settings
from shared.telemetry import TelemetryChoice
from tools.cli.doctor import examine
from tools.cli.provision import KINDS
from tools.cli.settings_file import check_names, is_running
from tools.local import up_options
from tools.local.door import Door
from tools.local.errors import StackError
from tools.local.paths import ACTIVATE, ROOT, STACK
from tools.local.span_lines import SpanLines
from tools.local.stack import RunningHost, StackOptions, running, start_host

#: Where the `sluice` command finds the settings of the stack that runs.
SETTINGS_FILE = STACK / "up" / "local.settings.json"
#: Settings of this machine alone, as `func` reads them.
LOCAL_FILE = ROOT / "local.settings.json"
#: Names of connections begin so: a stack has its own, and changes no app in Azure.
_CONNECTIONS = ("AzureWebJobsStorage", "SluiceStorage", "SluiceBus", "SLUICE_WARM_SITE", "SLUICE_WARM_IDENTITY")
LOOK_EVERY = 1.0


def main(arguments: Sequence[str]) -> int:
    """Run until a signal to stop, or until a part of the stack ends by itself."""
    options = up_options.parse(arguments)
    told_to_stop = threading.Event()
    # SIGHUP: the terminal was closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: told_to_stop.set())
    try:
        return _external(options, told_to_stop) if options.external else _embedded(options, told_to_stop)
    except (StackError, SettingsError) as error:
        if os.environ.get("SLUICE_TRACEBACK"):
            raise
        print(f"sluice up: {error}", file=sys.stderr)
        return 1


def local_settings(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of this machine: those of the file without its connections, then the app's from the environment."""
    values = _values_of(file) if file.exists() else {}
    capabilities = find_known(values, environ)
    check_names({**values, **environ}, capabilities)
    known = NAMES | names_of_settings(capabilities)
    given = values | {name: value for name, value in environ.items() if name in known}
    return {name: value for name, value in given.items() if not name.startswith(_CONNECTIONS)}


def _stack_options(options: argparse.Namespace) -> StackOptions:
    changed = local_settings(LOCAL_FILE, os.environ)
    if options.spans:
        changed["SLUICE_TELEMETRY"] = TelemetryChoice.PRINT.value
    if options.trigger:
        changed["SLUICE_DEQUEUE"] = Dequeue.TRIGGER.value
    if wanted := line_of({CAPABILITIES: options.capabilities}):
        changed[CAPABILITIES] = ",".join(dict.fromkeys([*line_of(changed), *wanted]))
    if options.rooms:
        changed["SLUICE_ROOMS"] = options.rooms
    return StackOptions(
        host=options.host,
        worker=options.worker,
        instances=options.instances,
        port=options.port,
        flex=options.flex,
        data=options.data,
        settings=changed,
        words=() if options.debug is None else ("--debug", str(options.debug)),
    )


def _embedded(options: argparse.Namespace, told_to_stop: threading.Event) -> int:
    _refuse_second()
    with (
        running(_stack_options(options)) as stack,
        Door(stack.settings, SETTINGS_FILE.parent / "door") as door,
        published(SETTINGS_FILE, stack.settings, door),
    ):
        processes = {"azurite": stack.azurite.process, "broker": stack.broker.process, "host": stack.host.process}
        _announce(stack.host, stack.settings)
        _wait(processes, told_to_stop, SpanLines(stack.host.log))
        # Where the terminal was closed, nothing can be printed any more.
        with suppress(OSError):
            print("sluice up: stopping", flush=True)
    return 0


def _refuse_second() -> None:
    if SETTINGS_FILE.exists() and is_running(SETTINGS_FILE):
        raise StackError(
            "a stack of this folder runs already, and the sluice command could not tell them apart: stop it with Ctrl-C, "
            "or run this one in another clone"
        )


def _external(options: argparse.Namespace, told_to_stop: threading.Event) -> int:
    wanted = _stack_options(options)
    settings = _local_settings() | dict(wanted.settings or {})
    # Before anything starts: the host would end with the same, wrapped in its log.
    settings = dict(lay(read_own(ROOT, settings), settings).settings)
    Settings.parse(settings)
    host = start_host(wanted, settings)
    try:
        _announce(host, settings)
        _list_missing(settings)
        _wait({"host": host.process}, told_to_stop, SpanLines(host.log))
    finally:
        host.stop()
    return 0


def _list_missing(settings: Mapping[str, str]) -> None:
    """Print what is not there, or not right: the app waits for it."""
    findings = list(examine(settings))
    for one in findings:
        if one.problem:
            print(f"    {one.kind} {one.name} {one.problem}", flush=True)
    entities = [one for one in findings if one.kind in KINDS]
    missing = sum(bool(one.problem) for one in entities)
    if not missing:
        return
    print(
        f"{missing} of {len(entities)} entities are missing or do not answer, and the app waits for them. In another "
        f"terminal:\n    .venv/bin/sluice provision      (makes what is missing; --dry-run lists it)",
        flush=True,
    )


def _local_settings() -> dict[str, str]:
    if not LOCAL_FILE.exists():
        raise StackError("--external needs local.settings.json: copy local.settings.sample.json and look it through")
    return _values_of(LOCAL_FILE)


def _values_of(file: Path) -> dict[str, str]:
    try:
        values: dict[str, str] = {name: str(value) for name, value in json.loads(file.read_text())["Values"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(f"{file} is not a settings file: expected JSON with an object `Values`") from error
    return values


@contextmanager
def published(file: Path, settings: Mapping[str, str], door: Door) -> Iterator[None]:
    """Let the `sluice` command find this stack while it runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    said = {"IsEncrypted": False, "Process": os.getpid(), "Values": dict(settings), "Publisher": door.described}
    file.write_text(json.dumps(said, indent=2))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _announce(host: RunningHost, settings: Mapping[str, str]) -> None:
    print(
        f"\nSluice runs at {host.base_url} (try {host.base_url}/api/health). In another terminal, in this folder:\n"
        f"    {ACTIVATE}\n"
        f"    sluice doctor\n"
        f"    sluice web      (the console: it prints an address for your browser)\n"
        f'    eval "$(sluice publisher-env)"      (what a publisher\'s examples need: docs/formats.md)\n'
        f"Its connections:\n"
        f"    SluiceStorage={settings['SluiceStorage']}\n"
        f"    SluiceBus={settings['SluiceBus']}\n"
        f"Ctrl-C stops everything.",
        flush=True,
    )


def _wait(processes: Mapping[str, subprocess.Popen[bytes]], told_to_stop: threading.Event, spans: SpanLines) -> None:
    while not told_to_stop.wait(LOOK_EVERY):
        for line in spans.new():
            print(line, flush=True)
        for name, process in processes.items():
            if process.poll() is not None:
                raise StackError(f"the {name} ended by itself with exit status {process.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
