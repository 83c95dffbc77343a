"""The broker with an entity for each test."""

import pytest
from broker_tests.conftest import fresh, used
from broker_tests.topology import bus

from tests.forked import ForkedBroker

__all__ = ["broker", "fresh", "used"]
#: More than any of these tests takes.
QUEUES, TOPICS = 80, 8


@pytest.fixture(scope="session")
def broker():
    """The broker that these tests share."""
    with ForkedBroker.start(bus(QUEUES, TOPICS)) as running:
        yield running
