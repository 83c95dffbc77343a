"""One whole stack: Azurite, the broker, every entity of the topology, and a host that runs the app.

Parts start in the order in which they are needed and stop in the reverse order, after any failure too.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from functions_local_host.errors import StartError as HostStartError
from functions_local_host.launcher import Host
from servicebus_local.entities import Namespace, Subscription, parse
from servicebus_local.errors import StartError as BrokerStartError
from servicebus_local.launcher import Broker

from shared.azure import BUS_CONNECTION, STORAGE_CONNECTION
from shared.own import lay, read_own
from shared.settings import Dequeue, Settings
from shared.topology import topology
from tools.local.azurite.launcher import Account, Azurite
from tools.local.errors import StackError
from tools.local.func_host import FuncHost
from tools.local.infra.entities import bus_lists
from tools.local.installation import ensure_worker
from tools.local.paths import ROOT, WORKER, venv_python
from tools.local.provision import provision

#: By trigger: how many permits one instance follows at a time, as `maxConcurrentCalls` says it by push. Each starts tasks.
TRIGGER_BATCH: Final = {
    "AzureFunctionsJobHost__extensions__queues__batchSize": "4",
    "AzureFunctionsJobHost__extensions__queues__newBatchThreshold": "1",
}


class RunningHost(Protocol):
    """The runner of the app: the project's own host or `func`."""

    process: subprocess.Popen[bytes]

    log: Path

    @property
    def base_url(self) -> str:
        """Where its HTTP functions and its admin endpoints answer."""
        ...

    def stop(self) -> None:
        """End it and everything it started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """How a stack is to be run."""

    host: str = "local"
    #: Whose worker runs the app in the local host: one of its `WORKERS`.
    worker: str = "local"
    instances: int = 2
    #: 0: any free port.
    port: int = 0
    flex: bool = False
    #: Where the local host finds the app: this project, or a package of it.
    app: Path = ROOT
    #: None: in memory.
    data: Path | None = None
    #: Whether Azurite logs every request, for those who count them.
    counts_requests: bool = False
    #: Settings beside the connections, as an operator would set them.
    settings: Mapping[str, str] | None = None
    #: Further words of the local host's command line, such as `--auth`.
    words: Sequence[str] = ()
    #: What subscribers add of their own: the topic, and the name of the subscription.
    subscriptions: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Stack:
    """The running parts, and the settings to reach them by."""

    azurite: Azurite
    broker: Broker
    host: RunningHost
    settings: dict[str, str]


@contextmanager
def running(options: StackOptions) -> Iterator[Stack]:
    """Start everything, yield it, and stop everything."""
    with _in_one_line(), ExitStack() as parts:
        account = _account(options.data)
        azurite = parts.enter_context(Azurite.start(options.data, account=account, is_logging=options.counts_requests))
        given = sample_values() | dict(options.settings or {})
        own = read_own(options.app, given)
        parsed = Settings.parse(lay(own, given).settings)
        broker = Broker.start(bus_entities(parsed, options.subscriptions))
        parts.callback(broker.stop)
        settings = settings_for(azurite.connection_string, broker.connection_string) | dict(options.settings or {})
        # As the app lays them, so that the entities are the app's.
        settings = dict(lay(own, settings).settings)
        provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
        host = start_host(options, settings)
        parts.callback(host.stop)
        yield Stack(azurite, broker, host, settings)


def bus_entities(parsed: Settings, subscriptions: Sequence[tuple[str, str]] = ()) -> Namespace:
    """Return the entities of the bus that an installation with these settings has, and the subscriptions of others."""
    own = parse(bus_lists(topology(parsed.work_queues, parsed.entities)))
    added = {
        topic.name: tuple(Subscription(name) for to, name in subscriptions if to == topic.name) for topic in own.topics
    }
    topics = (replace(one, subscriptions=(*one.subscriptions, *added[one.name])) for one in own.topics)
    return Namespace(own.queues, tuple(topics))


def sample_values() -> dict[str, str]:
    """Return the values of the sample settings: the connections, and what the host reads by itself."""
    values: dict[str, str] = json.loads((ROOT / "local.settings.sample.json").read_text())["Values"]
    return values


def settings_for(storage: str, bus: str) -> dict[str, str]:
    """Return the sample settings with the connections of this stack in them."""
    return {**sample_values(), "AzureWebJobsStorage": storage, STORAGE_CONNECTION: storage, BUS_CONNECTION: bus}


def start_host(options: StackOptions, settings: Mapping[str, str]) -> RunningHost:
    """Start the chosen host and return when it runs."""
    words, python = list(options.words), sys.executable
    if settings.get("SLUICE_DEQUEUE") == Dequeue.TRIGGER:
        settings = {**TRIGGER_BATCH, **settings}
    if options.worker != "local" and options.host != "local":
        raise StackError(f"the host {options.host!r} has a worker of its own: leave WORKER out")
    if options.worker != "local":
        ensure_worker()
        words += ["--worker", options.worker]
        python = str(venv_python(WORKER))
    if options.host == "local":
        with _in_one_line():
            return Host.start(
                options.app,
                settings=settings,
                instances=options.instances,
                flex=options.flex,
                port=options.port,
                options=words,
                python=python,
            )
    if options.host == "func":
        return FuncHost.start(settings, options.port)
    raise StackError(f"there is no host {options.host!r}: choose local or func")


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Pass a part's own error on as the stack's, which the commands print in one line."""
    try:
        yield
    except (BrokerStartError, HostStartError) as error:
        raise StackError(str(error)) from error


def _account(data: Path | None) -> Account | None:
    """Return the account that the data folder belongs to, a new one at its first use."""
    if data is None:
        return None
    file = data / "account.json"
    if not file.exists():
        data.mkdir(parents=True, exist_ok=True)
        _keep_from_git(data)
        account = Account.random()
        file.touch(mode=0o600)
        file.write_text(json.dumps({"name": account.name, "key": account.key}))
    return Account(**json.loads(file.read_text()))


def _keep_from_git(data: Path) -> None:
    """Have git ignore a new data folder, wherever it is: it holds payloads. A folder with other files is left alone."""
    if not any(data.iterdir()):
        (data / ".gitignore").write_text("# made by `make up`: payloads, and the key of a local account\n*\n")
