"""`sluice doctor` as a whole: what is there and answers, and whether it is set as it was deployed."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from azure.core.exceptions import AzureError, ResourceNotFoundError

from shared import __version__
from shared.azure import BUS_CONNECTION, HOST_STORAGE, LOCAL_MARK, Connections, find_host_storage, is_refused
from shared.errors import SluiceError
from shared.pipeline import check_limits
from shared.settings import Settings
from shared.topology import topology
from shared.workloads import Workloads
from tools.cli.bus_drift import compare, in_words
from tools.cli.bus_entities import read_bus
from tools.cli.doctor import BUS_KINDS, RETRIES, Finding, State, compare_own, examine
from tools.cli.host_drift import is_of_app, judge_functions, judge_host, judge_schedule
from tools.cli.options import ANSWERS_WITHIN
from tools.cli.settings_file import find_app, load_connected, load_laid
from tools.conformance import ROLE, first_line

#: Where azd says the address of the deployed app.
_ADDRESS: Final = "SERVICE_SLUICE_BASE_URL"
#: Where the host keeps its own leases. It need not be there, but the account must say so.
_HOSTS_CONTAINER: Final = "azure-webjobs-hosts"


def look(named: Path | None) -> list[Finding]:
    """Return every finding about an installation. Nothing of it is changed."""
    settings = load_connected(named)
    return [
        *compare_own(load_laid(named)),
        *compare_bus(settings, list(examine(settings))),
        *_look_at_app(settings, find_app(named)),
    ]


def compare_bus(settings: Mapping[str, str], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, those of the bus with their differences from the deployed ones, and topics beside them."""
    answering = {State.OK, State.FAULTY}
    if not any(one.kind in BUS_KINDS and one.state in answering for one in findings):
        yield from findings
        return
    parsed = Settings.parse(settings)
    wanted = topology(parsed.work_queues, parsed.entities).bus
    try:
        with (
            Connections.parse(settings, is_person=True, retries=RETRIES) as connections,
            connections.bus_administration() as admin,
        ):
            differences = compare(wanted, read_bus(admin, wanted))
    except AzureError as error:
        yield from findings
        yield _unchecked("bus", "properties", _obstacle(error, settings))
        return
    is_local = LOCAL_MARK in settings.get(BUS_CONNECTION, "").lower()
    said = {key: in_words(found, is_local=is_local) for key, found in differences.items()}
    for one in findings:
        problem = said.pop((one.kind, one.name), "") if one.state in answering else ""
        yield replace(one, problem=problem, state=State.DIFFERS) if problem else one
    for (kind, name), problem in said.items():
        if kind == "topic":
            yield Finding(kind, name, problem, State.DIFFERS if problem else State.OK)


def _obstacle(error: AzureError, settings: Mapping[str, str]) -> str:
    if is_refused(error):
        return "needs a key with the right Manage" if settings.get(BUS_CONNECTION) else f"needs the role {ROLE}"
    return f"its administration does not answer: {first_line(error)}"


def _look_at_app(settings: Mapping[str, str], app: Path | None) -> Iterator[Finding]:
    yield judge_schedule(settings)
    yield _workloads(settings, app)
    if settings.get(_ADDRESS):
        yield look_at_version(settings[_ADDRESS])
    if not is_of_app(settings):
        yield _unchecked("host", "settings", f"needs the app's own settings: these have no {HOST_STORAGE}")
        return
    yield from _host_storage(settings)
    yield from judge_functions(settings)
    try:
        yield from judge_host(_read_host(app), settings)
    except ValueError as error:
        yield Finding("host.json", "file", f"is no JSON, so the host does not start: {error}", State.DIFFERS)


def _read_host(app: Path | None) -> dict[str, Any] | None:
    file = app / "host.json" if app else None
    if file is None or not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _workloads(settings: Mapping[str, str], app: Path | None) -> Finding:
    kind, name = "setting", "SLUICE_WORKLOADS"
    try:
        parsed = Settings.parse(settings)
        check_limits(Workloads.load(parsed.workloads, settings), parsed.limits)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code, which may raise anything
        if app is None:
            return _unchecked(kind, name, f"needs the app's code: type it in its folder ({first_line(error)})")
        said = first_line(error) if isinstance(error, SluiceError) else f"{type(error).__name__}: {first_line(error)}"
        return Finding(kind, name, f"the app does not start: {said}", State.DIFFERS)
    return Finding(kind, name)


def _host_storage(settings: Mapping[str, str]) -> Iterator[Finding]:
    kind = "host"
    found = find_host_storage(settings)
    if found.connection is None:
        problem = "; ".join(found.problems) or f"{HOST_STORAGE} has no connection"
        yield Finding(kind, HOST_STORAGE, f"the host does not start: {problem}", State.DIFFERS)
        return
    try:
        with Connections(found.connection, retries=RETRIES) as connections:
            connections.blobs.get_container_client(_HOSTS_CONTAINER).get_container_properties()
    except ResourceNotFoundError:
        yield Finding(kind, HOST_STORAGE)
    except AzureError as error:
        if is_refused(error) and not settings.get(HOST_STORAGE):
            yield _unchecked(kind, HOST_STORAGE, "needs the role Storage Blob Data Reader on the host's account")
            return
        why = "refuses its key" if is_refused(error) else "does not answer"
        consequence = f"so no timer and no trigger runs: correct {HOST_STORAGE}: {first_line(error)}"
        yield Finding(kind, HOST_STORAGE, f"the host's own storage {why}, {consequence}", State.DIFFERS)
    else:
        yield Finding(kind, HOST_STORAGE)


def look_at_version(address: str) -> Finding:
    """Ask the app for its version: the request needs no key, and makes none of storage."""
    kind, name = "app", "version"
    request = f"{address.rstrip('/')}/api/health"
    try:
        with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN) as reply:  # noqa: S310 - its own setting
            said = json.load(reply)
    except urllib.error.HTTPError as error:
        try:
            said = json.load(error)
        except ValueError:
            said = {}
        finally:
            error.close()
        if said.get("status") == "refused":
            why = f"its start was refused, and messages wait: look for {said['log']} in its log"
            return Finding(kind, name, why, State.DIFFERS)
        return Finding(kind, name, f"answers with status {error.code}: deploy its code (`make deploy`)", State.FAULTY)
    except (OSError, ValueError) as error:
        return Finding(kind, name, f"does not answer at {address}: {error}", State.UNREACHABLE)
    return judge_version(said.get("version"))


def judge_version(version: str | None) -> Finding:
    """Return the finding about the version of the app, beside that of this command."""
    if version == __version__:
        return Finding("app", "version")
    return Finding(
        "app",
        "version",
        f"is {version}, and this command is of {__version__}, so each may leave alone what the other wrote: deploy the app, "
        f"or install sluice=={version}",
        State.DIFFERS,
    )


def _unchecked(kind: str, name: str, why: str) -> Finding:
    return Finding(kind, name, state=State.UNCHECKED, note=f"not checked: {why}")
