"""The stack that is treated badly: Azurite behind a proxy, a broker with short locks, a host with short leases."""

import os
import random
import signal
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from functions_local_host.launcher import Host
from servicebus_local.launcher import Broker

from shared.app import Stores
from shared.azure.connections import Connections
from shared.concurrency.fleet import Fleet, FleetChange, RulesInForce
from shared.topology import topology
from tests.chaos.proxy import Proxy
from tests.chaos.unsteady import LATE, NOTES, TWICE
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

#: What a killed process held comes back after this long, instead of the minutes that Azure takes.
LEASE_SECONDS = 10
#: Small chunks, so that there are many to lose.
FRAME_ITEMS = 100


class Stack:
    """What is running, and what can be done to it."""

    def __init__(self, azurite, proxies, broker, host, settings):
        self.azurite, self.broker, self.host, self.settings = azurite, broker, host, settings
        #: What stands in front of storage, and in front of the bus.
        self.proxy, self.way_to_bus = proxies
        self.connections = Connections.parse(settings | {"SluiceStorage": azurite.connection_string})

    def notes(self):
        """Return the words of every line that the app's processes noted."""
        path = Path(self.settings[NOTES])
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def tick(self):
        """Run the app's timer now, in the app."""
        request = urllib.request.Request(f"{self.host.base_url}/admin/functions/tick", data=b"{}", method="POST")
        request.add_header("Content-Type", "application/json")
        with suppress(OSError), urllib.request.urlopen(request, timeout=10):
            pass

    def clear_queues(self):
        """Remove every message of every storage queue, and return how many there were, about."""
        gone = 0
        for queue in self.connections.queues.list_queues():
            client = self.connections.queues.get_queue_client(queue.name)
            gone += client.get_queue_properties().approximate_message_count
            client.clear_messages()
        return gone

    def depths(self):
        """Return how many messages lie on each storage queue that has some, about."""
        clients = [
            self.connections.queues.get_queue_client(queue.name) for queue in self.connections.queues.list_queues()
        ]
        counts = {client.queue_name: client.get_queue_properties().approximate_message_count for client in clients}
        return {name: count for name, count in counts.items() if count}


class Killer:
    """Ends instances by SIGKILL at random moments, in a thread, until it is told to stop."""

    def __init__(self, host, mean, seed=1):
        self._host, self._mean, self._dice = host, mean, random.Random(seed)
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="chaos-killer")
        self.kills = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.wait(self._dice.expovariate(1 / self._mean)):
            pids = list(self._host.instance_pids().values())
            if pids:
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(pids), signal.SIGKILL)
                    self.kills += 1


@contextmanager
def running(
    folder,
    *,
    instances=3,
    twice=0.0,
    late=0.0,
    overdue=60,
    tick="*/5 * * * * *",
    retry="00:00:30",
    is_deployed=False,
    rules=None,
    more=None,
):
    """Start everything, yield it, and stop everything. `is_deployed`: with the locks and leases of the topology."""
    with Azurite.start() as azurite, Proxy(azurite.ports) as proxy:
        broker = Broker.start(lock_seconds=None if is_deployed else LEASE_SECONDS)
        way_to_bus = Proxy({"bus": broker.port})
        try:
            way_to_bus.__enter__()
            bus = broker.connection_string.replace(f":{broker.port}", f":{way_to_bus.ports['bus']}")
            settings = settings_for(azurite.account.connection_string(proxy.ports), bus)
            settings |= {
                "SLUICE_WORKLOADS": "tests.chaos.unsteady:Unsteady",
                "SLUICE_CHUNK_ITEMS": str(FRAME_ITEMS),
                "SLUICE_CHUNK_OVERDUE_SECONDS": str(overdue),
                "SLUICE_TICK_SCHEDULE": tick,
                # After how long a delivery that failed comes again.
                "AzureFunctionsJobHost__extensions__queues__visibilityTimeout": retry,
                NOTES: str(Path(folder) / "notes"),
                TWICE: str(twice),
                LATE: str(late),
                **(more or {}),
            }
            provision(azurite.connection_string, topology())
            if rules is not None:
                _put_in_force(rules, settings)
            lease = [] if is_deployed else ["--message-lease", str(LEASE_SECONDS)]
            options = [*lease, "--longest-pause", "1"]
            host = Host.start(ROOT, settings, instances=instances, options=options)
            try:
                stack = Stack(azurite, (proxy, way_to_bus), broker, host, settings)
                with stack.connections:
                    yield stack
            finally:
                host.stop()
        finally:
            way_to_bus.__exit__()
            broker.stop()


def _put_in_force(text, settings):
    """Put rules in force, and where every instance reads them. Else the first decision would, which comes with work."""
    with Connections.parse(settings) as connections, Stores(connections) as stores:
        rules = RulesInForce(stores.rules.put(text), text, stores.rules.look(None).etag)
        stores.fleet.commit(Fleet(), FleetChange(in_force=rules))


def wait_until(condition, seconds, what):
    """Wait until the condition holds, and return what it gives."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what()} after {seconds:g} s")
        time.sleep(0.3)
    return found
