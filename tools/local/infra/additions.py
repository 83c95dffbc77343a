"""The additions of a capability to an installation: resources, and requests of a day without work."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from shared.usage import Asker, Installation, Prices, Who, idle_day, load, price_idle_month
from tools.local.infra.capabilities import chosen
from tools.local.infra.costs import deployed
from tools.local.infra.project import Project

#: Kinds of resources in the words of a table; any other kind is named at its end.
_KINDS: Final[Mapping[str, str]] = {
    "queues": "queues",
    "containers": "containers",
    "tables": "tables",
    "topics": "topics",
    "subscriptions": "subscriptions",
    "rules": "rules",
    "roleAssignments": "role assignments",
    "scheduledQueryRules": "alert rules",
}
Rows = list[tuple[str, str]]


def rooms(project: Project, prices: Prices | None = None) -> Rows:
    """Return the additions of one room, to a deployment and to a month without work."""
    given = [{"name": "r", "publishers": [{"id": "a-publisher", "type": "Group"}]}]
    kinds = {kind: _KINDS[kind] for kind in ("queues", "containers", "roleAssignments", "scheduledQueryRules")}
    kinds["roleAssignments"] = "role assignments for each of its publishers"
    before, after = (deployed(rooms=number) for number in (0, 1))
    polls = [sum(one.is_poll for one in idle_day(each)) for each in (before, after)]
    return [
        ("functions, each a scale group of its own", str(polls[1] - polls[0])),
        *_resources(project, {"rooms": given}, kinds),
        *_requests(before, after, prices or load()),
    ]


def of_capability(project: Project, said: str, prices: Prices | None = None) -> Rows:
    """Return the additions of a capability, to a deployment and to a month without work."""
    return [
        *_resources(project, {"capabilities": said}, _KINDS),
        *_requests(deployed(), deployed(capabilities=(chosen(said),)), prices or load()),
    ]


def _resources(project: Project, parameters: dict[str, Any], kinds: Mapping[str, str]) -> Rows:
    without, with_it = (
        Counter(one.type.rsplit("/", 1)[1] for one in project.deployed(publishers=[], **given).resources)
        for given in ({}, parameters)
    )
    added = with_it - without
    rows = [(words, str(added.pop(kind, 0))) for kind, words in kinds.items()]
    return [*rows, ("anything else", ", ".join(f"{count} {kind}" for kind, count in added.items()) or "nothing")]


def _requests(before: Installation, after: Installation, prices: Prices) -> Rows:
    rows = []
    for who, said in (
        (Who.APP, "our own requests a day"),
        (Who.HOST, "the host's requests a day, for each instance that is always there"),
        (Who.PLATFORM, "the platform's looks a day (assumed)"),
    ):
        a_day, a_month = (
            of(idle_day(after), who, prices) - of(idle_day(before), who, prices) for of in (_a_day, _a_month)
        )
        rows.append((said, f"{a_day:,.0f}, which is {a_month:.4f} {prices.currency} a month"))
    return rows


def _a_day(askers: list[Asker], who: Who, _prices: Prices) -> Decimal:
    return Decimal(sum(one.a_day for one in askers if one.who is who))


def _a_month(askers: list[Asker], who: Who, prices: Prices) -> Decimal:
    return sum((price_idle_month(one, prices) for one in askers if one.who is who), Decimal())
