"""`sluice provision`: makes what the app needs and what is not there yet, in its storage account and on its bus."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError
from rich.table import Table

from shared.azure import BUS_CONNECTION, LOCAL_MARK, STORAGE_CONNECTION, Connections, error_code, is_refused
from shared.settings import Settings
from shared.topology import BusEntities, topology
from tools.cli.bus_entities import Namespace
from tools.cli.doctor import BUS_KINDS, RETRIES, Finding, State, examine, how_to_log_in
from tools.cli.options import PROBLEM_FOUND, JsonOption, SettingsOption
from tools.cli.screen import Screen, clean
from tools.cli.settings_file import load_connected
from tools.conformance import first_line

#: The kinds of a storage account, in the order of the topology.
STORAGE: Final = ("queue", "container", "table")
#: The kinds that it makes.
KINDS: Final = frozenset({*STORAGE, *BUS_KINDS})
#: The codes of the services for something that is there. Others mean that it is being deleted.
_EXISTS: Final = frozenset({"QueueAlreadyExists", "ContainerAlreadyExists", "TableAlreadyExists"})


class Result(StrEnum):
    """The result for one entity."""

    THERE = "was there"
    MADE = "made"
    MISSING = "missing"
    FAILED = "not made"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One entity that the app needs, and what came of it."""

    kind: str
    name: str
    result: Result
    problem: str = ""


def provision(
    settings: SettingsOption = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make nothing: list what is there and what is missing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make every queue, container, table and bus entity that is missing. What is there stays unchanged."""
    environ = load_connected(settings)
    findings = [one for one in examine(environ) if one.kind in KINDS]
    outcomes = [_untouched(one) for one in findings] if dry_run else list(make_missing(environ, findings))
    is_whole = all(one.result in {Result.THERE, Result.MADE} for one in outcomes)
    if as_json:
        typer.echo(json.dumps({"ok": is_whole, "entities": [asdict(one) for one in outcomes]}))
    else:
        Screen().show(_table(outcomes))
        counts = Counter(one.result for one in outcomes)
        typer.echo(", ".join(f"{counts[result]} {result}" for result in Result if counts[result]))
    if not is_whole:
        raise typer.Exit(PROBLEM_FOUND)


def make_missing(environ: Mapping[str, str], findings: list[Finding]) -> Iterator[Outcome]:
    """Make what the findings name as missing, and yield what came of each."""
    parsed = Settings.parse(environ)
    wanted = topology(parsed.work_queues, parsed.entities)
    with Connections.parse(environ, is_person=True, retries=RETRIES) as connections:
        for one in findings:
            if one.kind in STORAGE:
                yield _in_storage(connections, one, how_to_log_in(STORAGE_CONNECTION, environ))
        on_bus = [one for one in findings if one.kind not in STORAGE]
        if LOCAL_MARK in environ.get(BUS_CONNECTION, "").lower():
            part = "".join(f" --part {one.name}" for one in parsed.capabilities)
            yield from (_untouched(one, _of_a_file(part)) for one in on_bus)
        else:
            yield from make_on_bus(connections, wanted.bus, on_bus, how_to_log_in(BUS_CONNECTION, environ))


def make_in_storage(connections: Connections, kind: str, name: str) -> bool:
    """Make a queue, a container or a table. Return false if it was there."""
    try:
        if kind == "queue":
            connections.queues.create_queue(name)
        elif kind == "container":
            connections.blobs.create_container(name)
        else:
            connections.tables.create_table(name)
    except ResourceExistsError as error:
        if error_code(error) not in _EXISTS:
            raise
        return False
    return True


def _in_storage(connections: Connections, found: Finding, log_in: str) -> Outcome:
    if found.state is not State.MISSING:
        return _untouched(found)
    try:
        is_new = make_in_storage(connections, found.kind, found.name)
    except AzureError as error:
        return _failed(found, error, log_in)
    return Outcome(found.kind, found.name, Result.MADE if is_new else Result.THERE)


def make_on_bus(
    connections: Connections, wanted: BusEntities, findings: list[Finding], log_in: str
) -> Iterator[Outcome]:
    """Make what is missing on the bus, by its administration. Mend the rules of subscriptions that a run left unmade."""
    obstacle = ""
    with connections.bus_administration() as admin:
        namespace = Namespace(admin, wanted)
        for found in findings:
            if obstacle or found.state not in {State.MISSING, State.OK}:
                yield _unchecked(found, obstacle) if found.state is State.OK else _untouched(found, obstacle)
                continue
            try:
                is_changed = namespace.bring(found.name, is_there=found.state is State.OK)
            except AzureError as error:
                failed = _failed(found, error, log_in)
                if is_refused(error) or not isinstance(error, HttpResponseError):
                    # It would say the same of each, or say nothing for as long again.
                    obstacle = failed.problem
                yield failed if found.state is State.MISSING else _unchecked(found, failed.problem)
            else:
                yield Outcome(found.kind, found.name, Result.MADE if is_changed else Result.THERE)


def _untouched(found: Finding, remedy: str = "") -> Outcome:
    if found.state in {State.OK, State.DIFFERS}:
        return Outcome(found.kind, found.name, Result.THERE)
    if found.state is State.MISSING:
        return Outcome(found.kind, found.name, Result.MISSING, remedy)
    return Outcome(found.kind, found.name, Result.FAILED, found.problem)


def _unchecked(found: Finding, why: str) -> Outcome:
    problem = f"its rules could not be checked: {why}" if found.kind == "subscription" else ""
    return Outcome(found.kind, found.name, Result.THERE, problem)


def _failed(found: Finding, error: AzureError, log_in: str) -> Outcome:
    said = first_line(error)
    return Outcome(found.kind, found.name, Result.FAILED, f"{log_in}: {said}" if is_refused(error) else said)


def _of_a_file(part: str) -> str:
    command = f"python -m servicebus_local{part}"
    return (
        f"this bus has the entities of a file that it reads at its start: start `{command} --port PORT`, or the emulator "
        f"with the Config.json that `{command} --emulator-config` prints"
    )


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("kind", "name", "result", title="What Sluice needs")
    for one in outcomes:
        table.add_row(one.kind, one.name, clean(f"{one.result}: {one.problem}" if one.problem else str(one.result)))
    return table
