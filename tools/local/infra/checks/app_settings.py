"""Every setting of the code reaches the app and the sample, by identity and without a key. No setting is unused."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from shared.azure import BUS_CONNECTION, STORAGE_CONNECTION
from shared.capability import CAPABILITIES, builtin_names, find
from shared.errors import SettingsError
from shared.names import PREFIX, RETIRED_OF_AZD
from shared.own import FILE as OWN_SETTINGS, list_deployed
from shared.settings import Settings
from tools.local.infra.bicep import BicepError
from tools.local.infra.checks.parameters import environment_of
from tools.local.infra.checks.roles import may_reach
from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import ROOMS, Project, both_ways, with_rooms
from tools.local.stack import TRIGGER_BATCH

#: What the identity-based form of each connection needs.
IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    STORAGE_CONNECTION: ("queueServiceUri", "blobServiceUri", "tableServiceUri", "credential", "clientId"),
    BUS_CONNECTION: ("fullyQualifiedNamespace", "credential", "clientId"),
    # Queues and tables of the host's account are for Durable Functions.
    "AzureWebJobsStorage": ("blobServiceUri", "credential", "clientId"),
}
THREADS: Final = "PYTHON_THREADPOOL_THREAD_COUNT"
#: Read by the host, by its workers, and by their C library.
HOSTS_OWN: Final = {
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "MALLOC_ARENA_MAX",
    THREADS,
}
#: Flex Consumption refuses or ignores them: functionAppConfig says it.
NOT_ON_FLEX: Final = {
    "ENABLE_ORYX_BUILD",
    "FUNCTIONS_EXTENSION_VERSION",
    "FUNCTIONS_WORKER_PROCESS_COUNT",
    "FUNCTIONS_WORKER_RUNTIME",
    "FUNCTIONS_WORKER_RUNTIME_VERSION",
    "SCM_DO_BUILD_DURING_DEPLOYMENT",
    "TZ",
    "WEBSITE_CONTENTAZUREFILECONNECTIONSTRING",
    "WEBSITE_CONTENTSHARE",
    "WEBSITE_MAX_DYNAMIC_APPLICATION_SCALE_OUT",
    "WEBSITE_RUN_FROM_PACKAGE",
    "WEBSITE_TIME_ZONE",
    "WEBSITE_VNET_ROUTE_ALL",
}
#: How a setting ends that says where a service is, and how its account and its service follow.
_SERVICE: Final = re.compile(r"__(blob|queue|table)ServiceUri$")
_ADDRESS: Final = re.compile(r"https://(\w+)\.")
_HOST_JSON: Final = "AzureFunctionsJobHost__"
POLL: Final = f"{_HOST_JSON}extensions__queues__maxPollingInterval"

#: The worker's switch of its exporter, and that of Sluice's spans
#: (azure-functions-python-worker, constants.py: PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY, read 2026-11-27).
TRACES: Final = {"PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY": "true", "SLUICE_TELEMETRY": "otel"}


def check(project: Project) -> Iterator[Finding]:
    """Yield settings that are missing, unknown or refused."""
    # More than one work queue, two rooms, and one setting of the operator's, so that what overrides what is seen.
    deployment = project.deployed(workQueues=2, rooms=with_rooms(), settings={"SLUICE_CHUNK_ITEMS": "77"})
    given = given_settings(deployment)
    yield from _identities(given)
    plain = {one.name for one in project.settings if not one.is_connection}
    own = {name for name in given if name.startswith("SLUICE_")}
    needed = {one.name for one in project.settings if not one.is_connection and one.default is None} | list_deployed([])
    for name in sorted(needed - own):
        yield Finding("function-app.bicep", f"setting {name} is not given to the app: add it, or a default in the code")
    for name in sorted(own - plain):
        yield Finding("function-app.bicep", f"setting {name} is given to the app, and nothing reads it")
    for name in sorted(own - needed - {"SLUICE_CHUNK_ITEMS"}):
        yield Finding("function-app.bicep", f"setting {name} is given unasked, and would hide {OWN_SETTINGS}")
    for name in sorted(NOT_ON_FLEX & given.keys()):
        yield Finding("function-app.bicep", f"{name} has no place on Flex Consumption: functionAppConfig says it")
    yield from _without_role(given, deployment)
    yield from _parsed(given)
    yield from _polls(project)
    yield from _batches(project)
    yield from _threads(project, given)
    yield from _outputs(deployment)
    yield from _warming(project)
    yield from _traced(project)
    yield from _capabilities(project)
    yield from _workloads(project)
    yield from _sample(project)


def _traced(project: Project) -> Iterator[Finding]:
    """Yield settings of traces that are there unasked, or missing: the exporter without its spans, or these without it."""
    for is_wanted in (True, False):
        given = given_settings(project.deployed(hasTraces=is_wanted))
        found = {name: given.get(name) for name in TRACES}
        if found != (TRACES if is_wanted else dict.fromkeys(TRACES)):
            yield Finding("infra", f"with hasTraces {is_wanted}, the app has {found}")


def _warming(project: Project) -> Iterator[Finding]:
    """Yield settings of warmed instances that are there unasked, or missing where the operator wants them."""
    for is_wanted in (False, True):
        deployment = project.deployed(hasWarming=is_wanted)
        for name in (CAPABILITIES, "SLUICE_WARM_SITE", "SLUICE_WARM_IDENTITY"):
            for where, given in (("the app", given_settings(deployment)), ("the command", deployment.outputs)):
                if bool(given.get(name)) is not is_wanted:
                    yield Finding("infra", f"with hasWarming {is_wanted}, {where} has {name} {given.get(name)!r}")


def _capabilities(project: Project) -> Iterator[Finding]:
    """Yield an app, or a command, that does not know which capabilities are deployed, or a switch of before that is silent."""
    for line in ("", *builtin_names()):
        counted = find(line).capability.counted if line else None
        wanted = {CAPABILITIES: line} | ({counted.setting: "3"} if counted else {})
        deployment = project.deployed(capabilities=line, **({parameter_of(counted.setting): 3} if counted else {}))
        for where, given in (("the app", given_settings(deployment)), ("the command", deployment.outputs)):
            found = {name: given.get(name) for name in wanted}
            if found != wanted:
                yield Finding("infra", f"with capabilities {line!r}, {where} has {found}, expected {wanted}")
    retired = {name for name, variable in environment_of(project).items() if variable in RETIRED_OF_AZD}
    for name in sorted(retired):
        with suppress(BicepError):
            project.deployed(**{name: True})
            yield Finding("main.bicep", f"{name} is a switch of before, and the deployment goes on without a word")


def parameter_of(setting: str) -> str:
    """Return the parameter of the deployment that gives a setting."""
    first, *others = setting.removeprefix(PREFIX).lower().split("_")
    return first + "".join(one.title() for one in others)


def _workloads(project: Project) -> Iterator[Finding]:
    """Yield an app that does not get its owner's code by the parameter, else by `settings`, else leaves it to own/."""
    other = {"SLUICE_WORKLOADS": "theirs:Theirs"}
    for parameters, wanted in (
        ({"workloads": "own:Own", "settings": other}, "own:Own"),
        ({"settings": other}, "theirs:Theirs"),
        ({}, None),
    ):
        found = given_settings(project.deployed(**parameters)).get("SLUICE_WORKLOADS")
        if found != wanted:
            yield Finding(
                "function-app.bicep", f"with {parameters} the app has the workloads {found}, expected {wanted}"
            )


