"""Homes of both kinds, empty, under one fixture."""

import pytest

from tests.eventsourcing.memory_homes import MemoryHomes


@pytest.fixture(params=["memory"])
def homes(request):
    """An event store that holds nothing yet."""
    return MemoryHomes(page=3)
