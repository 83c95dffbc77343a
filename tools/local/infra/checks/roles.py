"""Permissions: exactly the role assignments of one table, each at its scope, none more."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from shared.capability import Chosen, builtin_names, find
from shared.topology import HINTS, payload_container, submission_queue
from tools.local.infra.capabilities import chosen
from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.listened import listened, of_capability
from tools.local.infra.project import DEPLOYER, OPERATOR, PUBLISHER, ROOMS, Project, both_ways, publisher_of, with_rooms
from tools.local.infra.resource import Resource

#: Azure's own ids; a role that is not here has not been thought about.
ROLES: Final[Mapping[str, str]] = {
    "Azure Service Bus Data Owner": "090c5cfd-751d-490a-894a-3ce6f1109419",
    "Azure Service Bus Data Receiver": "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0",
    "Azure Service Bus Data Sender": "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Storage Queue Data Message Sender": "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a",
    "Storage Queue Data Reader": "19e7f393-937e-4f77-808e-94535e297925",
    "Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
    "Website Contributor": "de139f84-1756-47ae-9be6-808fbbe84772",
}
APP: Final = "the app"
#: The table of acts. It takes a role with `entities/read` and `entities/add/action` alone.
AUDIT: Final = "audit"
#: It also deletes the container: its action Microsoft.Storage/storageAccounts/blobServices/containers/delete (built-in roles for
#: storage, learn.microsoft.com, read 2026-11-27). The parameter publisherRole names one without.
CONTAINER: Final = "Storage Blob Data Contributor"
#: The identity that changes the app's scale, where the operator wants it.
WARM: Final = "the app's identity for instances"
_HOST, _APP, _BUS, _LOGS, _SITE = "host's account", "app's account", "namespace", "component", "app"


def of_publishers(room: str = "") -> set[tuple[str, str]]:
    """Return the roles of a publisher: one at each of the two places of its room, one on the hints, nothing else."""
    return {
        ("Azure Service Bus Data Sender", f"bus queue {HINTS}"),
        ("Storage Queue Data Message Sender", f"queue {submission_queue(room)}"),
        (CONTAINER, f"container {payload_container(room)}"),
    }


def of_publishers_by(role: str) -> set[tuple[str, str]]:
    """Return the roles of a publisher where the operator has a role of their own for the container."""
    return {(role if name == CONTAINER else name, scope) for name, scope in of_publishers()}


def of_app(root: Path) -> set[tuple[str, str]]:
    """Return the roles of the app: those of its code and host, and one for the counts that Azure scales it by."""
    return OF_APP | {(COUNTS, str(one)) for one in listened(root)}


def of_capability_of_app(one: Chosen) -> set[tuple[str, str]]:
    """Return the further roles of the app where a capability is on."""
    return {(COUNTS, str(entity)) for entity in of_capability(one)}


def of_senders(one: Chosen) -> dict[str, tuple[str, str]]:
    """Return the one role of each kind of sender of a capability, by the parameter that names them."""
    return {
        right.parameter: ("Storage Queue Data Message Sender", f"queue {right.queue}")
        if right.service == "storage"
        else ("Azure Service Bus Data Sender", f"bus queue {right.queue}")
        for right in one.capability.senders
    }


#: Without it the scale controller peeks one message, in silence, and adds one instance at a time.
COUNTS: Final = "Azure Service Bus Data Owner"
OF_APP: Final = {
    ("Storage Blob Data Owner", _HOST),
    ("Storage Queue Data Contributor", _APP),
    ("Storage Blob Data Contributor", _APP),
    ("Storage Table Data Contributor", _APP),
    ("Azure Service Bus Data Receiver", _BUS),
    ("Azure Service Bus Data Sender", _BUS),
    ("Monitoring Metrics Publisher", _LOGS),
}
#: What operators have for tables on the account; with the parameter auditRole on each table instead, but on the audit.
TABLES: Final = ("Storage Table Data Contributor", _APP)
OF_WARM: Final = {("Website Contributor", _SITE)}
OF_OPERATORS: Final = {
    ("Storage Queue Data Reader", _APP),
    ("Storage Queue Data Message Sender", _APP),
    ("Storage Blob Data Contributor", _APP),
    TABLES,
    # On the namespace: on a topic alone the receiver's role does not reach its subscriptions.
    ("Azure Service Bus Data Receiver", _BUS),
    ("Azure Service Bus Data Sender", _BUS),
}
WANTED: Final[Mapping[str, set[tuple[str, str]]]] = {
    PUBLISHER: of_publishers(),
    **{publisher_of(room): of_publishers(room) for room in ROOMS},
    OPERATOR: OF_OPERATORS,
    DEPLOYER: of_publishers() | OF_OPERATORS,
}
_OF_BUS: Final[Mapping[str, str]] = {
    "Microsoft.ServiceBus/namespaces/queues": "bus queue",
    "Microsoft.ServiceBus/namespaces/topics": "topic",
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": "subscription",
}
_SCOPES: Final[Mapping[str, str]] = {
    "Microsoft.Storage/storageAccounts:sthost": _HOST,
    "Microsoft.Storage/storageAccounts:stapp": _APP,
    "Microsoft.ServiceBus/namespaces:": _BUS,
    "Microsoft.Insights/components:": _LOGS,
    "Microsoft.Web/sites:": _SITE,
}


_WARM_NAME: Final = "id-warm"
_ASSIGNMENTS: Final = "Microsoft.Authorization/roleAssignments"


def check(project: Project) -> Iterator[Finding]:
    """Yield roles that are missing, too many, or at another scope."""
    if project.json("infra", "roles.json") != ROLES:
        yield Finding("infra/roles.json", "does not hold the roles that the checks know, with Azure's ids of them")
    assignments = project.deployed(rooms=with_rooms()).of_type(_ASSIGNMENTS)
    for one in assignments:
        if one.properties.get("principalType") not in ("User", "Group", "ServicePrincipal"):
            yield Finding(one.where, "a role assignment without principalType fails while a new identity is replicated")
    yield from _compare(assignments, {APP: of_app(project.root), **WANTED})
    yield from _capabilities(project)
    yield from _choices(project)
    yield from _warming(project)
    yield from _twice(project)
    yield from _nobody(project.deployed(principalId="", publishers=[], operators=[]))


def may_reach(service: str, account: str, deployment: Deployment) -> bool:
    """Return true if the app has a role for a service (`blob`, `queue` or `table`) of a storage account."""
    scope, start = f"Microsoft.Storage/storageAccounts:{account}", f"Storage {service.title()} "
    mine = (one for one in deployment.of_type(_ASSIGNMENTS) if _who(one) == APP and one.scope == scope)
    return any(_role(one).startswith(start) for one in mine)


def _compare(assignments: list[Resource], wanted_by: Mapping[str, set[tuple[str, str]]]) -> Iterator[Finding]:
    for one in assignments:
        if _who(one) not in wanted_by:
            yield Finding(one.where, f"{_who(one)!r} has a role, and the table gives it none")
    for who, wanted in wanted_by.items():
        found = {(_role(one), scope_of(one)) for one in assignments if _who(one) == who}
        missing, extra = both_ways(map(_words, wanted), map(_words, found))
        for words in missing:
            yield Finding("infra", f"{who} has not: {words}")
        for words in extra:
            yield Finding("infra", f"{who} has, and should not: {words}")


def _choices(project: Project) -> Iterator[Finding]:
    """Yield choices of the operator that do not give what they say."""
    own = "11111111-2222-3333-4444-555555555555"
    given_roles = project.deployed(publisherRole=own, rooms=with_rooms()).of_type(_ASSIGNMENTS)
    pairs = {(_role(one), scope_of(one)) for one in given_roles if _who(one) == PUBLISHER}
    if pairs != of_publishers_by(own):
        yield Finding("infra", f"with publisherRole {own} a publisher has: {', '.join(sorted(map(_words, pairs)))}")
    yield from _audited(project, own)
    entities = {str(one) for one in listened(project.root)}
    for rights, scopes in (("entities", entities), ("namespace", {_BUS}), ("none", set[str]())):
        for given, role in (("", COUNTS), (own, own)):
            deployment = project.deployed(scalerRights=rights, scalerRole=given)
            pairs = {(_role(one), scope_of(one)) for one in deployment.of_type(_ASSIGNMENTS) if _who(one) == APP}
            if pairs - OF_APP != {(role, scope) for scope in scopes}:
                found = ", ".join(sorted(map(_words, pairs - OF_APP))) or "nothing"
                yield Finding("infra", f"with scalerRights {rights} and scalerRole {given!r} the app has: {found}")


def _audited(project: Project, own: str) -> Iterator[Finding]:
    """Yield what an operator may do with tables where the audit has a role of its own."""
    deployment = project.deployed(auditRole=own, capabilities=",".join(builtin_names()))
    names = {one.last_name for one in deployment.of_type("Microsoft.Storage/storageAccounts/tableServices/tables")}
    changed = {(TABLES[0], f"table {name}") for name in names - {AUDIT}}
    pairs = {(_role(one), scope_of(one)) for one in deployment.of_type(_ASSIGNMENTS) if _who(one) == OPERATOR}
    if pairs != (OF_OPERATORS - {TABLES}) | changed | {(own, f"table {AUDIT}")}:
        yield Finding("infra", f"with auditRole {own} an operator has: {', '.join(sorted(map(_words, pairs)))}")


def _capabilities(project: Project) -> Iterator[Finding]:
    """Yield roles of a capability that are missing, too many, or of another kind of sender."""
    for said in builtin_names():
        one = chosen(said)
        rights = of_senders(one)
        named = {parameter: [{"id": f"one-of-{parameter}", "type": "Group"}] for parameter in rights}
        deployment = project.deployed(capabilities=said, **named)
        of_one = {f"one-of-{parameter}": {pair} for parameter, pair in rights.items()}
        of_all = {
            APP: of_app(project.root) | of_capability_of_app(one),
            PUBLISHER: of_publishers(),
            OPERATOR: OF_OPERATORS,
            DEPLOYER: of_publishers() | OF_OPERATORS | set(rights.values()),
        }
        for finding in _compare(deployment.of_type(_ASSIGNMENTS), {**of_all, **of_one}):
            yield Finding(finding.where, f"with capability {said} {finding.problem}")


def _warming(project: Project) -> Iterator[Finding]:
    """Yield rights to change the app that are missing where they are wanted, or too wide."""
    deployment = project.deployed(hasWarming=True)
    pairs = {(_role(one), scope_of(one)) for one in deployment.of_type(_ASSIGNMENTS) if _who(one) == WARM}
    if pairs != OF_WARM:
        found = ", ".join(sorted(map(_words, pairs))) or "nothing"
        yield Finding("infra", f"with hasWarming {WARM} has: {found}")
    (site,) = deployment.of_type("Microsoft.Web/sites")
    attached = " ".join(site.body["identity"]["userAssignedIdentities"])
    if _WARM_NAME not in attached or attached.count("userAssignedIdentities") != len((APP, WARM)):
        yield Finding(site.where, f"with hasWarming the app has the identities {attached}, expected its own and {WARM}")


def _twice(project: Project) -> Iterator[Finding]:
    """Yield roles that a person would be given twice who is listed twice. Azure refuses the second, and the deployment."""
    spelled = [{"id": DEPLOYER.upper(), "type": "Group"}, {"id": OPERATOR, "type": "Group"}]
    senders = [right.parameter for name in builtin_names() for right in find(name).capability.senders]
    lists = ("publishers", "operators", *senders)
    named = {parameter: [*spelled, {"id": OPERATOR, "type": "User"}] for parameter in lists}
    assignments = project.deployed(capabilities=",".join(builtin_names()), **named).of_type(_ASSIGNMENTS)
    count = Counter((_who(one).lower(), _role(one), one.scope, one.where) for one in assignments)
    for (who, role, _, where), number in count.items():
        if number > 1:
            yield Finding(where, f"{who} is listed twice, and has the role {role} {number} times: Azure refuses it")


def _nobody(deployment: Deployment) -> Iterator[Finding]:
    for one in deployment.of_type(_ASSIGNMENTS):
        if _who(one) != APP:
            yield Finding(one.where, f"{_who(one)!r} has a role although no parameter names it")


def _words(pair: tuple[str, str]) -> str:
    return f"{pair[0]} on the {pair[1]}"


def _who(one: Resource) -> str:
    principal = str(one.properties.get("principalId"))
    if _WARM_NAME in principal:
        return WARM
    return APP if "userAssignedIdentities" in principal else principal


def _role(one: Resource) -> str:
    guid = str(one.properties["roleDefinitionId"]).rsplit("/", 1)[-1]
    return next((name for name, known in ROLES.items() if known == guid), guid)


def scope_of(one: Resource) -> str:
    """Return the scope of a role assignment in the words of a table."""
    kind, _, name = one.scope.partition(":")
    if kind.endswith("/queueServices/queues"):
        return f"queue {name.rsplit('/', 1)[-1]}"
    if kind.endswith("/tables"):
        return f"table {name.rsplit('/', 1)[-1]}"
    if kind.endswith("/containers"):
        return f"container {name.rsplit('/', 1)[-1]}"
    if kind in _OF_BUS:
        _, *names = name.split("/")
        return f"{_OF_BUS[kind]} {'/'.join(names)}"
    return next((said for start, said in _SCOPES.items() if one.scope.startswith(start)), one.scope or "resource group")
