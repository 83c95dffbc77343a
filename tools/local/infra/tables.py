"""The tables of docs/deploy.md and docs/appendix/azure.md, each as its header and rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from shared.capability import builtin_names
from shared.usage import load
from tools.local.infra import additions, choices, costs
from tools.local.infra.bicep import Parameter, Template, read
from tools.local.infra.capabilities import chosen
from tools.local.infra.checks import roles
from tools.local.infra.checks.parameters import default_of, environment_of
from tools.local.infra.facts import FACTS
from tools.local.infra.project import Project

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]


def parts() -> Table:
    """Return the created resources, by the file that does it."""
    rows = [(f"`{one.file}`", one.purpose, one.contents, f"{one.amount:.2f}") for one in costs.created(Project())]
    return ("file", "what it is for", "what it creates", f"a month without work, {load().currency}"), rows


def idle() -> Table:
    """Return the costs of a month without work."""
    found = costs.idle(Project())
    total = sum(cost.amount for cost in found)
    return _costs("a month without work", found, [("**in all**", "", f"**{total:.2f}**")])


def rooms() -> Table:
    """Return the additions of a room."""
    return ("what one room adds", "how much"), additions.rooms(Project())


def of_capability(said: str) -> Table:
    """Return the additions of a capability."""
    return (f"what {said} adds where it is on", "how much"), additions.of_capability(Project(), said)


def work() -> Table:
    """Return the costs of a million transactions in one job."""
    found = costs.work()
    total = sum(cost.amount for cost in found)
    return _costs("a million transactions in one job", found, [("**in all**", "", f"**{total:.4f}**")])


def at_most() -> Table:
    """Return the most instances and their price, without a capability and with each."""
    head = ("capabilities", "function groups", "instances of each", f"an hour if all work, {load().currency}")
    found = {"none": costs.most(()), **{f"`{said}`": costs.most((chosen(said),)) for said in builtin_names()}}
    return head, [
        (said, str(one.groups), str(one.maximum), f"{one.price_hour(load().functions):.2f}")
        for said, one in found.items()
    ]


def chosen_prices() -> Table:
    """Return the price of each choice of a deployer."""
    rows = [
        (f"`{one.parameter}`", f"`{json.dumps(one.value)}`", f"{one.more:.2f}", one.by_gb)
        for one in choices.choices(Project())
    ]
    return ("parameter", "value", f"a month without work, {load().currency} more", f"a GB, {load().currency}"), rows


def _costs(what: str, found: Sequence[costs.Cost], last: Sequence[Sequence[str]]) -> Table:
    rows = [(f"{one.what}{' (assumed)' if one.is_assumed else ''}", one.how_much, f"{one.amount:.4f}") for one in found]
    return (what, "how much", load().currency), [*rows, *last]


def parameters() -> Table:
    """Return the parameters."""
    project = Project()
    main, names = read(project.main), environment_of(project)
    rows = [
        (f"`{one.name}`", f"`{names[one.name]}`" if one.name in names else "", _default(main, one), _says(one))
        for one in main.parameters.values()
    ]
    return ("parameter", "environment variable", "default", "what it says"), rows


def _default(main: Template, one: Parameter) -> str:
    default = default_of(main, one)
    return "required" if default is None else f"`{default}`" if default else "empty"


def _says(one: Parameter) -> str:
    bounds = [one.decorators.get(name) for name in ("minValue", "maxValue")]
    within = f" {bounds[0]} to {bounds[1]}." if one.type == "int" and all(bounds) else ""
    return f"{one.decorators['description']}{within}"


def who_may() -> Table:
    """Return the roles of each kind of principal, with their scopes."""
    said = {
        roles.APP: roles.of_app(Project().root),
        **{
            f"{roles.APP}, with the capability {said} also": roles.of_capability_of_app(chosen(said))
            for said in builtin_names()
        },
        f"{roles.WARM}, with `hasWarming`": roles.OF_WARM,
        "a publisher": roles.of_publishers(),
        "a publisher of room `r`": roles.of_publishers("r"),
        **{
            f"who is in `{name}`": {pair}
            for said in builtin_names()
            for name, pair in roles.of_senders(chosen(said)).items()
        },
        "an operator": roles.OF_OPERATORS,
    }
    return ("who", "role", "on"), [(who, role, scope) for who, pairs in said.items() for role, scope in sorted(pairs)]


def facts() -> Table:
    """Return the facts about Azure, with source, check and mistake."""
    rows = [(one.says, one.source, f"`{one.check}`", one.mistake) for one in FACTS]
    return ("fact", "source", "check of `make check`", "mistake that turns it red"), rows


TABLES: Final[Mapping[str, Callable[[], Table]]] = {
    "deploy-parts": parts,
    "deploy-parameters": parameters,
    "deploy-idle": idle,
    "deploy-work": work,
    "deploy-most": at_most,
    "deploy-choices": chosen_prices,
    "rooms": rooms,
    **{said: partial(of_capability, said) for said in builtin_names()},
    "deploy-roles": who_may,
    "azure-facts": facts,
}
