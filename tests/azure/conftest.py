"""The broker with an entity for each test."""

from broker_tests.conftest import broker, fresh, used

__all__ = ["broker", "fresh", "used"]
