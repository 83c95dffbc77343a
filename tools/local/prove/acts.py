"""The act of each step: it asks az, azd, the `sluice` command or pytest, and returns its findings."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared import __version__
from tools.cli.doctor import State
from tools.conformance import State as Kept
from tools.local.paths import ROOT
from tools.local.prove.questions import ask_all
from tools.local.prove.removal import remove
from tools.local.prove.shell import Done, ProblemError
from tools.local.prove.site import Site, parsed, strings

#: The roles that `sluice doctor --deep` needs beside those of the template, by where they are given.
ROLES: Final = (
    ("Microsoft.ServiceBus/namespaces", "", "Azure Service Bus Data Owner"),
    ("Microsoft.Storage/storageAccounts", "stapp", "Storage Queue Data Contributor"),
)
#: Looks for a role that is new: Azure says that it may need ten minutes.
ROLE_LOOKS: Final = 20
#: End-to-end tests that use the app as they find it. The others start one as they need it.
TESTS: Final = ("tests/e2e/test_app.py", "tests/e2e/test_pipeline.py")
#: Transactions of the job under which a process is killed: enough chunks that some are under way.
KILLED_ITEMS: Final = 40_000
API: Final = "https://management.azure.com"
API_VERSION: Final = "api-version=2024-04-01"

Act = Callable[[Site], list[str]]


def check_tools(site: Site) -> list[str]:
    """Find the programs, their versions, and whether they are logged in."""
    site.versions["Sluice"] = __version__
    site.versions["az"] = str(site.az("version")["azure-cli"])
    text = site.shell.demand("azd", "version", "--output", "json", minutes=1)
    site.versions["azd"] = str(parsed(text, "azd version")["azd"]["version"])
    account = site.az("account", "show")
    if account["state"] != "Enabled":
        raise ProblemError(f"the subscription {account['name']!r} is {account['state']}")
    site.values["AZURE_SUBSCRIPTION_ID"] = str(account["id"])
    if '"unauthenticated"' in site.shell.demand(
        "azd", "auth", "login", "--check-status", "--output", "json", minutes=1
    ):
        raise ProblemError("azd is not logged in")
    return [f"{name} {version}" for name, version in site.versions.items()]


def check_absence(site: Site) -> list[str]:
    """Refuse a name under which something is there already: it would be removed at the end."""
    if site.az("group", "exists", "--name", site.group):
        raise ProblemError(
            f"the resource group {site.group} is there: `az group delete --name {site.group}` removes it, if it is of a run"
        )
    if site.name in _environments(site) or (site.kept / site.name).exists():
        raise ProblemError(f"azd has an environment {site.name}: remove {site.kept / site.name}, if it is of a run")
    return [f"nothing is named {site.name}"]


def _environments(site: Site) -> list[str]:
    text = site.shell.demand("azd", "env", "list", "--output", "json", minutes=1)
    return [one["Name"] for one in parsed(text, "azd env list") or []]


def make_environment(site: Site) -> list[str]:
    """Make azd's environment, for who is logged in."""
    settings = site.kept / "config.json"
    site.azd_settings = settings.read_bytes() if settings.exists() else None
    where = ("--location", site.region, "--subscription", site.values["AZURE_SUBSCRIPTION_ID"])
    site.shell.demand("azd", "env", "new", site.name, *where, "--no-prompt", minutes=2)
    site.azd("env", "set", "AZURE_LOCATION", site.region)
    site.azd("env", "set", "AZURE_PRINCIPAL_TYPE", _who(site)[1])
    return [f"{site.name} in {site.region}"]


def _who(site: Site) -> tuple[str, str]:
    """Return the object id and the kind of who is logged in. The token says both, also that of a workflow."""
    middle = str(site.az("account", "get-access-token")["accessToken"]).split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    return str(claims["oid"]), "ServicePrincipal" if claims.get("idtyp") == "app" else "User"


def provision(site: Site) -> list[str]:
    """Create everything and upload the app."""
    site.azd("up", minutes=60)
    text = site.azd("env", "get-values", "--output", "json")
    site.values |= strings(parsed(text, "azd env get-values"))
    app = site.values["AZURE_FUNCTION_APP_NAME"]
    return [f"the app is {app}, at {site.values['SERVICE_SLUICE_BASE_URL']}"]


def give_roles(site: Site) -> list[str]:
    """Give the roles of the run. They are on resources of the group, and go with them."""
    who, kind = _who(site)
    given = []
    for resource, beginning, role in ROLES:
        scope = site.resource(resource, beginning)
        asked = ("--assignee-object-id", who, "--assignee-principal-type", kind, "--role", role, "--scope", scope)
        site.az("role", "assignment", "create", *asked)
        given.append(f"{role} on {scope.rsplit('/', 1)[1]}")
    return given


def examine(site: Site) -> list[str]:
    """Run `sluice doctor` until no service refuses the login any more, at most for ten minutes."""
    for look in range(ROLE_LOOKS):
        found = _document(_sluice(site, "doctor", "--json", minutes=5))
        if all(one["state"] != State.REFUSED for one in found["findings"]):
            break
        if look + 1 < ROLE_LOOKS:
            site.shell.wait(site.pause)
    wrong = [f"{one['kind']} {one['name']} {one['problem']}" for one in found["findings"] if one["problem"]]
    if wrong:
        raise ProblemError("; ".join(wrong))
    unchecked = sum(one["state"] == State.UNCHECKED for one in found["findings"])
    return [f"{len(found['findings']) - unchecked} findings are right, {unchecked} could not be checked"]


