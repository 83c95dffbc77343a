"""What the tests of the fault runs share."""

import pytest

from tests.faults import campaign, requests
from tests.faults.azurite_storage import AzuriteAccounts, start


@pytest.fixture
def shortcuts(monkeypatch):
    """Take the shortcuts of a campaign for runs in this process."""
    for name, value in campaign.SHORTCUTS.items():
        monkeypatch.setattr(name, value)


@pytest.fixture(scope="session")
def crowd():
    """An Azurite with an account for each run, in this process or in workers."""
    with start() as azurite:
        yield campaign.Shared(azurite.ports)


@pytest.fixture(scope="session")
def in_memory():
    """The requests of every scenario, as they are written down: a test records them and compares."""
    return requests.sites_of(requests.read())


@pytest.fixture(scope="session")
def accounts(crowd):
    """Accounts that nobody has used."""
    return AzuriteAccounts(*crowd)