def given_settings(deployment: Deployment) -> dict[str, Any]:
    """Return the settings that the app is deployed with."""
    sites = deployment.of_type("Microsoft.Web/sites/config")
    return {name: value for one in sites if one.last_name == "appsettings" for name, value in one.properties.items()}


def _identities(given: Mapping[str, Any]) -> Iterator[Finding]:
    for connection, parts in IDENTITY.items():
        if connection in given:
            yield Finding(
                "function-app.bicep", f"{connection} is a connection string: an exact name wins over identity"
            )
        for part in parts:
            if f"{connection}__{part}" not in given:
                yield Finding("function-app.bicep", f"setting {connection}__{part} is not given to the app")
    for name in sorted(HOSTS_OWN - given.keys()):
        yield Finding("function-app.bicep", f"setting {name} is not given to the app")


def _without_role(given: Mapping[str, Any], deployment: Deployment) -> Iterator[Finding]:
    """Yield addresses of services that would refuse the app."""
    for name, value in given.items():
        service, address = _SERVICE.search(name), _ADDRESS.match(str(value))
        if service and address and not may_reach(service[1], address[1], deployment):
            yield Finding("function-app.bicep", f"{name} is given to the app, which has no role for it: leave it out")


def _parsed(given: Mapping[str, Any]) -> Iterator[Finding]:
    texts = {name: str(value) for name, value in given.items()}
    try:
        settings = Settings.parse(texts)
    except SettingsError as error:
        yield Finding("function-app.bicep", f"the app refuses its settings: {error}")
        return
    if (settings.work_queues, settings.chunk_items, settings.rooms) != (2, 77, ROOMS):
        yield Finding("function-app.bicep", "what a parameter says does not reach the app")


