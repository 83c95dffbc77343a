"""Gives the tests of azure-servicebus the broker instead of a namespace, as a plugin of pytest."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
from azure.servicebus._pyamqp import _connection
from azure.servicebus._pyamqp.aio import _connection_async
from servicebus_local.certificates import AUTHORITY
from servicebus_local.launcher import Broker

from tests.others.live import preparers

sys.modules.update(preparers.modules())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what the command names."""
    known = os.environ.get("LIVE_LEFT_OUT", "").split()
    items[:] = [item for item in items if item.name.partition("[")[0] not in known]


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """Stand in for what records requests to Azure."""


@pytest.fixture(scope="session", autouse=True)
def broker() -> Iterator[Broker]:
    """A broker over TLS, with a key, and with the entities of every collected test."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-live-") as folder,
        Broker.start(
            preparers.entities(), preparers.PORT, tls=Path(folder), sas_policies=[*preparers.POLICIES.values()]
        ) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        authority = str(Path(folder) / AUTHORITY)
        patch.setattr(certifi, "where", lambda: authority)
        patch.setenv("SSL_CERT_FILE", authority)
        for module in (_connection, _connection_async):
            for name in ("SECURE_PORT", "WEBSOCKET_PORT"):
                patch.setattr(module, name, running.port)
        yield running
