"""Stand-ins of `az` and `azd` for the rehearsal: the words that a proof uses. They create the local stack.

They are programs on the path, as the real ones are. Each hands its words to this process, which keeps what is there: groups,
environments, roles, deployments. A word that the real program would not know is refused, so a misspelt one shows here.
"""

import base64
import json
import os
import signal
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from shared.topology import topology
from tools.local.infra.entities import bus_lists
from tools.local.prove.shell import Done
from tools.local.stack import StackOptions, running

#: Two, so that one is left when the other is killed.
INSTANCES: Final = 2
_SUBSCRIPTION: Final = "/subscriptions/00000000-0000-0000-0000-000000000000"
_KINDS: Final = {
    "Microsoft.ServiceBus/namespaces": "sb-rehearsal",
    "Microsoft.Storage/storageAccounts": "stapprehearsal",
    "Microsoft.Web/sites": "func-rehearsal",
}
#: A proof calls it hundreds of times. `json` and `socket` take longer to import than the interpreter takes to start.
_PROGRAM: Final = """#!{python} -IS
import sys
from _socket import AF_UNIX, SHUT_WR, socket
line = socket(AF_UNIX)
line.connect({address!r})
line.sendall({between!r}.join([{name!r}, *sys.argv[1:]]).encode())
line.shutdown(SHUT_WR)
status, out, err = b"".join(iter(lambda: line.recv(65536), b"")).decode().split({between!r})
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(int(status))
"""
#: Between words: no argument of a program has it.
_BETWEEN: Final = "\0"


class Created(NamedTuple):
    """The result of a deployment: the values that azd keeps, and the processes of the app's instances."""

    values: Mapping[str, str]
    instances: Callable[[], Mapping[str, int]]


@contextmanager
def local_stack() -> Iterator[Created]:
    """The local stack as a deployment of it, with the addresses that the template's outputs have in Azure."""
    with running(StackOptions(instances=INSTANCES)) as stack:
        values = {
            **stack.settings,
            "AZURE_FUNCTION_APP_NAME": _KINDS["Microsoft.Web/sites"],
            "SERVICE_SLUICE_BASE_URL": stack.host.base_url,
        }
        host: Any = stack.host
        yield Created(values, host.instance_pids)


@dataclass
class _Held:
    """A resource group, and what a deployment made in it."""

    parts: ExitStack
    created: Created
    roles: list[str] = field(default_factory=list)


class Refused(Exception):  # noqa: N818 - the answer of a program
    """Raised where the real program would refuse."""