def _polls(project: Project) -> Iterator[Finding]:
    """Yield a poll that is not the one that prices and pages go by."""
    said = project.json("host.json")["extensions"]["queues"]["maxPollingInterval"]
    for parameters, wanted in (
        ({}, said),
        ({"dequeue": "trigger"}, said),
        ({"pollInterval": "00:00:07"}, "00:00:07"),
        ({"dequeue": "trigger", "pollInterval": "00:00:07"}, "00:00:07"),
    ):
        found = given_settings(project.deployed(**parameters)).get(POLL, said)
        if found != wanted:
            yield Finding("function-app.bicep", f"with {parameters} the host polls each {found}, expected {wanted}")


def _batches(project: Project) -> Iterator[Finding]:
    """Yield another number of permits at a time by trigger than the local host has."""
    given = given_settings(project.deployed(dequeue="trigger"))
    for name, wanted in TRIGGER_BATCH.items():
        if given.get(name) != wanted:
            yield Finding(
                "function-app.bicep", f"by trigger {name} is {given.get(name)}, tools/local/stack.py has {wanted}"
            )


def _threads(project: Project, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a thread pool that is smaller or larger than the messages that host.json lets in at a time."""
    queues = project.json("host.json")["extensions"]["queues"]
    wanted = str(queues["batchSize"] + queues["newBatchThreshold"])
    places = (
        ("function-app.bicep", given),
        ("local.settings.sample.json", project.json("local.settings.sample.json")["Values"]),
    )
    for place, values in places:
        if values.get(THREADS) != wanted:
            found = f"{THREADS} is {values.get(THREADS)}, host.json lets in {wanted} messages at a time"
            yield Finding(place, found)


def _outputs(deployment: Deployment) -> Iterator[Finding]:
    texts = {name: str(value) for name, value in deployment.outputs.items()}
    try:
        settings = Settings.parse(texts)
    except SettingsError as error:
        yield Finding("main.bicep", f"with its outputs in the environment, the command is not content: {error}")
        return
    if settings.rooms != ROOMS:
        yield Finding("main.bicep", "with its outputs in the environment, the command does not know the rooms")


def _sample(project: Project) -> Iterator[Finding]:
    values = project.json("local.settings.sample.json")["Values"]
    # All others are in the code, and would hide own/settings.json from who copies this file.
    wanted = {one.name: one.local for one in project.settings if one.default is None}
    kept = {name: text for name, text in values.items() if not name.startswith(("FUNCTIONS_", "AzureWeb", "PYTHON_"))}
    missing, extra = both_ways(wanted, kept)
    for name in missing:
        yield Finding(
            "local.settings.sample.json", f"setting {name} is missing: its safe local value is {wanted[name]}"
        )
    for name in extra:
        yield Finding("local.settings.sample.json", f"setting {name} has no place there: the code has its default")
    for name in wanted.keys() & kept.keys():
        if wanted[name] != kept[name]:
            yield Finding(
                "local.settings.sample.json", f"{name} is {kept[name]!r}, its local value is {wanted[name]!r}"
            )
