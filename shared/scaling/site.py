"""An app in Azure as plain data: its scale, the body that changes counts and nothing else, and the operator's forms of it.

Makes no request.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.errors import ScalingRefusedError
from shared.scaling.instances import GIVEN_MAXIMUM, InstancePlan

# Azure does not distinguish the case of the fixed parts.
_PATH: Final = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.Web/sites/([^/]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Site:
    """The place of an app in Azure."""

    subscription: str
    group: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "Site":
        """Read the form of `path`, which is the app's resource id."""
        found = _PATH.fullmatch(path.strip())
        if found is None:
            raise ScalingRefusedError(
                f"{path!r} is not the resource id of an app: expected {cls('ID', 'GROUP', 'APP').path}, as "
                "`az functionapp show --query id` prints it"
            )
        return cls(*found.groups())

    @property
    def path(self) -> str:
        """The path of the app under Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/Microsoft.Web/sites/{self.name}"
        )


@dataclass(frozen=True, slots=True)
class WarmChoice:
    """The settings of an installation: which app is warmed, by which identity, and how far."""

    #: The resource id of the app. Empty: no app is warmed.
    site: str
    #: Client id. Empty: an operator carries the record out.
    identity: str
    #: Instances at most, for one opening.
    most: int
    #: Azure Resource Manager.
    endpoint: str

    def problems(self) -> list[str]:
        """Return the faults of these settings."""
        if not self.site:
            return []
        try:
            Site.parse(self.site)
        except ScalingRefusedError as error:
            return [f"SLUICE_WARM_SITE: {error}"]
        return []


def setting(function: str) -> str:
    """Name the scale group of a function. Each function without an HTTP trigger is a group of its own."""
    return f"function:{function}"


def az_commands(plan: InstancePlan, group: str, name: str) -> list[str]:
    """Return the commands that carry out the plan, and last the one that reverts it."""
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


def bicep_parameters(plan: InstancePlan) -> str:
    """Return the parameters of infra/main.bicep in the form of a .bicepparam file."""
    others = {function: count for function, count in plan.always_ready.items() if function != "release_gate"}
    counts = "".join(f"  {function}: {count}\n" for function, count in others.items())
    return (
        f"param maximumInstanceCount = {plan.maximum}\n"
        f"param releaseGateAlwaysReady = {plan.always_ready.get('release_gate', 0)}\n"
        f"param alwaysReady = {{\n{counts}}}\n"
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """The part of an app's configuration that decides about instances."""

    #: The always-ready instances by scale group.
    counts: Mapping[str, int]
    #: Instances of one function group, at most.
    maximum: int

    def fit(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Cut each count to the maximum, which is the operator's and stays."""
        return {name: min(count, self.maximum) for name, count in wanted.items()}


def scale_of(site: Mapping[str, Any]) -> Scale:
    """Read the scale of an app."""
    scale = _scale(site)
    return Scale(_counts(scale), scale.get("maximumInstanceCount") or GIVEN_MAXIMUM)


def make_site_body(site: Mapping[str, Any], plan: InstancePlan) -> dict[str, Any]:
    """Build the body that changes a site to the plan. All settings outside the plan stay as they were read."""
    planned = {setting(function): count for function, count in plan.always_ready.items()}
    # Never lower than before: a higher maximum was set for a reason that the plan does not know.
    maximum = max(plan.maximum, _scale(site).get("maximumInstanceCount") or 0)
    return _make_body(site, planned, {"maximumInstanceCount": maximum})


def make_counts_body(site: Mapping[str, Any], counts: Mapping[str, int | None]) -> dict[str, Any]:
    """Build the body that changes these counts alone. None: the group leaves the list."""
    return _make_body(site, counts, {})


def _make_body(
    site: Mapping[str, Any], counts: Mapping[str, int | None], others: Mapping[str, object]
) -> dict[str, Any]:
    """Build a body with the whole configuration, so that the result does not depend on how deep the service merges."""
    scale, listed = _scale(site), _scale(site).get("alwaysReady") or []
    known = {one["name"] for one in listed}
    ready = [{**one, "instanceCount": counts.get(one["name"], one["instanceCount"])} for one in listed]
    ready += [{"name": name, "instanceCount": count} for name, count in counts.items() if name not in known]
    kept = [one for one in ready if one["instanceCount"] is not None]
    configuration = site["properties"]["functionAppConfig"]
    changed = {**scale, "alwaysReady": kept, **others}
    return {"properties": {"functionAppConfig": {**configuration, "scaleAndConcurrency": changed}}}


def differences(site: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return the changes that a body makes, one line each."""
    before, after = (_flatten(_scale(one)) for one in (site, body))
    return [
        f"{name}: {before.get(name, 'not set')} -> {after.get(name, 'not set')}"
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]


def _scale(site: Mapping[str, Any]) -> Mapping[str, Any]:
    return site["properties"]["functionAppConfig"].get("scaleAndConcurrency") or {}


def _counts(scale: Mapping[str, Any]) -> dict[str, int]:
    # The service declares the count as a number, which JSON may carry as 2.0.
    return {one["name"]: int(one["instanceCount"]) for one in scale.get("alwaysReady") or []}


def _flatten(scale: Mapping[str, Any]) -> dict[str, int]:
    ready = {f"alwaysReady {name}": count for name, count in _counts(scale).items()}
    maximum = {"maximumInstanceCount": scale["maximumInstanceCount"]} if scale.get("maximumInstanceCount") else {}
    return {**ready, **maximum}
