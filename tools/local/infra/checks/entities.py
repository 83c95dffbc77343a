"""Every queue, container, table, topic, subscription and rule: what Bicep deploys is what the topology says, no more."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.capability import CAPABILITIES, builtin_names, find
from shared.topology import Topology, rooms
from tools.local.infra import capabilities, entities
from tools.local.infra.checks.app_settings import parameter_of
from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import ROOMS, Project, both_ways, with_rooms
from tools.local.infra.resource import Resource

#: The names that the parameter workQueues decides over are looked at for one queue and for several.
WORK_QUEUES: Final = (1, 3)
_STORAGE, _BUS = "Microsoft.Storage/storageAccounts", "Microsoft.ServiceBus/namespaces"
_APP_ACCOUNT: Final = "stapp"


def check(project: Project) -> Iterator[Finding]:
    """Yield what the topology and Bicep do not agree about."""
    most = project.topology(entities.MOST_WORK_QUEUES)
    if entities.text(most) != project.text("infra", "entities.json"):
        yield Finding("infra/entities.json", "is not what the topology makes: run `make docs`")
    for count in WORK_QUEUES:
        yield from compare(project.topology(count), project.deployed(workQueues=count))
    yield from compare(project.topology(1, [rooms(ROOMS)]), project.deployed(rooms=with_rooms()))
    if capabilities.text() != project.text("infra", "capabilities.json"):
        yield Finding("infra/capabilities.json", "is not what the capabilities make: run `make docs`")
    for said in builtin_names():
        counted = find(said).capability.counted
        # The lowest and the highest count that Bicep takes.
        for settings in ({counted.setting: 1}, {counted.setting: counted.most}) if counted else ({},):
            on = project.deployed(capabilities=said, **{parameter_of(name): count for name, count in settings.items()})
            texts = {name: str(count) for name, count in settings.items()}
            yield from compare(project.topology(1, capabilities.chosen(said, texts).entities), on)
    yield from _own(project)


def _own(project: Project) -> Iterator[Finding]:
    """Yield what a person's own files do not decide. A room may stand in either of them."""
    known = [find(said).capability.counted for said in builtin_names()]
    counts = {one.setting: "2" for one in known if one}
    parts = [part for said in builtin_names() for part in capabilities.chosen(said, counts).entities]
    wanted = project.topology(3, [rooms(("b", "team-a")), *parts])
    settings = {
        "SLUICE_WORK_QUEUES": "3",
        "SLUICE_ROOMS": "team-a, b",
        CAPABILITIES: ",".join(builtin_names()),
        "SLUICE_DEQUEUE": "push",
    } | counts
    yield from compare(wanted, project.deployed_of(settings, {"rooms": with_rooms()[1:]}))


def compare(wanted: Topology, found: Deployment) -> Iterator[Finding]:
    """Yield each difference between a topology and what is deployed."""
    for kind, path, names in (
        ("queue", "queueServices/queues", wanted.queues),
        ("container", "blobServices/containers", wanted.containers),
        ("table", "tableServices/tables", wanted.tables),
    ):
        there = [one for one in found.of_type(f"{_STORAGE}/{path}") if one.name.startswith(_APP_ACCOUNT)]
        yield from _names(kind, names, [one.last_name for one in there])
    yield from _bus(wanted, found)


def _bus(wanted: Topology, found: Deployment) -> Iterator[Finding]:
    subscriptions = {f"{topic.name}/{one.name}": one for topic in wanted.bus.topics for one in topic.subscriptions}
    queues = {one.name: entities.queue_properties(one) for one in wanted.bus.queues}
    topics = {one.name: entities.topic_properties(one) for one in wanted.bus.topics}
    yield from _bodies("bus queue", queues, found.of_type(f"{_BUS}/queues"))
    yield from _bodies("topic", topics, found.of_type(f"{_BUS}/topics"))
    deliveries = {name: entities.delivery_properties(one.delivery) for name, one in subscriptions.items()}
    yield from _bodies("subscription", deliveries, found.of_type(f"{_BUS}/topics/subscriptions"))
    rules = {
        f"{name}/{rule}": body for name, one in subscriptions.items() for rule, body in entities.rules(one).items()
    }
    yield from _bodies("rule", rules, found.of_type(f"{_BUS}/topics/subscriptions/rules"))


def _names(kind: str, wanted: Iterator[str] | tuple[str, ...], found: list[str]) -> Iterator[Finding]:
    missing, extra = both_ways(wanted, found)
    for name in missing:
        yield Finding("infra", f"{kind} {name} of shared/topology.py is not deployed")
    for name in extra:
        yield Finding("infra", f"{kind} {name} is deployed, and shared/topology.py does not know it")


def _bodies(kind: str, wanted: Mapping[str, dict[str, Any]], found: list[Resource]) -> Iterator[Finding]:
    there = {one.name.partition("/")[2]: one for one in found}
    yield from _names(kind, tuple(wanted), list(there))
    for name in wanted.keys() & there.keys():
        if there[name].properties != wanted[name]:
            yield Finding(there[name].where, f"{kind} {name} is {there[name].properties}, expected {wanted[name]}")