class Cloud:
    """The things that the stand-ins hold. A context manager that ends all of them."""

    def __init__(
        self,
        folder: Path,
        make: Callable[[], AbstractContextManager[Created]] = local_stack,
        more: tuple[str, ...] = (),
    ) -> None:
        self.programs = folder / "programs"
        self.kept = folder / ".azure"
        self._make = make
        self._groups: dict[str, _Held] = {}
        self._running: set[str] = set()
        self._lock = threading.RLock()
        self.programs.mkdir()
        self.kept.mkdir()
        address = str(folder / "line")
        for name in ("az", "azd", *more):
            program = self.programs / name
            program.write_text(_PROGRAM.format(python=sys.executable, address=address, name=name, between=_BETWEEN))
            program.chmod(0o755)
        self._server = _serve(address, self._answer)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="stand-in", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for name in [*self._groups]:
                self._delete(name)

    def left(self) -> list[str]:
        """Return the names of all that is still there."""
        with self._lock:
            groups = [f"the resource group {name}" for name in self._groups]
            return [*groups, *(f"azd's environment {one.name}" for one in self._environments())]

    def answer(self, words: list[str]) -> Done:
        """Answer one call as the real program would, or refuse it. Tests put faults before this."""
        for pattern, act in _WORDS.items():
            if words[: len(pattern)] == list(pattern):
                return Done(0, act(self, words), "")
        raise Refused(f"'{' '.join(words[:4])}' is misspelled or not recognized by the system.")

    def _answer(self, words: list[str]) -> Done:
        try:
            return self.answer(words)
        except Refused as error:
            return Done(1, "", f"ERROR: {error}")

    # What azd does.

    def _environments(self) -> list[Path]:
        return [one for one in self.kept.iterdir() if one.is_dir()]

    def _environment(self, words: list[str]) -> Path:
        file = self.kept / option(words, "--environment") / "values.json"
        if not file.exists():
            raise Refused(f"environment '{file.parent.name}' does not exist")
        return file

    def list_environments(self, _: list[str]) -> str:
        """`azd env list`."""
        return json.dumps([{"Name": one.name} for one in self._environments()])

    def new_environment(self, words: list[str]) -> str:
        """`azd env new`. The new one becomes the default."""
        folder = self.kept / words[3]
        if folder.exists():
            raise Refused(f"environment '{words[3]}' already exists")
        option(words, "--subscription")
        folder.mkdir()
        (folder / "values.json").write_text(json.dumps({"AZURE_LOCATION": option(words, "--location")}))
        (self.kept / "config.json").write_text(json.dumps({"version": 1, "defaultEnvironment": words[3]}))
        return ""

    def set_value(self, words: list[str]) -> str:
        """`azd env set`."""
        file = self._environment(words)
        file.write_text(json.dumps({**json.loads(file.read_text()), words[3]: words[4]}))
        return ""

    def get_values(self, words: list[str]) -> str:
        """`azd env get-values`."""
        return self._environment(words).read_text()

    def up(self, words: list[str]) -> str:
        """`azd up`. As in Azure the deployment goes on when the program is ended."""
        file = self._environment(words)
        name, deployment = f"rg-{file.parent.name}", f"{file.parent.name}-1"
        with self._lock:
            self._running.add(deployment)
            try:
                if name not in self._groups:
                    parts = ExitStack()
                    # Not earlier: a group that is on its way cannot be seen, and so not deleted.
                    self._groups[name] = _Held(parts, parts.enter_context(self._make()))
            finally:
                self._running.discard(deployment)
            values = self._groups[name].created.values
            file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
        return "SUCCESS: Your up workflow to provision and deploy to Azure completed."

    def preview(self, words: list[str]) -> str:
        """`azd provision --preview`."""
        self._environment(words)
        return "  Skip : Resource group : rg\n"

    def down(self, words: list[str]) -> str:
        """`azd down`."""
        name = f"rg-{self._environment(words).parent.name}"
        if "--force" not in words:
            raise Refused("it would ask, and no person answers: --force")
        with self._lock:
            self._delete(name)
        return ""

    # What az does.

    def _group(self, words: list[str], name: str = "--resource-group") -> _Held:
        group = option(words, name)
        with self._lock:
            if (held := self._groups.get(group)) is None:
                raise Refused(f"(ResourceGroupNotFound) Resource group '{group}' could not be found.")
            return held

    def _delete(self, name: str) -> None:
        held = self._groups.pop(name, None)
        if held is None:
            raise Refused(f"(ResourceGroupNotFound) Resource group '{name}' could not be found.")
        held.parts.close()

    def group_exists(self, words: list[str]) -> str:
        """`az group exists`."""
        return json.dumps(option(words, "--name") in self._groups)

    def delete_group(self, words: list[str]) -> str:
        """`az group delete`."""
        if "--yes" not in words:
            raise Refused("it would ask, and no person answers: --yes")
        with self._lock:
            self._delete(option(words, "--name"))
        return ""

    def list_resources(self, words: list[str]) -> str:
        """`az resource list`, of one kind."""
        self._group(words)
        kind, group = option(words, "--resource-type"), option(words, "--resource-group")
        at = f"{_SUBSCRIPTION}/resourceGroups/{group}/providers/{kind}/{_KINDS[kind]}"
        return json.dumps([{"name": _KINDS[kind], "id": at}])

    def assign_role(self, words: list[str]) -> str:
        """`az role assignment create`."""
        for name in ("--assignee-object-id", "--assignee-principal-type"):
            option(words, name)
        scope = option(words, "--scope")
        with self._lock:
            held = self._groups.get(scope.split("/")[4])
            if held is None:
                raise Refused(f"(ResourceNotFound) The scope '{scope}' could not be found.")
            held.roles.append(option(words, "--role"))
        return "{}"

    def list_deployments(self, _: list[str]) -> str:
        """`az deployment sub list` of those that run."""
        return json.dumps(sorted(self._running))

    def wait_for_deployment(self, words: list[str]) -> str:
        """`az deployment sub cancel`: what was begun by then is made to its end."""
        option(words, "--name")
        with self._lock:
            return ""

    def list_locks(self, words: list[str]) -> str:
        """`az lock list`."""
        self._group(words)
        return "[]"

    def list_rules(self, words: list[str]) -> str:
        """`az servicebus topic subscription rule list`, of the file that the local bus is made from."""
        self._group(words)
        at = (option(words, "--topic-name"), option(words, "--subscription-name"))
        rules = bus_lists(topology())["rules"]
        found = [one for one in rules if (one["topic"], one["subscription"]) == at]
        return json.dumps([{"name": one["name"], "filterType": one["properties"]["filterType"]} for one in found])

    def rest(self, words: list[str]) -> str:
        """`az rest`: instances and their processes, which are those of the local host, and the list of prices."""
        url, method = option(words, "--url").partition("?")[0], option(words, "--method")
        if url.startswith("https://prices.azure.com/"):
            return json.dumps({"Items": []})
        parts = url.split("/")
        held = self._groups.get(parts[parts.index("resourceGroups") + 1])
        if held is None:
            raise Refused("Not Found")
        pids, below = held.created.instances(), parts[parts.index("instances") + 1 :]
        if method == "delete":
            os.kill(pids[below[0]], signal.SIGKILL)
            return ""
        names = [f"{below[0]}/{pids[below[0]]}"] if below else [*pids]
        return json.dumps({"value": [{"name": name} for name in names]})

    def query_logs(self, words: list[str]) -> str:
        """`az monitor log-analytics query`: the local stack has no workspace, and this says so in a line of its form."""
        text = option(words, "--analytics-query")
        if "count() by Success" in text:
            return json.dumps([{"Success": "True", "count_": "1"}])
        if "ItemCount" in text:
            return json.dumps([{"items": "1", "lines": "1"}])
        return json.dumps([{"Message": "sluice.rehearsal {}"}])


