"""The installation of one night: storage that lasts, proxies before it, a bus, two instances, a worker; what can befall them.

Locks, leases, intervals and `host.json` are those that are deployed.
"""

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from functions_local_host.launcher import Host
from servicebus_local.launcher import Broker

from shared.settings import Settings
from shared.topology import topology
from tests.chaos.proxy import Proxy
from tests.night.fleet import Worker, project_of_today
from tests.night.workload import BANK, NOTES, REPAIRED
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import bus_entities, sample_values, settings_for

WORKLOADS = ",".join(f"tests.night.workload:{name}" for name in ("Plain", "Rate", "Charge", "Invoice"))
#: Calls a second that the bank allows.
RATE = 100


class Stack:
    """What is running, and what can befall it."""

    def __init__(self, project, storage, proxies, bus, settings):
        #: Where the app's code is, and where its operator types.
        self.project = project
        self._azurite, self._data = storage
        self.broker, self.namespace = bus
        #: The ways to storage: of the app, whose requests are counted, and of persons.
        self.proxy, self._desk = proxies
        #: An instance of the last release is one of them while it runs beside.
        self.host = self.worker = self.before = None
        #: Of the app, and of persons.
        self.of_app, self.settings = settings
        #: Without the proxy: for those who check.
        self.storage = self._azurite.connection_string
        self._lock = threading.Lock()

    def kill(self, dice):
        """End an instance, or the worker, by SIGKILL. Each comes again."""
        hosts = [host for host in (self.host, self.before) if host]
        pids = sorted(pid for host in hosts for pid in host.instance_pids().values())
        if dice.random() < 1 / (len(pids) + 1):
            self.worker.kill()
        else:
            with suppress(ProcessLookupError):
                os.kill(dice.choice(pids), signal.SIGKILL)

    def lose_replies(self, dice):
        """Break every connection to storage in the midst of what it carries."""
        for proxy in (self.proxy, self._desk):
            proxy.cut()
        time.sleep(dice.uniform(0, 0.2))
        for proxy in (self.proxy, self._desk):
            proxy.restore()

    def stand_still(self, dice):
        """Let storage stand still for some seconds."""
        with self._lock:
            self._azurite.process.send_signal(signal.SIGSTOP)
            time.sleep(dice.uniform(1, 6))
            self._azurite.process.send_signal(signal.SIGCONT)

    def restart_storage(self, _):
        """End storage by SIGTERM, and start it again with what it has."""
        with self._lock:
            ports, account = self._azurite.ports, self._azurite.account
            self._azurite.stop()
            self._azurite = Azurite.start(self._data, ports=ports, account=account)

    def restart_bus(self, _):
        """Lose all that is on the bus."""
        self.broker.restart()

    def stop_storage(self):
        """End it."""
        self._azurite.stop()


@contextmanager
def running(folder, *, bank, rooms, instances=2):
    """Start everything, yield it, and stop everything."""
    folder = Path(folder)
    names = {
        "SLUICE_WORKLOADS": WORKLOADS,
        "SLUICE_CAPABILITIES": "registration,own.returns:RETURNS",
        # A carrier that does not answer is given up after a minute.
        "SLUICE_RETURNS_MINUTES": "1",
        "SLUICE_ROOMS": ",".join(rooms),
        "SLUICE_LIMITS": f"bank={RATE}/s",
        # Many chunks, so that something is in hand whenever a process dies.
        "SLUICE_CHUNK_ITEMS": "500",
        BANK: bank,
        NOTES: str(folder / "notes"),
        REPAIRED: str(folder / "repaired"),
    }
    azurite = Azurite.start(folder / "storage")
    with Proxy(azurite.ports) as proxy, Proxy(azurite.ports) as desk, project_of_today(folder / "project") as project:
        parsed = Settings.parse(sample_values() | names)
        with Broker.start(namespace := bus_entities(parsed)) as broker:
            ways = (azurite.account.connection_string(one.ports) for one in (proxy, desk))
            of_app, settings = (settings_for(way, broker.connection_string) | names for way in ways)
            provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
            with ExitStack() as parts:
                # Storage ends last, by whoever started it again.
                installed = Stack(
                    project, (azurite, folder / "storage"), (proxy, desk), (broker, namespace), (of_app, settings)
                )
                parts.callback(installed.stop_storage)
                installed.host = parts.enter_context(Host.start(project, of_app, instances=instances))
                installed.worker = parts.enter_context(Worker(project, of_app, folder / "worker.log"))
                yield installed
