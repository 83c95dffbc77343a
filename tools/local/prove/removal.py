"""Removes everything that a proof made. Each act is tried, also after a fault of the one before. Then it is checked."""

import shutil

from tools.local.prove.shell import ProblemError
from tools.local.prove.site import Site


def remove(site: Site) -> list[str]:
    """Remove everything, or raise ProblemError that names the rest and the command that removes it."""
    hindered = []
    for act in (_cancel_deployments, _unlock, _take_down, _delete_group):
        try:
            act(site)
        except (ProblemError, LookupError, TypeError) as error:
            # The check at the end finds the rest, and this is said beside it.
            hindered.append(f"({act.__name__.strip('_').replace('_', ' ')}: {error})")
    left = [*_group_left(site), *_environment_left(site)]
    if left:
        raise ProblemError("left: " + "; ".join([*left, *hindered]))
    return [f"{site.group} is gone, and azd's environment too"]


def _cancel_deployments(site: Site) -> None:
    """A deployment goes on in Azure when azd was ended, and would make the group anew behind the removal."""
    running = "[?properties.provisioningState=='Running' && starts_with(name, '" + site.name + "-')].name"
    for name in site.az("deployment", "sub", "list", "--query", running):
        site.shell.demand("az", "deployment", "sub", "cancel", "--name", name, minutes=5)


def _unlock(site: Site) -> None:
    if not site.az("group", "exists", "--name", site.group):
        return
    locks = [one["id"] for one in site.az("lock", "list", "--resource-group", site.group)]
    if locks:
        site.shell.demand("az", "lock", "delete", "--ids", *locks, minutes=5)


def _take_down(site: Site) -> None:
    """Let azd do it: it also purges what Azure would keep under its name for a while."""
    if site.az("group", "exists", "--name", site.group):
        site.azd("down", "--force", "--purge", minutes=30)


def _delete_group(site: Site) -> None:
    if site.az("group", "exists", "--name", site.group):
        site.shell.demand("az", "group", "delete", "--name", site.group, "--yes", minutes=30)


def _group_left(site: Site) -> list[str]:
    command = f"`az group delete --name {site.group} --yes`"
    try:
        is_there = site.az("group", "exists", "--name", site.group)
    except ProblemError as error:
        return [f"perhaps the resource group {site.group}, which nothing says ({error}): {command}"]
    return [f"the resource group {site.group}: {command}"] if is_there else []


def _environment_left(site: Site) -> list[str]:
    folder = site.kept / site.name
    try:
        if folder.exists():
            shutil.rmtree(folder)
        settings = site.kept / "config.json"
        if site.azd_settings is not None:
            settings.write_bytes(site.azd_settings)
        else:
            settings.unlink(missing_ok=True)
    except OSError as error:
        return [f"azd's environment in {folder} ({error.strerror}): `rm -r {folder}`"]
    return []
