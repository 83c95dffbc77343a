"""Scale groups: what is always ready names functions that there are."""

from collections.abc import Iterator
from typing import Final

from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

_GROUP: Final = "function:"
#: Azure takes it from API version 2023-12-01 on, as a preview (learn.microsoft.com, flex-consumption-site-updates, of
#: 2025-12-04, read 2026-11-27). Without it each update ends what runs.
ROLLING: Final = {"type": "RollingUpdate"}
#: The parts of functionAppConfig, beside the strategy. They are joined with it, and the compiler checks none.
PARTS: Final = {"deployment", "scaleAndConcurrency", "runtime"}


def check(project: Project) -> Iterator[Finding]:
    """Yield always-ready groups that no function belongs to, and updates of another kind than was chosen."""
    wanted = {"drain_work": 2}
    deployment = project.deployed(releaseGateAlwaysReady=1, alwaysReady=wanted)
    (site,) = deployment.of_type("Microsoft.Web/sites")
    scaling = site.properties["functionAppConfig"]["scaleAndConcurrency"]
    counts = {one["name"]: one["instanceCount"] for one in scaling["alwaysReady"]}
    functions = {file.stem for file in (project.root / "functions").glob("*.py")}
    for name in counts:
        if name.removeprefix(_GROUP) not in functions:
            yield Finding(site.where, f"{name} is always ready, and functions/ has no such function")
    if counts != {f"{_GROUP}release_gate": 1, f"{_GROUP}drain_work": 2}:
        yield Finding(site.where, f"always ready is {counts}, which is not what the parameters say")
    (idle,) = project.deployed().of_type("Microsoft.Web/sites")
    if idle.properties["functionAppConfig"]["scaleAndConcurrency"]["alwaysReady"]:
        yield Finding(idle.where, "instances are always ready although no parameter wants any: they cost while idle")
    yield from _updated(project)


def _updated(project: Project) -> Iterator[Finding]:
    """Yield a strategy that is not the one of the parameter, and a part of the configuration that is lost beside it."""
    for is_rolling in (True, False):
        (site,) = project.deployed(hasRollingUpdates=is_rolling).of_type("Microsoft.Web/sites")
        found = dict(site.properties["functionAppConfig"])
        strategy = found.pop("siteUpdateStrategy", None)
        if strategy != (ROLLING if is_rolling else None):
            yield Finding(site.where, f"with hasRollingUpdates {is_rolling} the strategy of updates is {strategy}")
        if found.keys() != PARTS:
            yield Finding(
                site.where, f"functionAppConfig has {', '.join(sorted(found))}, expected {', '.join(sorted(PARTS))}"
            )
