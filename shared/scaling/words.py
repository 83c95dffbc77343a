"""A plan in the words of those who can carry it out: the Azure CLI, Bicep, and the body for Resource Manager; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.scaling.plan import Plan


@dataclass(frozen=True, slots=True)
class Site:
    """Where the app is."""

    subscription: str
    group: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "Site":
        """Return the site of a path that `path` made."""
        parts = path.split("/")
        return cls(parts[2], parts[4], parts[8])

    @property
    def path(self) -> str:
        """Its path under Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/Microsoft.Web/sites/{self.name}"
        )


def setting(function: str) -> str:
    """Return what a function without an HTTP trigger is called among the groups that scale by themselves."""
    return f"function:{function}"


def az_commands(plan: Plan, group: str, name: str) -> list[str]:
    """Return the commands that carry out the plan, and the one that takes it back."""
    where = f"--resource-group {group} --name {name}"
    counts = " ".join(f"{setting(function)}={count}" for function, count in plan.always_ready.items())
    names = " ".join(map(setting, plan.always_ready))
    commands = [f"az functionapp scale config set {where} --maximum-instance-count {plan.maximum}"]
    if plan.always_ready:
        commands += [
            f"az functionapp scale config always-ready set {where} --settings {counts}",
            f"az functionapp scale config always-ready delete {where} --setting-names {names}",
        ]
    return commands


def bicep_parameters(plan: Plan) -> str:
    """Return the parameters of infra/main.bicep, as a .bicepparam file has them."""
    rest = {function: count for function, count in plan.always_ready.items() if function != "release_gate"}
    counts = "".join(f"  {function}: {count}\n" for function, count in rest.items())
    return (
        f"param maximumInstanceCount = {plan.maximum}\n"
        f"param releaseGateAlwaysReady = {plan.always_ready.get('release_gate', 0)}\n"
        f"param alwaysReady = {{\n{counts}}}\n"
    )


def scaled(site: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the body that changes a site, as it was read, to the plan; everything that a plan knows nothing of stays.

    The whole configuration goes back, so that nothing depends on how deep the service merges.
    """
    configuration = site["properties"]["functionAppConfig"]
    scale = configuration.get("scaleAndConcurrency") or {}
    planned = {setting(function): count for function, count in plan.always_ready.items()}
    kept = [one for one in scale.get("alwaysReady") or [] if one["name"] not in planned]
    ready = [*kept, *({"name": name, "instanceCount": count} for name, count in planned.items())]
    others = sum(one["instanceCount"] for one in kept)
    # Never lower than it was: who set a higher one had a reason that a plan does not see.
    maximum = max(plan.maximum + others, scale.get("maximumInstanceCount") or 0)
    changed = {**scale, "alwaysReady": ready, "maximumInstanceCount": maximum}
    return {"properties": {"functionAppConfig": {**configuration, "scaleAndConcurrency": changed}}}


def differences(site: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return what a body changes, a line each."""
    before, after = (
        _flat(one["properties"]["functionAppConfig"].get("scaleAndConcurrency") or {}) for one in (site, body)
    )
    return [
        f"{name}: {before.get(name, 'not set')} -> {after[name]}"
        for name in sorted(after)
        if before.get(name) != after[name]
    ]


def _flat(scale: Mapping[str, Any]) -> dict[str, int]:
    ready = {f"alwaysReady {one['name']}": one["instanceCount"] for one in scale.get("alwaysReady") or []}
    known = {"maximumInstanceCount": scale["maximumInstanceCount"]} if scale.get("maximumInstanceCount") else {}
    return {**ready, **known}