def examine_deeply(site: Site) -> list[str]:
    """Run `sluice doctor --deep`."""
    found = _document(_sluice(site, "doctor", "--deep", "--yes", "--json", minutes=15))
    broken = [
        f"{one['property']}: expected {one['expected']}, found {one['found']}"
        for one in found["properties"]
        if one["state"] == Kept.BROKEN
    ]
    if left := [f"{one['kind']} {one['name']} is left over" for one in found["left"]]:
        broken += left
    if broken or not found["ok"]:
        raise ProblemError("; ".join(broken) or "it says that something is not right, and names nothing")
    unchecked = [one["property"] for one in found["properties"] if one["state"] == Kept.UNCHECKED]
    held = len(found["properties"]) - len(unchecked)
    return [f"{held} properties hold", *(f"{one} could not be checked" for one in unchecked)]


def run_tests(site: Site) -> list[str]:
    """Run the end-to-end tests against the deployed address. A project of `sluice new` has no tests of the engine."""
    if not all((ROOT / name).exists() for name in TESTS):
        return ["left out: this is a project, and the tests of the engine are in its repository"]
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--host", "azure", *TESTS)
    done = site.shell.call("python", *words, minutes=45, settings=site.values)
    lines = [line for line in done.out.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    if done.status:
        raise ProblemError("; ".join(dict.fromkeys(failed)) or done.last_words)
    return [lines[-1].strip("= ")]


def run_first_job(site: Site) -> list[str]:
    """Drop a job behind a gate, open it, and watch it end, as docs/deploy.md types it."""
    file = site.scratch / "usage.ndjson"
    file.write_text('{"account": "alice", "plan": "basic", "quantity": "12.5"}\n')
    how = ("--workload", "billing", "--gate", "nightly", "--sum", "quantity")
    _sluice_demand(site, "submit", str(file), "--job", "first", *how)
    _sluice_demand(site, "gate", "open", "nightly", "--once", "--yes", "--why", "first try of a proof")
    return [_watch(site, "first")]


def kill_an_instance(site: Site) -> list[str]:
    """Kill a process of the app under a job. The job must end complete all the same."""
    file = site.scratch / "killed.ndjson"
    line = '{"account": "bob", "plan": "basic", "quantity": "1.5"}\n'
    file.write_text(line * KILLED_ITEMS)
    _sluice_demand(site, "submit", str(file), "--job", "killed", "--workload", "billing", "--sum", "quantity")
    said = _kill_one(site)
    return [said, _watch(site, "killed")]


def _kill_one(site: Site) -> str:
    """Kill one process by the resource manager, or say in whose words it is not allowed."""
    at = f"{API}{site.resource('Microsoft.Web/sites')}/instances"
    for instance in _listed(site, f"{at}?{API_VERSION}"):
        processes = _listed(site, f"{at}/{instance}/processes?{API_VERSION}")
        for process in processes[:1]:
            url = f"{at}/{instance}/processes/{process}?{API_VERSION}"
            done = site.shell.call("az", "rest", "--method", "delete", "--url", url, minutes=2)
            if done.status == 0:
                return f"killed the process {process} of the instance {instance[:12]}"
            return f"nothing was killed: the platform refuses it ({done.last_words})"
    return "nothing was killed: the platform lists no instance with a process"


def _listed(site: Site, url: str) -> list[str]:
    done = site.shell.call("az", "rest", "--method", "get", "--url", url, "--output", "json", minutes=2)
    return [str(one["name"]).rsplit("/", 1)[-1] for one in parsed(done.out, url)["value"]] if done.status == 0 else []


def _watch(site: Site, job: str) -> str:
    found = _document(_sluice(site, "jobs", "watch", job, "--timeout", "600", "--json", minutes=12))
    if found.get("state") != "complete":
        raise ProblemError(f"the job {job} is {found.get('state')}")
    accepted = found["accepted"]["items"]
    return f"the job {job} is complete: {accepted:,} transactions accepted, {found['rejected']['items']} rejected"


def _sluice(site: Site, *words: str, minutes: float = 5) -> Done:
    return site.shell.call("sluice", *words, minutes=minutes, settings=site.values)


def _sluice_demand(site: Site, *words: str) -> str:
    return site.shell.demand("sluice", *words, minutes=10, settings=site.values)


def _document(done: Done) -> Any:
    """Return the document that a command printed. It ends with a status of its own where something is wrong."""
    try:
        return json.loads(done.out)
    except ValueError as error:
        raise ProblemError(done.last_words) from error


ACTS: Final[Mapping[str, Act]] = {
    "tools": check_tools,
    "absent": check_absence,
    "environment": make_environment,
    "provision": provision,
    "roles": give_roles,
    "doctor": examine,
    "deep": examine_deeply,
    "e2e": run_tests,
    "job": run_first_job,
    "kill": kill_an_instance,
    "questions": ask_all,
    "remove": remove,
}
