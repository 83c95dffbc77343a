"""The resources of a deployment and their costs, idle and for work. Made of parameters, prices and arithmetic."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from shared.capability import Chosen
from shared.pipeline import choose
from shared.usage import (
    MILLION,
    MONTH,
    Installation,
    Prices,
    Who,
    idle_day,
    load,
    polling_seconds,
    price,
    price_idle_month,
    requests_of_chunks,
)
from tools.local.infra.deployment import Deployment
from tools.local.infra.project import Project
from tools.local.infra.resource import Resource
from tools.planning.most import Most

#: What a tick's instance is billed for at the least, and for each chunk at the most that is likely.
LEAST_SECONDS: Final = 1
#: Lines that one run of a function leaves in the log, and bytes of each; an assumption.
LINES_OF_A_RUN, BYTES_OF_A_LINE = 3, 1_000
#: Of a chunk on the bus: its result is sent, received and settled.
BUS_OPERATIONS_OF_A_CHUNK: Final = 3
TICKS: Final = MONTH // timedelta(minutes=1)
#: What each module is for, in the order of main.bicep.
PURPOSES: Final = {
    "main.bicep": "the resource group",
    "identity.bicep": "who the app is",
    "monitoring.bicep": "logs and metrics",
    "host-storage.bicep": "the host's own account, and the app's package",
    "app-storage.bicep": "queues, payloads, results, tables",
    "network.bicep": "private addresses of both accounts",
    "service-bus.bicep": "results and signals",
    "roles-of-app.bicep": "what the app may do",
    "roles-of-people.bicep": "what publishers, operators and senders may do",
    "function-app.bicep": "the app and its plan",
    "roles-of-warming.bicep": "what may change the app's instances",
    "console.bicep": "Azure's login before the console's pages",
    "alerts.bicep": "a rule for each event that calls an operator",
}


class Cost(NamedTuple):
    """One line: the service, its amount, and its price. It is assumed where no measurement of ours can show it."""

    what: str
    how_much: str
    amount: Decimal
    is_assumed: bool = False
    #: The file that creates what is paid.
    part: str = ""


class Part(NamedTuple):
    """One file of infra/: what it is for, what it creates, what that costs in a month without work."""

    file: str
    purpose: str
    contents: str
    amount: Decimal


def created(project: Project) -> list[Part]:
    """Return each part of a deployment that only its deployer may use. A part that is an option creates nothing there."""
    found, costs = project.deployed(principalId="you", publishers=[], operators=[]), idle(project)
    return [
        Part(file, purpose, contents, sum((one.amount for one in costs if one.part == file), Decimal()))
        for file, purpose in PURPOSES.items()
        if (contents := _contents(found, file))
    ]


def _contents(found: Deployment, file: str) -> str:
    kinds = Counter(one.type.rsplit("/", 1)[1] for one in found.resources if one.where.split(":")[0] == file)
    # A service is there with its account, and holds no more than its children.
    return ", ".join(_words(kind, count) for kind, count in kinds.items() if not kind.endswith("Services"))


def _words(kind: str, count: int) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
    return f"{count} {words}" if count > 1 else re.sub("s$", "", re.sub("ies$", "y", words))


def idle(project: Project, prices: Prices | None = None, **parameters: Any) -> list[Cost]:
    """Return the costs of a month without work: scaled to zero, a tick per minute. No parameter means the defaults."""
    table = prices or load()
    deployment = project.deployed(**parameters)
    rules = deployment.of_type("Microsoft.Insights/scheduledQueryRules")
    minutes = int(str(rules[0].properties["evaluationFrequency"]).strip("PTM")) if rules else 15
    return [
        Cost(
            "Service Bus Standard, with 13 million operations", "1 namespace", table.bus.month, part="service-bus.bicep"
        ),
        Cost(
            f"alert rules, evaluated every {minutes} minutes",
            str(len(rules)),
            len(rules) * table.logs.alert_rule[minutes],
            part="alerts.bicep",
        ),
        *_tick(deployment, table),
        *_requests(deployment, table),
        *_network(deployment, table),
    ]


def _tick(deployment: Deployment, prices: Prices) -> Iterator[Cost]:
    (site,) = deployment.of_type("Microsoft.Web/sites")
    memory = Decimal(site.properties["functionAppConfig"]["scaleAndConcurrency"]["instanceMemoryMB"]) / 1024
    seconds = TICKS * LEAST_SECONDS * memory
    paid = max(Decimal(), seconds - prices.functions.free_gb_seconds) * prices.functions.gb_second
    free = f"{seconds:,.0f} GB-seconds, {TICKS:,} runs; {prices.functions.free_gb_seconds:,} a month are free"
    yield Cost("the tick's executions", free, paid, part="function-app.bicep")
    gigabytes = Decimal(TICKS * LINES_OF_A_RUN * BYTES_OF_A_LINE) / 10**9
    over = max(Decimal(), gigabytes - prices.logs.free_gb) * prices.logs.gb
    yield Cost(
        "its logs",
        f"{gigabytes:.2f} GB; {prices.logs.free_gb} a month are free",
        over,
        is_assumed=True,
        part="monitoring.bicep",
    )


def _requests(deployment: Deployment, prices: Prices) -> Iterator[Cost]:
    askers = idle_day(deployed(instances=0))
    times = prices.redundancy[app_account(deployment).body["sku"]["name"]].requests
    prices = msgspec.structs.replace(prices, requests={meter: each * times for meter, each in prices.requests.items()})
    for who, said in ((Who.APP, "our own requests"), (Who.PLATFORM, "the platform's polling")):
        mine = [one for one in askers if one.who is who]
        number = sum(one.a_day for one in mine) * MONTH.days
        amount = sum((price_idle_month(one, prices) for one in mine), Decimal())
        yield Cost(said, f"{number:,} requests", amount, is_assumed=who is Who.PLATFORM, part="app-storage.bicep")


def _network(deployment: Deployment, prices: Prices) -> Iterator[Cost]:
    endpoints = len(deployment.of_type("Microsoft.Network/privateEndpoints"))
    zones = len(deployment.of_type("Microsoft.Network/privateDnsZones"))
    if endpoints:
        hours = MONTH // timedelta(hours=1)
        amount = endpoints * hours * prices.network["endpoint_hour"] + zones * prices.network["zone"]
        yield Cost("private addresses", f"{endpoints} endpoints, {zones} DNS zones", amount, part="network.bicep")


def app_account(deployment: Deployment) -> Resource:
    """Return the app's own account, which holds everything that is a job's."""
    accounts = deployment.of_type("Microsoft.Storage/storageAccounts")
    return next(one for one in accounts if one.where.startswith("app-storage.bicep:"))


def deployed(*, instances: int = 1, rooms: int = 0, capabilities: tuple[Chosen, ...] = ()) -> Installation:
    """Return an installation whose host polls as host.json says."""
    seconds = polling_seconds(Project().json("host.json"), {})
    return Installation(polling_seconds=seconds, instances=instances, rooms=rooms, capabilities=capabilities)


def most(capabilities: tuple[Chosen, ...]) -> Most:
    """Return the most instances of a deployment whose parameters were left alone."""
    (site,) = Project().deployed().of_type("Microsoft.Web/sites")
    scale = site.properties["functionAppConfig"]["scaleAndConcurrency"]
    return Most(
        groups=deployed(capabilities=capabilities).function_groups,
        maximum=scale["maximumInstanceCount"],
        gigabytes=Decimal(scale["instanceMemoryMB"]) / 1024,
    )


def work(prices: Prices | None = None) -> list[Cost]:
    """Return the costs of a million transactions in one job, by claim check."""
    table = prices or load()
    chunks = MILLION // choose(MILLION, None, is_waiting=False)
    usage = requests_of_chunks(chunks)
    taking = 2 * chunks * table.requests["queue"] / 10_000
    seconds, operations = Decimal(chunks * LEAST_SECONDS * 2), chunks * BUS_OPERATIONS_OF_A_CHUNK
    gigabytes = Decimal(chunks * LINES_OF_A_RUN * BYTES_OF_A_LINE) / 10**9
    return [
        Cost(
            "storage",
            f"{sum(usage.values()) + 2 * chunks:,} requests",
            price(usage, table).total + taking,
        ),
        Cost(
            "Service Bus, once those of the fixed charge are used up",
            f"{operations:,} operations",
            operations * table.bus.marginal() / MILLION,
        ),
        Cost(
            "executions, if each chunk keeps an instance of 2 GB busy for a second",
            f"{seconds:,.0f} GB-seconds",
            seconds * table.functions.gb_second + chunks * table.functions.executions / MILLION,
            is_assumed=True,
        ),
        Cost("logs, once the free ones are used up", f"{gigabytes} GB", gigabytes * table.logs.gb, is_assumed=True),
    ]
