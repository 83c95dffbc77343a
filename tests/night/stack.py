"""The installation of one night: storage that lasts, a proxy in front of it, a bus, two instances, and what can befall them.

Locks, leases, intervals and `host.json` are those that are deployed.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from functions_local_host.launcher import Host
from servicebus_local.launcher import Broker

from shared.settings import Settings
from shared.topology import topology
from tests.chaos.proxy import Proxy
from tests.night.workload import BANK, NOTES, REPAIRED
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import bus_entities, sample_values, settings_for

WORKLOADS = "tests.night.workload:Rate,tests.night.workload:Charge,tests.night.workload:Invoice"
#: Calls a second that the bank allows.
RATE = 100


class Stack:
    """What is running, and what can befall it."""

    def __init__(self, azurite, data, proxy, broker, host, settings):  # noqa: PLR0917 - one caller
        self._azurite, self._data, self.proxy, self.broker, self.host = azurite, data, proxy, broker, host
        self.settings = settings
        #: Without the proxy: for those who check.
        self.storage = azurite.connection_string
        self._lock = threading.Lock()

    def kill(self, dice):
        """End an instance by SIGKILL."""
        with suppress(ProcessLookupError, IndexError):
            os.kill(dice.choice(sorted(self.host.instance_pids().values())), signal.SIGKILL)

    def lose_replies(self, dice):
        """Break every connection to storage in the midst of what it carries."""
        self.proxy.cut()
        time.sleep(dice.uniform(0, 0.2))
        self.proxy.restore()

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
        "SLUICE_CAPABILITIES": "registration",
        "SLUICE_ROOMS": ",".join(rooms),
        "SLUICE_LIMITS": f"bank={RATE}/s",
        # Many chunks, so that something is in hand whenever a process dies.
        "SLUICE_CHUNK_ITEMS": "500",
        BANK: bank,
        NOTES: str(folder / "notes"),
        REPAIRED: str(folder / "repaired"),
    }
    azurite = Azurite.start(folder / "storage")
    with Proxy(azurite.ports) as proxy:
        way = azurite.account.connection_string(proxy.ports)
        parsed = Settings.parse(sample_values() | names)
        with Broker.start(bus_entities(parsed)) as broker:
            settings = settings_for(way, broker.connection_string) | names
            provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
            host = Host.start(ROOT, settings, instances=instances)
            stack = Stack(azurite, folder / "storage", proxy, broker, host, settings)
            try:
                yield stack
            finally:
                host.stop()
                stack.stop_storage()
