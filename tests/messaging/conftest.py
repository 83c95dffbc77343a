"""The broker with an entity for each test."""

from servicebus_local.tests.conftest import broker, fresh, used

__all__ = ["broker", "fresh", "used"]