def option(words: list[str], name: str) -> str:
    """Return the value of an option, which the real program demands."""
    if name not in words[:-1]:
        raise Refused(f"the following arguments are required: {name}")
    return words[words.index(name) + 1]


def _says(answer: object) -> Callable[[Cloud, list[str]], str]:
    return lambda *_: json.dumps(answer)


def _token(*_: Any) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"oid": "who-rehearses", "idtyp": "user"}).encode()).decode()
    return json.dumps({"accessToken": f"head.{claims.rstrip('=')}.signature"})


#: The words that a proof uses, by the program.
_WORDS: Final[Mapping[tuple[str, ...], Callable[[Cloud, list[str]], str]]] = {
    ("azd", "version"): _says({"azd": {"version": "0.0.0 (a stand-in)"}}),
    ("azd", "auth", "login", "--check-status"): _says({"status": "authenticated"}),
    ("azd", "env", "list"): Cloud.list_environments,
    ("azd", "env", "new"): Cloud.new_environment,
    ("azd", "env", "set"): Cloud.set_value,
    ("azd", "env", "get-values"): Cloud.get_values,
    ("azd", "up"): Cloud.up,
    ("azd", "provision", "--preview"): Cloud.preview,
    ("azd", "down"): Cloud.down,
    ("az", "version"): _says({"azure-cli": "0.0.0 (a stand-in)"}),
    ("az", "account", "show"): _says({"id": "a-subscription", "name": "rehearsal", "state": "Enabled"}),
    ("az", "account", "get-access-token"): _token,
    ("az", "group", "exists"): Cloud.group_exists,
    ("az", "group", "delete"): Cloud.delete_group,
    ("az", "resource", "list"): Cloud.list_resources,
    ("az", "role", "assignment", "create"): Cloud.assign_role,
    ("az", "deployment", "sub", "list"): Cloud.list_deployments,
    ("az", "deployment", "sub", "cancel"): Cloud.wait_for_deployment,
    ("az", "lock", "list"): Cloud.list_locks,
    ("az", "bicep", "build"): _says({}),
    ("az", "servicebus", "topic", "subscription", "rule", "list"): Cloud.list_rules,
    ("az", "monitor", "log-analytics", "workspace", "list"): _says("a-workspace"),
    ("az", "monitor", "log-analytics", "query"): Cloud.query_logs,
    ("az", "functionapp", "show"): _says(
        {"name": "python", "version": f"{sys.version_info.major}.{sys.version_info.minor}"}
    ),
    ("az", "rest"): Cloud.rest,
}


def _serve(address: str, answer: Callable[[list[str]], Done]) -> socketserver.ThreadingUnixStreamServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            done = answer(self.rfile.read().decode().split(_BETWEEN))
            try:
                self.wfile.write(_BETWEEN.join(map(str, done)).encode())
            except BrokenPipeError:
                # The program was ended meanwhile, and what it began is done all the same.
                return

    server = socketserver.ThreadingUnixStreamServer(address, Handler)
    server.daemon_threads = True
    return server
