"""Scale groups: what is always ready names functions that there are."""

from collections.abc import Iterator
from typing import Final

from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

_GROUP: Final = "function:"


def check(project: Project) -> Iterator[Finding]:
    """Yield always-ready groups that no function belongs to."""
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
