"""The checks of what is deployed: the project passes them, and each seeded mistake is found by the one that is meant to."""

import dataclasses
import json
import re
import shutil

import pytest

from shared.azure.connection_settings import Setting
from shared.settings import SETTINGS
from shared.telemetry.events import EVENTS
from shared.telemetry.log import Alert, LogEvent, Severity
from shared.topology import BusQueue, topology
from tools.local import commands
from tools.local.infra import checkov, checks, entities
from tools.local.infra.__main__ import main as infra
from tools.local.infra.checks import compiled, policies
from tools.local.infra.facts import FACTS
from tools.local.infra.project import Project
from tools.local.paths import ROOT

#: What the checks read.
READ = (
    ".ci",
    ".devcontainer",
    ".funcignore",
    ".github",
    ".vscode",
    "LICENSE",
    "Makefile",
    "azure.yaml",
    "capabilities",
    "function_app.py",
    "functions",
    "host.json",
    "infra",
    "local.settings.sample.json",
    "own",
    "requirements.txt",
    "shared",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of what the checks read."""
    target = tmp_path_factory.mktemp("project")
    for name in READ:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture
def project(copy):
    """The copy, to be changed at will: it is put back afterwards."""
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("*") if file.is_file()}
    yield Project(root=copy)
    for file in copy.rglob("*"):
        if file.is_file() and file not in before:
            file.unlink()
    for file, changed in before.items():
        if not file.exists() or file.stat().st_mtime_ns != changed:
            shutil.copy(ROOT / file.relative_to(copy), file)


def wrong(project, named=tuple(checks.CHECKS)):
    """Return what the checks find, as a person reads it."""
    return [str(finding) for finding in checks.findings(project, named) if not finding.is_skip]


#: `make check` runs Checkov on the project too. It takes five seconds of CPU.
NAMED = [name for name in checks.CHECKS if name != "policies"]


def test_the_project_passes():
    """Nothing is found in what is committed."""
    assert wrong(Project(), NAMED) == []


def replacing(file, old, new):
    """Return a mistake: a text of a file is another one."""

    def seed(project):
        path = project.root / file
        text = path.read_text()
        assert text.count(old) >= 1, f"{file} does not hold {old!r}: the seed is out of date"
        path.write_text(text.replace(old, new, 1))
        return project

    return seed


def appending(file, text):
    """Return a mistake: a file that goes on."""

    def seed(project):
        path = project.root / file
        path.write_text(f"{path.read_text() if path.exists() else ''}\n{text}\n")
        return project

    return seed


def in_json(file, change):
    """Return a mistake in a JSON file."""

    def seed(project):
        path = project.root / file
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        return project

    return seed


def topology_with(**more):
    """Return a mistake: the code knows an entity that nothing else does."""

    def changed(*given):
        whole = topology(*given)
        return dataclasses.replace(whole, **{name: (*getattr(whole, name), one) for name, one in more.items()})

    return lambda project: dataclasses.replace(project, topology=changed)


def bus_queue_in_the_code(project):
    """Return a mistake: the code knows a queue of the bus that nothing else does."""

    def changed(*given):
        whole = topology(*given)
        return dataclasses.replace(
            whole, bus=dataclasses.replace(whole.bus, queues=(*whole.bus.queues, BusQueue("orders")))
        )

    return dataclasses.replace(project, topology=changed)


def setting_in_the_code(default):
    """Return a mistake: the code reads a setting that nothing else knows."""
    new = Setting("SLUICE_NEW", "something new", "x", default=default)
    return lambda project: dataclasses.replace(project, settings=(*SETTINGS, new))


def event_in_the_catalogue(alert):
    """Return a mistake: the code tells an event that should call somebody, and nothing listens."""
    new = LogEvent(name="sluice.new.event", level=40, fields=(), meaning="new", remedy="look", alert=alert)
    return lambda project: dataclasses.replace(project, events=(*EVENTS, new))


def without(name):
    """Return a mistake: a file is not there."""

    def seed(project):
        (project.root / name).unlink()
        return project

    return seed


def sender_on_the_topic(project):
    """Return a mistake: the receiver's role is given on the topic, which does not reach its subscriptions."""
    project = replacing(
        "infra/modules/roles-of-app.bicep",
        "resource component 'Microsoft.Insights",
        "resource topic 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = {\n"
        "  parent: bus\n  name: 'signals'\n}\n\nresource component 'Microsoft.Insights",
    )(project)
    return replacing("infra/modules/roles-of-app.bicep", "scope: bus", "scope: topic")(project)


BUS, APP_STORAGE = "infra/modules/service-bus.bicep", "infra/modules/app-storage.bicep"
CONSOLE = "infra/modules/console.bicep"
HOST_STORAGE, APP = "infra/modules/host-storage.bicep", "infra/modules/function-app.bicep"
NETWORK = "infra/modules/network.bicep"
MAIN = "infra/main.bicep"
OF_APP, OF_PEOPLE = "infra/modules/roles-of-app.bicep", "infra/modules/roles-of-people.bicep"
POLICY = """
resource aged 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = {
  parent: account
  name: 'default'
  properties: { policy: { rules: [] } }
}
"""
SEEDS = {
    "entities": {
        "a queue in the topology only": (topology_with(queues="orders"), "queue orders of shared/topology.py"),
        "a table in the topology only": (topology_with(tables="orders"), "table orders of shared/topology.py"),
        "a container in the topology only": (
            topology_with(containers="orders"),
            "container orders of shared/topology.py",
        ),
        "a property of the bus that Azure does not know": (
            in_json(
                "infra/entities.json", lambda file: file["bus"]["queues"][0]["properties"].update(lockDurations="PT5S")
            ),
            "bus queue results is",
        ),
        "a number for a text": (
            in_json("infra/entities.json", lambda file: file["bus"]["queues"][0]["properties"].update(lockDuration=5)),
            "bus queue results is {'lockDuration': 5",
        ),
        "a bus queue in the topology only": (bus_queue_in_the_code, "bus queue orders of shared/topology.py"),
        "a queue in Bicep's list only": (
            in_json("infra/entities.json", lambda file: file["storage"]["queues"].append("orders")),
            "queue orders is deployed",
        ),
        "poison queues left out": (
            replacing(APP_STORAGE, "take(entities.workPoisonQueues, workQueues)", "[]"),
            "queue work-00-poison of shared/topology.py is not deployed",
        ),
        "work queues that do not follow the parameter": (
            replacing(APP_STORAGE, "take(entities.workQueues, workQueues)", "take(entities.workQueues, 1)"),
            "queue work-02 of shared/topology.py is not deployed",
        ),
        "a room without its queue": (
            replacing(APP_STORAGE, "workQueueNames, roomQueueNames,", "workQueueNames,"),
            "queue submissions-team-a of shared/topology.py is not deployed",
        ),
        "a room without its container": (
            replacing(APP_STORAGE, "entities.containers, roomContainerNames,", "entities.containers,"),
            "container payloads-b of shared/topology.py is not deployed",
        ),
        "a number of work queues that own/settings.json does not decide": (
            replacing("infra/main.bicep", "workQueues: int(decided.SLUICE_WORK_QUEUES)", "workQueues: workQueues"),
            "queue work-02 of shared/topology.py is not deployed",
        ),
        "a room that own/infra/parameters.json alone decides": (
            replacing("infra/main.bicep", "[] : decidedRooms", "[] : []"),
            "queue submissions-team-a of shared/topology.py is not deployed",
        ),
        "registration deployed unasked": (
            replacing(
                "infra/main.bicep", "param capabilities string = ''", "param capabilities string = 'registration'"
            ),
            "bus queue seat-commands-00 is deployed",
        ),
        "tables of registration deployed unasked": (
            replacing(
                "infra/main.bicep", "param capabilities string = ''", "param capabilities string = 'registration'"
            ),
            "table homes is deployed",
        ),
        "lanes of seats that do not follow the parameter": (
            replacing(
                "infra/main.bicep", "SLUICE_SEAT_LANES: int(decided.SLUICE_SEAT_LANES) }", "SLUICE_SEAT_LANES: 1 }"
            ),
            "bus queue seat-commands-01 of shared/topology.py is not deployed",
        ),
        "dead letters that stay where nobody reads them": (
            in_json(
                "infra/capabilities.json",
                lambda file: file["registration"]["bus"]["countedQueues"][0]["properties"].pop(
                    "forwardDeadLetteredMessagesTo"
                ),
            ),
            "bus queue seat-commands-00 is",
        ),
        "a reply that reaches no process": (
            in_json("infra/capabilities.json", lambda file: file["registration"]["bus"]["rules"].pop()),
            "rule seats-events/processes/rule-2 of shared/topology.py is not deployed",
        ),
        "a rule beside the one that passes everything": (
            in_json("infra/entities.json", lambda file: file["bus"]["rules"][0].update(name="rule-1")),
            "rule signals/release/$Default of shared/topology.py is not deployed",
        ),
        "a shorter lock": (
            in_json(
                "infra/entities.json", lambda file: file["bus"]["queues"][0]["properties"].update(lockDuration="PT5S")
            ),
            "bus queue results is",
        ),
        "duplicate detection where a replay must pass": (
            in_json(
                "infra/entities.json",
                lambda file: file["bus"]["queues"][0]["properties"].update(requiresDuplicateDetection=True),
            ),
            "bus queue results is",
        ),
    },
    "console": {
        "a login that is left to a default": (
            replacing(CONSOLE, "    platform: { enabled: true }\n", ""),
            "platform.enabled is None, expected True",
        ),
        "a login that stands before everything": (
            replacing(CONSOLE, "'AllowAnonymous'", "'RedirectToLoginPage'"),
            "unauthenticatedClientAction is 'RedirectToLoginPage'",
        ),
        "every tenant's people": (
            replacing(CONSOLE, "${tenant().tenantId}", "common"),
            "not this tenant's",
        ),
        "a login that nobody asked for": (
            replacing(
                "infra/main.bicep", "bicep' = if (!empty(consoleClientId))", "bicep' = if (empty(consoleClientId))"
            ),
            "Azure's login is there",
        ),
        "an app that does not know of it": (
            replacing("infra/main.bicep", "empty(consoleClientId) ? [] : ['console']", "[]"),
            "with a console True, ",
        ),
        "a role that no page knows": (
            replacing("infra/console-roles.json", '"value": "Reader"', '"value": "Viewer"'),
            "does not hold the roles Reader and Operator",
        ),
    },
    "compiled": {
        "a brace too few": (
            replacing(BUS, "{ name: 'Standard', tier: 'Standard' }", "{ name: 'Standard'"),
            "does not parse",
        ),
    },
    "shape": {
        "an alert whose query a new workspace does not know": (
            replacing("infra/modules/alerts.bicep", "      skipQueryValidation: true\n", ""),
            "properties.skipQueryValidation of sluice-",
        ),
        "a property that Flex Consumption refuses": (
            replacing(APP, "      http20Enabled: true\n", "      http20Enabled: true\n      ftpsState: 'Disabled'\n"),
            "properties.siteConfig.ftpsState of func-sluice",
        ),
        "a misspelt property": (
            replacing(APP, "maximumInstanceCount: maximumInstanceCount\n", "maxInstanceCount: maximumInstanceCount\n"),
            "maximumInstanceCount of func-sluice",
        ),
        "a text for a number": (
            replacing(APP, "perInstanceConcurrency: 16", "perInstanceConcurrency: '16'"),
            "is '16', expected 16",
        ),
        "a misspelt value": (
            replacing(HOST_STORAGE, "isPrivate ? 'Deny' : 'Allow'", "isPrivate ? 'Deny' : 'Alow'"),
            "is 'Alow', expected 'Allow'",
        ),
        "a required property left out": (replacing(HOST_STORAGE, "  kind: 'StorageV2'\n", ""), "is None, expected"),
        "a child of another version than its parent": (
            replacing(BUS, "namespaces/queues@2024-01-01", "namespaces/queues@2031-01-01"),
            "has version 2031-01-01, its parent 2024-01-01",
        ),
        "a resource that azd would not find": (
            replacing(BUS, "  tags: tags\n", ""),
            "has no tag azd-env-name",
        ),
        "a resource without a region": (replacing(BUS, "  location: location\n", ""), "has no location"),
        "another plan": (replacing(APP, "tier: 'FlexConsumption'", "tier: 'Dynamic'"), "sku.tier of plan-sluice"),
        "an app without its identity": (
            replacing(APP, "type: 'UserAssigned'", "type: 'SystemAssigned'"),
            "identity.type of func-sluice",
        ),
        "an app on nobody's plan": (replacing(APP, "    serverFarmId: plan.id\n", ""), "properties.serverFarmId of"),
        "a log that nobody writes": (replacing(BUS, "enabled: true }]", "enabled: false }]"), "logs nothing"),
        "a log of everything that nobody asked for": (
            replacing("infra/main.bicep", "param isStorageLogged bool = false", "param isStorageLogged bool = true"),
            "storage requests are logged although",
        ),
    },
    "security": {
        "a public container": (
            replacing(APP_STORAGE, "publicAccess: 'None'", "publicAccess: 'Blob'"),
            "publicAccess of",
        ),
        "blobs that may be public": (
            replacing(APP_STORAGE, "allowBlobPublicAccess: false", "allowBlobPublicAccess: true"),
            "allowBlobPublicAccess of",
        ),
        "a shared key": (
            replacing(HOST_STORAGE, "allowSharedKeyAccess: false", "allowSharedKeyAccess: true"),
            "allowSharedKeyAccess of",
        ),
        "a shared key left to the default": (
            replacing(HOST_STORAGE, "    allowSharedKeyAccess: false\n", ""),
            "allowSharedKeyAccess of",
        ),
        "old TLS": (replacing(BUS, "minimumTlsVersion: '1.2'", "minimumTlsVersion: '1.0'"), "minimumTlsVersion of"),
        "keys of the bus": (replacing(BUS, "disableLocalAuth: true", "disableLocalAuth: false"), "disableLocalAuth of"),
        "logs that anybody may write": (
            replacing("infra/modules/monitoring.bicep", "DisableLocalAuth: true", "DisableLocalAuth: false"),
            "DisableLocalAuth of",
        ),
        "a key that is read": (
            appending(HOST_STORAGE, "output key string = account.listKeys().keys[0].value"),
            "listKeys: use roles",
        ),
        "a secret among the outputs": (
            appending("infra/main.bicep", "output APP_PASSWORD string = 'x'"),
            "output APP_PASSWORD may be a secret",
        ),
        "data that is deleted by its age": (appending(APP_STORAGE, POLICY), "deletes by age"),
        "a name that Azure refuses": (
            replacing("infra/main.bicep", "'stapp${token}'", "'stapp-sluice-storage-${token}'"),
            "cannot be called",
        ),
    },
    "roles": {
        "an operator who is listed twice": (
            replacing(OF_PEOPLE, "[for id in union(ids, []): principals[indexOf(ids, id)]]", "principals"),
            "the-deployer is listed twice, and has the role Storage Queue Data Reader 2 times",
        ),
        "a publisher who is listed in other letters": (
            replacing(OF_PEOPLE, "toLower(one.id)", "one.id"),
            "the-deployer is listed twice",
        ),
        "a receiver's role on the topic": (
            sender_on_the_topic,
            "the app has not: Azure Service Bus Data Receiver on the namespace",
        ),
        "a publisher who reads every queue": (
            replacing(OF_PEOPLE, "scope: queues[one.at]", "scope: storage"),
            "a-publisher has not: Storage Queue Data Message Sender on the queue submissions",
        ),
        "a publisher of a room with a role in the common one": (
            replacing(MAIN, "name: '${inbound.container}-${room.name}'", "name: inbound.container"),
            "a-publisher-of-team-a has, and should not: Storage Blob Data Contributor on the container payloads",
        ),
        "a publisher of a room who writes into every queue": (
            replacing(OF_PEOPLE, "scope: queues[one.at]", "scope: storage"),
            "a-publisher-of-b has, and should not: Storage Queue Data Message Sender on the app's account",
        ),
        "a publisher with a third role": (
            replacing(
                MAIN,
                "-${room.name}', role: roles['Storage Queue Data Message Sender']",
                "-${room.name}', role: roles['Storage Queue Data Contributor']",
            ),
            "a-publisher-of-b has, and should not: Storage Queue Data Contributor on the queue submissions-b",
        ),
        "publishers of one room in another's": (
            replacing("infra/main.bicep", "principals: room.publishers", "principals: rooms[0].publishers"),
            "a-publisher-of-team-a has, and should not: Storage Queue Data Message Sender on the queue submissions-b",
        ),
        "common publishers in every room": (
            replacing("infra/main.bicep", "principals: room.publishers", "principals: publishers"),
            "a-publisher has, and should not: Storage Blob Data Contributor on the container payloads-b",
        ),
        "a room's roles given to somebody else": (
            replacing(OF_PEOPLE, "principalId: one.who.id", "principalId: 'somebody'"),
            "'somebody' has a role, and the table gives it none",
        ),
        "a publisher on what the app keeps": (
            in_json("infra/entities.json", lambda file: file["inbound"].update(container="plans")),
            "a-publisher has, and should not: Storage Blob Data Contributor on the container plans",
        ),
        "a customer who tells of payments": (
            replacing(
                "infra/main.bicep",
                "union(whoDeploys, given.paymentSenders)",
                "union(whoDeploys, given.paymentSenders, given.orderSenders)",
            ),
            "one-of-orderSenders has, and should not: Azure Service Bus Data Sender on the bus queue payments",
        ),
        "a bank that sends to all of the bus": (
            replacing(OF_PEOPLE, "scope: busQueues[one.at]", "scope: bus"),
            "one-of-paymentSenders has, and should not: Azure Service Bus Data Sender on the namespace",
        ),
        "a shop without its queue": (
            replacing("infra/main.bicep", "union(whoDeploys, given.conferenceSenders)", "whoDeploys"),
            "one-of-conferenceSenders has not: Azure Service Bus Data Sender on the bus queue conferences",
        ),
        "a shop on the queue of payments": (
            in_json(
                "infra/capabilities.json",
                lambda file: file["registration"]["senders"][2].update(queue="payments"),
            ),
            "one-of-conferenceSenders has, and should not: Azure Service Bus Data Sender on the bus queue payments",
        ),
        "a customer who reads every order": (
            replacing(
                MAIN,
                "right.queue, role: roles['Storage Queue Data Message Sender']",
                "right.queue, role: roles['Storage Queue Data Contributor']",
            ),
            "one-of-orderSenders has, and should not: Storage Queue Data Contributor on the queue orders",
        ),
        "a publisher who orders": (
            replacing("infra/main.bicep", "union(whoDeploys, given.orderSenders)", "union(whoDeploys, publishers)"),
            "a-publisher has, and should not: Storage Queue Data Message Sender on the queue orders",
        ),
        "a role too many": (
            replacing(
                OF_APP,
                "'Storage Table Data Contributor'",
                "'Storage Table Data Contributor'\n  'Storage Blob Data Owner'",
            ),
            "the app has, and should not: Storage Blob Data Owner on the app's account",
        ),
        "another role's id": (
            in_json(
                "infra/roles.json",
                lambda roles: roles.update({"Storage Queue Data Reader": roles["Storage Blob Data Owner"]}),
            ),
            "roles.json: does not hold the roles",
        ),
        "a trigger of the bus that nobody may count": (
            replacing("functions/release_gate.py", 'subscription_name="release"', 'subscription_name="waiters-00"'),
            "the app has not: Azure Service Bus Data Owner on the subscription signals/waiters-00",
        ),
        "a queue of the bus without its count": (
            in_json("infra/entities.json", lambda file: file["listened"]["queues"].clear()),
            "the app has not: Azure Service Bus Data Owner on the bus queue results",
        ),
        "a lane of registration without its count": (
            in_json("infra/capabilities.json", lambda file: file["registration"]["listened"]["countedQueues"].pop(0)),
            "with capability registration the app has not: Azure Service Bus Data Owner on the bus queue seat-commands-0",
        ),
        "counts that nobody may read by default": (
            replacing(
                "infra/main.bicep", "param scalerRights string = 'entities'", "param scalerRights string = 'none'"
            ),
            "the app has not: Azure Service Bus Data Owner on the bus queue permits",
        ),
        "the whole namespace for its counts": (
            replacing(OF_APP, "scope: queues[place]", "scope: bus"),
            "the app has, and should not: Azure Service Bus Data Owner on the namespace",
        ),
        "publishers with a role that is not the chosen one": (
            replacing(MAIN, "empty(publisherRole) ?", "!empty('a') ?"),
            "with publisherRole 11111111-2222-3333-4444-555555555555 a publisher has: Azure",
        ),
        "operators who may change the audit": (
            replacing(MAIN, "empty(auditRole) ? [{", "!empty('a') ? [{"),
            "an operator has: 11111111-2222-3333-4444-555555555555 on the table audit, Azure",
        ),
        "an audit that operators cannot read": (
            replacing(MAIN, "name != 'audit' ?", "name != 'audits' ?"),
            "with auditRole 11111111-2222-3333-4444-555555555555 an operator has: Azure",
        ),
        "a choice of the operator without effect": (
            replacing(OF_APP, "empty(scalerRole) ?", "!empty('a') ?"),
            "with scalerRights entities and scalerRole '11111111-2222-3333-4444-555555555555' the app has: Azure",
        ),
        "a right that cannot be given up": (
            replacing(OF_APP, "if (scalerRights == 'entities')", "if (true)"),
            "with scalerRights none and scalerRole '' the app has: Azure Service Bus Data Owner on the bus queue hints",
        ),
        "a right to change the app that was not asked for": (
            replacing("infra/main.bicep", "param hasWarming bool = false", "param hasWarming bool = true"),
            "although no parameter names it",
        ),
        "the right to change more than the app": (
            replacing("infra/modules/roles-of-warming.bicep", "  scope: site\n", ""),
            "with hasWarming the app's identity for instances has: Website Contributor on the resource group",
        ),
        "an identity for instances that the app does not have": (
            replacing(APP, "empty(warmIdentityId) ? {} : { '${warmIdentityId}': {} }", "{}"),
            "with hasWarming the app has the identities",
        ),
        "a principal without its kind": (
            replacing(OF_APP, "    principalType: 'ServicePrincipal'\n", ""),
            "without principalType",
        ),
    },
    "app settings": {
        "a setting in the code only, required": (
            setting_in_the_code(None),
            "setting SLUICE_NEW is not given to the app",
        ),
        "a connection missing in the sample": (
            in_json("local.settings.sample.json", lambda file: file["Values"].pop("SluiceBus")),
            "setting SluiceBus is missing",
        ),
        "a default in the sample, where it would hide one's own": (
            in_json("local.settings.sample.json", lambda file: file["Values"].update(SLUICE_CHUNK_ITEMS="auto")),
            "setting SLUICE_CHUNK_ITEMS has no place there",
        ),
        "as many permits at a time by trigger as submissions": (
            replacing(APP, "union(batch, settings,", "union(settings,"),
            "by trigger AzureFunctionsJobHost__extensions__queues__batchSize is None",
        ),
        "a default in Azure, where it would hide one's own": (
            replacing(
                APP, "union(batch, settings, own,", "union(batch, { SLUICE_RETENTION_DAYS: '30' }, settings, own,"
            ),
            "setting SLUICE_RETENTION_DAYS is given unasked",
        ),
        "fewer threads than messages": (
            replacing("host.json", '"batchSize": 16', '"batchSize": 17'),
            "PYTHON_THREADPOOL_THREAD_COUNT is 24, host.json lets in 25",
        ),
        "a setting missing in Bicep": (
            replacing(APP, "  SLUICE_TICK_SCHEDULE: tickSchedule\n", ""),
            "setting SLUICE_TICK_SCHEDULE is not given to the app",
        ),
        "rooms that the app does not know": (
            replacing(APP, "  SLUICE_ROOMS: join(rooms, ',')\n", ""),
            "what a parameter says does not reach the app",
        ),
        "rooms that the command does not know": (
            replacing("infra/main.bicep", "output SLUICE_ROOMS string = join(roomNames, ',')\n", ""),
            "the command does not know the rooms",
        ),
        "a setting that nothing reads": (
            replacing(
                APP,
                "  SLUICE_TICK_SCHEDULE: tickSchedule\n",
                "  SLUICE_TICK_SCHEDULE: tickSchedule\n  SLUICE_OLD: '1'\n",
            ),
            "setting SLUICE_OLD is given to the app, and nothing reads it",
        ),
        "a setting that the app refuses": (
            replacing(APP, "SLUICE_WORK_QUEUES: string(workQueues)", "SLUICE_WORK_QUEUES: 'many'"),
            "the app refuses its settings",
        ),
        "a workload that the app is not told of": (
            replacing(APP, "settings, own, lineSettings, code, polling", "settings, own, polling"),
            "the app has the workloads theirs:Theirs, expected own:Own",
        ),
        "a parameter that does not reach the app": (
            replacing(
                APP,
                "union(batch, settings, own, lineSettings, code, polling, warm, hosts, traces)",
                "union(batch, own, code, polling, warm, hosts, traces)",
            ),
            "what a parameter says does not reach the app",
        ),
        "outputs that the command cannot work with": (
            replacing("infra/main.bicep", "output SLUICE_TICK_SCHEDULE string = given.tickSchedule\n", ""),
            "with its outputs in the environment, the command is not content",
        ),
        "half an identity": (
            replacing(APP, "  SluiceBus__clientId: identityClientId\n", ""),
            "setting SluiceBus__clientId is not given to the app",
        ),
        "a connection string": (
            replacing(APP, "  SluiceBus__clientId", "  SluiceBus: 'Endpoint=sb://x'\n  SluiceBus__clientId"),
            "SluiceBus is a connection string",
        ),
        "the address of a service that the app has no role for": (
            replacing(
                APP,
                "  AzureWebJobsStorage__credential",
                "  AzureWebJobsStorage__queueServiceUri: hostStorage.properties.primaryEndpoints.queue\n"
                "  AzureWebJobsStorage__credential",
            ),
            "AzureWebJobsStorage__queueServiceUri is given to the app, which has no role for it",
        ),
        "a service of the app's account that its role was taken from": (
            replacing(OF_APP, "  'Storage Table Data Contributor'\n", ""),
            "SluiceStorage__tableServiceUri is given to the app, which has no role for it",
        ),
        "warmed instances without their capability": (
            replacing("infra/main.bicep", ", hasWarming ? ['warming'] : [])", ")"),
            "with hasWarming True, the app has SLUICE_CAPABILITIES ''",
        ),
        "warmed instances without their identity": (
            replacing(APP, "  SLUICE_WARM_IDENTITY: warmIdentityClientId\n", ""),
            "with hasWarming True, the app has SLUICE_WARM_IDENTITY None",
        ),
        "an app that does not know that registration is on": (
            replacing(APP, "own, lineSettings,", "own,"),
            "with capabilities 'registration', the app has {'SLUICE_CAPABILITIES': None, 'SLUICE_SEAT_LANES': None}",
        ),
        "a switch of before that is silent": (
            replacing("infra/main.bicep", "union(said, wrong ?", "union(said, !wrong && wrong ?"),
            "the deployment goes on without a word",
        ),
        "a command that does not know the lanes": (
            replacing("infra/main.bicep", "output SLUICE_SEAT_LANES string = decided.SLUICE_SEAT_LANES", ""),
            "the command has {'SLUICE_CAPABILITIES': 'registration', 'SLUICE_SEAT_LANES': None}",
        ),
        "warmed instances that nobody asked for": (
            replacing(APP, "var warm = empty(warmIdentityId) ? {} :", "var warm = empty('a') ? {} :"),
            "with hasWarming False, the app has SLUICE_WARM_SITE",
        ),
        "spans that nothing exports": (
            replacing(APP, "  PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY: 'true'\n", ""),
            "with hasTraces True, the app has {'PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY': None",
        ),
        "a setting that Flex Consumption refuses": (
            replacing(
                APP,
                "  SLUICE_TICK_SCHEDULE: tickSchedule\n",
                "  SLUICE_TICK_SCHEDULE: tickSchedule\n  FUNCTIONS_WORKER_RUNTIME: 'python'\n",
            ),
            "FUNCTIONS_WORKER_RUNTIME has no place on Flex",
        ),
    },
    "own": {
        "a misspelt setting": (
            in_json("own/settings.json", lambda file: file.update(SLUICE_WORKQUEUES="3")),
            "SLUICE_WORKQUEUES is no setting: did you mean SLUICE_WORK_QUEUES?",
        ),
        "a second engine": (appending("own/requirements.txt", "sluice==0.2.0"), "names sluice"),
        "a parameter that azd has a variable for": (
            in_json("own/infra/parameters.json", lambda file: file.update(alertEmail="a@b.example")),
            "alertEmail is no parameter for this file; possible are allowedAddresses, alwaysReady",
        ),
        "a parameter of another type": (
            in_json("own/infra/parameters.json", lambda file: file.update(rooms={"name": "a"})),
            "rooms is {'name': 'a'}, expected a value of the type array",
        ),
        "more rooms than there may be": (
            in_json(
                "own/infra/parameters.json", lambda file: file.update(rooms=[{"name": f"r{n}"} for n in range(201)])
            ),
            "rooms has 201 rooms, expected at most 200",
        ),
        "a parameter that has no place to be given": (
            replacing("infra/main.bicep", "  logRetentionDays: logRetentionDays\n", ""),
            "parameter logRetentionDays has no azd variable",
        ),
        "a setting that decides and is not taken from the file": (
            replacing("infra/main.bicep", "  SLUICE_DEQUEUE: dequeue\n", ""),
            "setting SLUICE_DEQUEUE decides over entities",
        ),
        "a setting that is frozen until the next provision": (
            replacing("infra/main.bicep", "  SLUICE_ROOMS: ''\n", "  SLUICE_ROOMS: ''\n  SLUICE_NOTIFY: ''\n"),
            "`decided` has SLUICE_NOTIFY",
        ),
    },
    "keeping": {
        "copies that the parameter does not choose": (
            replacing(APP_STORAGE, "{ name: redundancy }", "{ name: 'Standard_LRS' }"),
            "the sku is Standard_LRS, although storageRedundancy is Standard_ZRS",
        ),
        "copies without a price": (
            replacing("infra/main.bicep", "'Standard_RAGZRS']", "'Standard_RAGZRS', 'Standard_GRS']"),
            "redundancy Standard_GRS is chosen without a price",
        ),
        "blobs that cannot be restored": (
            replacing(APP_STORAGE, "{ enabled: true, days: blobSoftDeleteDays }", "{ enabled: false }"),
            "with blobSoftDeleteDays 9 deleteRetentionPolicy is {'enabled': False}",
        ),
        "soft delete that nobody wants": (
            replacing(
                APP_STORAGE,
                "containerSoftDeleteDays == 0 ? { enabled: false }",
                "containerSoftDeleteDays == 0 ? { enabled: true, days: 7 }",
            ),
            "with containerSoftDeleteDays 0 containerDeleteRetentionPolicy is {'enabled': True, 'days': 7}",
        ),
        "versions of blobs that are overwritten all the time": (
            replacing(APP_STORAGE, "isVersioningEnabled: false", "isVersioningEnabled: true"),
            "blobs have versions, which pile up",
        ),
        "a lock that nobody wants": (
            replacing(APP_STORAGE, "= if (isLocked) {", "= if (true) {"),
            "a lock is made although no parameter wants it",
        ),
        "a lock that refuses the next deployment": (
            replacing(APP_STORAGE, "'CanNotDelete'", "'ReadOnly'"),
            "expected CanNotDelete on",
        ),
    },
    "network": {
        "an account that stays open beside its private address": (
            replacing(APP_STORAGE, "isPrivate && empty(allowedAddresses) ? 'Disabled' : 'Enabled'", "'Enabled'"),
            "lets in ('Enabled', 'Deny', []), expected ('Disabled', 'Deny', [])",
        ),
        "an account that lets in every address beside the allowed ones": (
            replacing(HOST_STORAGE, "isPrivate ? 'Deny' : 'Allow'", "'Allow'"),
            "expected ('Enabled', 'Deny', [{'value': '203.0.113.7', 'action': 'Allow'}])",
        ),
        "a service that the app reaches without a private address": (
            replacing(NETWORK, "  { account: appStorage.id, name: appStorageName, service: 'table' }\n", ""),
            "the app reaches the table service of Microsoft.Storage/storageAccounts:stapp",
        ),
        "an address that is paid for nothing": (
            replacing(
                NETWORK, "var ends = [\n", "var ends = [\n  { account: hostStorage.id, name: 'x', service: 'queue' }\n"
            ),
            "the app does not reach it, and the endpoint costs",
        ),
        "an address that no name leads to": (
            replacing(NETWORK, "zones[indexOf(services, one.service)].id", "zones[0].id"),
            "has no name in a zone of its service",
        ),
        "a subnet for another plan": (
            replacing(NETWORK, "'Microsoft.App/environments'", "'Microsoft.Web/serverFarms'"),
            "the app's subnet is delegated to ['Microsoft.Web/serverFarms']",
        ),
        "an address in the subnet of the app": (
            replacing(
                NETWORK,
                "subnet: { id: '${network.id}/subnets/storage' }",
                "subnet: { id: '${network.id}/subnets/app' }",
            ),
            "is in no subnet of its own",
        ),
        "a network that nobody wants": (
            replacing("infra/main.bicep", "param isStoragePrivate bool = false", "param isStoragePrivate bool = true"),
            "is made although no parameter wants it",
        ),
    },
    "parameters": {
        "a parameter that nobody knows": (
            in_json(
                "infra/main.parameters.json", lambda file: file["parameters"].update(colour={"value": "${COLOUR}"})
            ),
            "main.bicep has no parameter colour",
        ),
        "a parameter that nobody gives": (
            in_json("infra/main.parameters.json", lambda file: file["parameters"].pop("location")),
            "parameter location has no default and is not given",
        ),
        "two defaults": (
            replacing("infra/main.parameters.json", "MAXIMUM_INSTANCE_COUNT=100", "MAXIMUM_INSTANCE_COUNT=400"),
            "the default of maximumInstanceCount is '400'",
        ),
        "a parameter without its description": (
            replacing("infra/main.bicep", "@description('Region of every resource.')\n", ""),
            "parameter location has no @description",
        ),
        "a number without bounds": (
            replacing("infra/main.bicep", "@maxValue(1000)\n", ""),
            "parameter maximumInstanceCount is a number without",
        ),
    },
    "modules": {
        "a module without its scope": (
            replacing("infra/main.bicep", "  name: 'identity'\n  scope: group\n", "  name: 'identity'\n"),
            "module identity has no scope",
        ),
        "a child without its parent": (replacing(BUS, "    parent: namespace\n", ""), "is its parent missing"),
        "a resource without a name": (replacing(BUS, "  name: name\n", ""), "namespace has no name"),
        "a module that nothing deploys": (
            appending("infra/modules/extra.bicep", "param name string = 'x'"),
            "extra.bicep: is a module that nothing deploys",
        ),
        "a parameter that nothing uses": (
            appending(BUS, "@description('Old.')\nparam old string = ''"),
            "old is declared and used by nothing",
        ),
        "a module's parameter misspelt": (
            replacing("infra/main.bicep", "    planName:", "    plan_name:"),
            "function-app.bicep has no parameter plan_name",
        ),
        "a module's output that is not there": (
            replacing("infra/main.bicep", "bus.outputs.name", "bus.outputs.id"),
            "there is no output id",
        ),
        "outputs of a module that may be absent": (
            replacing("infra/main.bicep", "warmIdentity!.outputs.id", "warmIdentity.outputs.id"),
            "warmIdentity may be absent: write warmIdentity!.outputs",
        ),
        "a name that nothing has": (
            replacing(APP, "serverFarmId: plan.id", "serverFarmId: plans.id"),
            "nothing is called plans",
        ),
        "a file that does not parse": (replacing(BUS, "param name string", "param name string ="), "does not parse"),
    },
    "scaling": {
        "a function that is ready and not there": (
            replacing(
                "infra/main.bicep", "{ release_gate: releaseGateAlwaysReady }", "{ release: releaseGateAlwaysReady }"
            ),
            "function:release is always ready, and functions/ has no such function",
        ),
        "updates that end what runs": (
            replacing(APP, "    }, strategy))", "    }, {}))"),
            "with hasRollingUpdates True the strategy of updates is None",
        ),
        "a misspelt part of the configuration": (
            replacing(APP, "      runtime: {", "      runtimes: {"),
            "functionAppConfig has deployment, runtimes, scaleAndConcurrency",
        ),
        "a name without its kind": (replacing(APP, "'function:${one.key}'", "one.key"), "always ready is"),
        "instances that nobody asked for": (
            replacing(
                "infra/main.bicep", "param releaseGateAlwaysReady int = 0", "param releaseGateAlwaysReady int = 1"
            ),
            "although no parameter wants any",
        ),
    },
    "alerts": {
        "rules of registration that cost although it is off": (
            replacing(
                "infra/modules/alerts.bicep",
                "flatten(partAlerts)",
                "loadJsonContent('../capabilities.json').registration.alerts",
            ),
            "a rule listens to sluice.codes.tried, which no event of this installation is called",
        ),
        "an event in the catalogue only": (
            event_in_the_catalogue(Alert(severity=Severity.ERROR)),
            "no rule listens to sluice.new.event",
        ),
        "an alert on a field that the line does not have": (
            in_json(
                "infra/alerts.json", lambda file: file["alerts"][0].update(query="AppTraces | where fields.age > 1")
            ),
            "filters by age, which its line does not have",
        ),
        "an alert on an event that nobody tells": (
            in_json("infra/alerts.json", lambda file: file["alerts"][0].update(event="sluice.old.event")),
            "a rule listens to sluice.old.event",
        ),
        "an alert without a remedy": (
            lambda project: dataclasses.replace(
                project, events=tuple(dataclasses.replace(event, remedy="") for event in EVENTS)
            ),
            "does not say what to do",
        ),
        "lines that an alert waits for, sampled": (
            replacing("host.json", "Request;Exception;Trace", "Request;Exception"),
            "the one that an alert waits for may be dropped",
        ),
        "a query that was changed in its file only": (
            appending("infra/queries/what-is-parked.kql", "| take 5"),
            "query what-is-parked is not saved as it stands",
        ),
        "a query that no file has": (
            in_json("infra/queries.json", lambda file: file["queries"].append({**file["queries"][0], "query": "Old"})),
            "is saved, and infra/queries does not have it",
        ),
        "a window that the service refuses": (
            replacing("infra/main.bicep", "@allowed([5, 15])", "@allowed([5, 10, 15])"),
            "with alertMinutes 10 windowSize is PT20M: the service takes PT1M, PT5M",
        ),
        "a frequency that the service refuses": (
            replacing(
                "infra/modules/alerts.bicep", "evaluationFrequency: 'PT${minutes}M'", "evaluationFrequency: 'PT7M'"
            ),
            "with alertMinutes 5 evaluationFrequency is PT7M",
        ),
        "a rule that is switched off": (
            replacing(
                "infra/modules/alerts.bicep", "      enabled: true\n      scopes", "      enabled: false\n      scopes"
            ),
            "expected enabled, of severity",
        ),
        "a rule that waits for more": (
            replacing("infra/modules/alerts.bicep", "threshold: alert.threshold", "threshold: 5"),
            "does not speak at the first line",
        ),
        "silence that nobody hears": (
            in_json("infra/alerts.json", lambda file: file["alerts"][-1].update(operator="GreaterThan")),
            "does not speak when there is nothing",
        ),
        "silence of a function that there is not": (
            in_json(
                "infra/alerts.json", lambda file: file["alerts"][-1].update(query='AppRequests | where Name == "tock"')
            ),
            "looks for a function that there is not",
        ),
        "mail to nobody": (
            replacing("infra/modules/alerts.bicep", "emailAddress: email", "emailAddress: 'nobody'"),
            "an alert is to reach [(['a@b.example'], [])], each address if it is given",
        ),
        "a webhook that is called although it is not given": (
            replacing("infra/modules/alerts.bicep", "empty(webhook) ? [] : [", "empty(email) ? [] : ["),
            "each address if it is given",
        ),
        "a webhook that no rule calls": (
            replacing("infra/modules/alerts.bicep", "empty(email) && empty(webhook)", "empty(email)"),
            "an alert is to reach [([], ['https://b.example'])]",
        ),
        "alerts that cannot be left out": (
            replacing("infra/main.bicep", "if (hasAlerts) ", ""),
            "rules are made although no alerts are wanted",
        ),
    },
    "workbook": {
        "a workbook that shows a metric no longer": (
            in_json("infra/workbook.json", lambda file: file["items"].pop()),
            "is not what the catalogue of metrics and infra/queries make",
        ),
        "a workbook that no parameter wants": (
            replacing("infra/modules/monitoring.bicep", "if (hasWorkbook) ", ""),
            "a workbook is made although no parameter wants it",
        ),
        "a workbook that is never made": (
            replacing("infra/main.bicep", "hasWorkbook: hasWorkbook", "hasWorkbook: hasTraces"),
            "with hasWorkbook 0 workbooks are made",
        ),
        "a workbook whose name Azure refuses": (
            replacing("infra/modules/monitoring.bicep", "guid(workspace.id, 'workbook')", "'sluice'"),
            "the workbook is called sluice, expected guid(...)",
        ),
        "a workbook of other logs": (
            replacing("infra/modules/monitoring.bicep", "sourceId: workspace.id", "sourceId: component.id"),
            "not one of the workspace that has the logs",
        ),
        "a workbook of another file": (
            replacing("infra/modules/monitoring.bicep", "'../workbook.json'", "'../queries.json'"),
            "the workbook is not infra/workbook.json",
        ),
    },
    "azd": {
        "a hook whose script is not there": (
            without("infra/after-azd.sh"),
            "hook postprovision: 'sh infra/after-azd.sh' runs no script that is there",
        ),
        "a hook that may stop the deployment": (
            replacing("azure.yaml", "continueOnError: true", "continueOnError: false"),
            "hooks.postprovision.posix.continueOnError: True was expected",
        ),
        "a hook without a command on Windows": (
            replacing("azure.yaml", "    windows:\n      shell: pwsh\n", "    posix:\n      shell: sh\n"),
            "'windows' is a required property",
        ),
        "a service that no resource is tagged with": (
            replacing(APP, "'azd-service-name': 'sluice'", "'azd-service-name': 'api'"),
            "are not those that Bicep tags",
        ),
        "a key that azd does not know": (
            replacing("azure.yaml", "remoteBuild: false", "remoteBuilding: false"),
            "'remoteBuilding' was unexpected",
        ),
        "a build by another Python": (
            replacing("azure.yaml", "remoteBuild: false", "remoteBuild: true"),
            "services.sluice.remoteBuild: False was expected",
        ),
        "an upload of the sources": (
            replacing("azure.yaml", "dist: .stack/upload", "dist: ."),
            "services.sluice.dist: '.stack/upload' was expected",
        ),
        "a package that nothing builds": (
            replacing("azure.yaml", "run: make deploy ARGS=--check", "run: make check"),
            "prepackage runs 'make check'",
        ),
    },
    "package": {
        "a package that lacks a module": (appending(".funcignore", "shared/usage/"), "the package lacks shared/usage/"),
        "a package that lacks its workload": (
            appending(".funcignore", "billing.py"),
            "the package lacks shared/workloads/billing.py",
        ),
        "a package that lacks a table": (
            appending(".funcignore", "prices.json"),
            "the package lacks shared/usage/prices.json",
        ),
        "a package with more than the app": (
            replacing(".funcignore", "infra/\n", ""),
            "infra/main.bicep would be uploaded",
        ),
        "a package with local secrets": (appending("local.secrets.json", "{}"), "local.secrets.json would be uploaded"),
        "a requirement that is missing": (
            replacing("requirements.txt", "msgspec==", "msgspec-other=="),
            "imports msgspec, which nothing there brings",
        ),
        "a host without its file": (without("host.json"), "the package lacks host.json"),
    },
    "automation": {
        "a workflow that runs something else": (
            replacing(".github/workflows/check.yml", "run: make check", "run: pytest"),
            "no workflow runs `make check`",
        ),
        "an action by its tag": (
            replacing(
                ".github/workflows/check.yml",
                "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8",
                "actions/checkout@v5",
            ),
            "actions/checkout@v5 is not pinned",
        ),
        "a deployment that nobody saw before": (
            replacing(".github/workflows/azure-dev.yml", "azd provision --preview", "azd provision"),
            "no workflow runs `azd provision --preview`",
        ),
        "a script that is not there": (
            replacing(".github/workflows/azure-proof.yml", "run: sh .ci/log-in", "run: sh .ci/log-out"),
            "`sh .ci/log-out` is no command",
        ),
        "a task that make does not know": (
            replacing(".vscode/tasks.json", '"make check"', '"make lint"'),
            "`make lint` is no command",
        ),
    },
}


def seeds():
    """Yield each mistake with the check that is meant to find it. The first of each check always runs."""
    rest = pytest.mark.ci("the first seeded mistake of each check of infra runs, and these are the others")
    for check, mistakes in SEEDS.items():
        for number, (name, (seed, said)) in enumerate(mistakes.items()):
            yield pytest.param(check, seed, said, id=name, marks=rest if number else ())


@pytest.mark.parametrize(("check", "seed", "said"), list(seeds()))
def test_a_seeded_mistake_is_found(check, seed, said, project):
    """The check that is meant to find it names it, in words that lead to it."""
    found = wrong(seed(project), [check])
    assert [finding for finding in found if said in finding], found


def test_rooms_are_written_where_no_variable_can_say_them(project):
    """As docs/deploy.md says; a text that is no variable is still a mistake."""
    rooms = [{"name": "team-a", "publishers": [{"id": "x", "type": "Group"}]}]
    given = in_json("infra/main.parameters.json", lambda file: file["parameters"].update(rooms={"value": rooms}))
    assert wrong(given(project), ["parameters"]) == []


def test_every_check_has_found_something():
    """A check without a seeded mistake could be one that never fails."""
    assert set(SEEDS) | {"policies"} == set(checks.CHECKS)


def test_every_fact_about_azure_has_a_mistake_that_turns_its_check_red():
    """The page names both, and the mistake is one of those that are seeded here."""
    assert [(one.check, one.mistake) for one in FACTS if one.mistake not in SEEDS.get(one.check, {})] == []
    assert [one.source for one in FACTS if not re.search(r"20\d\d", one.source)] == []


@pytest.mark.skipif(not checkov.is_installed(), reason="checkov is not installed: run `make check` once")
@pytest.mark.ci("Checkov takes five seconds of CPU")
def test_what_checkov_refuses_is_found_and_so_is_what_it_cannot_read(project):
    """Its findings count, and a file that it could not parse does not pass in silence."""
    replacing(HOST_STORAGE, "'TLS1_2'", "'TLS1_0'")(project)
    replacing(BUS, "{ name: 'Standard', tier: 'Standard' }", "{ ...{ name: 'Standard' } }")(project)
    found = list(policies.check(project))
    assert [finding for finding in found if "CKV_AZURE_44" in finding.problem], found
    assert [finding for finding in found if "cannot parse" in finding.problem and "service-bus" in finding.problem], (
        found
    )


def test_what_checkov_is_not_asked_has_a_reason(project):
    """A skip without one is a finding."""
    found = list(policies.unreasoned(replacing("infra/.checkov.yaml", " # HTTP logging", "")(project)))
    assert [finding.problem for finding in found] == ["CKV_AZURE_63 is skipped without a reason"]


def test_a_warning_of_the_compiler_is_found(project, monkeypatch, tmp_path):
    """Bicep only warns of an unknown property; the check fails by it. The program stands for the Azure CLI."""
    program = tmp_path / "az"
    program.write_text("#!/bin/sh\necho 'main.bicep(3,1) : Warning BCP037: not allowed' >&2\necho '{}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert [str(finding) for finding in compiled.check(project)] == [
        "az bicep build: main.bicep(3,1) : Warning BCP037: not allowed",
        "az bicep build: made a template without resources",
    ]


def test_make_check_runs_the_checks_and_fails_with_them(monkeypatch):
    """One of the commands of `make check` is this; the worst status of them is its own."""
    ran = []
    monkeypatch.setattr(commands.installation, "ensure", lambda: None)
    monkeypatch.setattr(commands, "_python", lambda *words: ran.append(words) or (words == ("-m", "tools.local.infra")))
    monkeypatch.setattr(commands, "_collect", lambda: ran.append("collected") or 0)
    assert commands._check(None, []) == 1
    assert {("-m", "tools.local.infra"), "collected"} <= {*ran}


def test_a_finding_fails_the_command_and_is_one_line(project, capsys, monkeypatch):
    """What is wrong is printed with where it is; nothing wrong is status 0."""
    monkeypatch.setitem(checks.CHECKS, "policies", lambda _: iter(()))
    assert infra(project) == 0
    replacing(HOST_STORAGE, "allowSharedKeyAccess: false", "allowSharedKeyAccess: true")(project)
    assert infra(project) == 1
    assert re.search(r"^host-storage\.bicep:\d+: allowSharedKeyAccess of ", capsys.readouterr().out, re.MULTILINE)


def test_a_duration_is_written_as_azure_reads_it():
    """Days, hours, minutes and seconds, and none of them."""
    from datetime import timedelta  # noqa: PLC0415 - only this test counts time

    spans = {
        "PT0S": timedelta(),
        "PT30S": timedelta(seconds=30),
        "PT1M30S": timedelta(seconds=90),
        "P1D": timedelta(days=1),
        "P7DT1H": timedelta(days=7, hours=1),
    }
    assert {entities.span(span): span for span in spans.values()} == spans
