"""Storage on a real Azurite with many accounts: each run has one to itself, so that nothing of another is in its way."""

import base64
import itertools
import time

from shared.azure.connections import Connections
from shared.topology import topology
from tests.faults.transport import FaultyTransport
from tools.local.azurite.launcher import Account, Azurite
from tools.local.provision import provision

#: What fits one variable of the environment, from which Azurite takes its accounts.
ACCOUNTS = 1000
_KEY = base64.b64encode(b"faulty!!").decode()


class ManyAccounts(Account):
    """One account after the other, all of one key."""

    @classmethod
    def made(cls):
        """Return the accounts as one entry of Azurite's list."""
        return cls(f":{_KEY};".join(f"faults{n}" for n in range(ACCOUNTS)), _KEY)

    def connection_string(self, ports, scheme="http"):
        """Return what names the first."""
        return Account("faults0", _KEY).connection_string(ports, scheme)


def start():
    """Start an Azurite with all these accounts."""
    return Azurite.start(account=ManyAccounts.made())


class AzuriteAccounts:
    """Gives each run storage of its own."""

    def __init__(self, ports, take_number=None):
        self._ports, self._take_number = ports, take_number or itertools.count().__next__

    def fresh(self, entities=()):
        """Return a storage that nobody has used, with these entities beside the base."""
        text = Account(f"faults{self._take_number()}", _KEY).connection_string(self._ports)
        provision(text, topology(entities=entities))
        return AzuriteStorage(text)


class AzuriteStorage:
    """One account."""

    #: Whether the processes of a run may be forked children.
    is_real = True

    def __init__(self, connection_string):
        self.connection_string = connection_string

    def connections(self):
        """Return connections without faults."""
        return Connections(self.connection_string)

    def transport(self, plan):
        """Return a transport with the faults of the plan."""
        return FaultyTransport(plan)

    def depth(self, queue, connections):
        """Return how many messages a queue has."""
        return connections.queues.get_queue_client(queue).get_queue_properties().approximate_message_count

    def follow(self, _clock):
        """Azurite dates insertions by the machine's clock."""

    def wait(self, seconds):
        """Wait until hidden messages come back."""
        time.sleep(seconds)
