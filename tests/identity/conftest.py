"""Storage and a bus that want a login: Azurite over TLS with tokens, the broker behind TLS, an identity of Azure's."""

import random

import pytest

from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.topology import topology
from tests.identity.authority import certify
from tests.identity.managed import ManagedIdentity
from tests.identity.tls_proxy import TlsProxy
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

AMQPS = 5671


@pytest.fixture(scope="session")
def bus_address():
    """A loopback address of this run's own: a namespace has no port, so the usual one must be free there."""
    dice = random.SystemRandom()
    return f"127.{dice.randrange(1, 255)}.{dice.randrange(1, 255)}.{dice.randrange(2, 255)}"


@pytest.fixture(scope="session")
def tls(tmp_path_factory, bus_address):
    """A server's certificate, and the authority that clients must believe."""
    return certify(tmp_path_factory.mktemp("tls"), "127.0.0.1", bus_address)


@pytest.fixture(scope="session")
def secured(tls):
    """Azurite that takes Entra tokens, with every entity of the topology."""
    with Azurite.start(tls=tls) as running:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("REQUESTS_CA_BUNDLE", str(tls.authority))
            provision(running.connection_string, topology())
        yield running


@pytest.fixture
def identity(monkeypatch):
    """The endpoint for tokens of this app's identity."""
    made = ManagedIdentity()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def trusting(tls, monkeypatch):
    """A process that believes the test's authority."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tls.authority))
    monkeypatch.setattr("certifi.where", lambda: str(tls.authority))


@pytest.fixture
def bus(broker, tls, bus_address):
    """The broker behind TLS, at the port that every namespace has."""
    try:
        proxy = TlsProxy((bus_address, AMQPS), broker.port, tls)
    except OSError as error:
        pytest.skip(f"this machine has no second loopback address: {error}")
    yield proxy
    proxy.close()


@pytest.fixture
def settings(secured, bus_address):
    """The settings of a deployed app with a user-assigned identity."""
    storage = {f"{STORAGE_CONNECTION}__{service}ServiceUri": address for service, address in secured.endpoints.items()}
    bus = {f"{BUS_CONNECTION}__fullyQualifiedNamespace": bus_address}
    login = {f"{name}__{key}": value for name in (STORAGE_CONNECTION, BUS_CONNECTION) for key, value in LOGIN.items()}
    return {**storage, **bus, **login}


LOGIN = {"credential": "managedidentity", "clientId": "the-apps-own"}
