"""Stores of both kinds, and a clock that stands still until it is told."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.azure import BlobStore, OptimisticStore, connect
from shared.ids.book import WRITES
from tests.ids.memory_store import MemoryStore
from tools.local.azurite.launcher import Azurite


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        # Far ahead of any day of running this: a storage with a clock of its own never seems to have written later.
        self.at = datetime(2080, 11, 21, 9, tzinfo=UTC)
        self.ran = 0.0

    def now(self) -> datetime:
        """Return the time of day."""
        return self.at

    def monotonic(self) -> float:
        """Return the seconds that ran."""
        return self.ran

    def advance(self, seconds: float) -> None:
        """Move the time of day, and what runs if it is forward."""
        self.at += timedelta(seconds=seconds)
        self.ran += max(seconds, 0.0)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """One storage for all tests of the session."""
    with Azurite.start() as running:
        yield running


@pytest.fixture(params=["memory", "blob"])
def store(request: pytest.FixtureRequest) -> Iterator[OptimisticStore]:
    """A store that holds nothing yet; the blob's container does not exist."""
    if request.param == "memory":
        yield MemoryStore("ids/ordernumber")
        return
    running: Azurite = request.getfixturevalue("azurite")
    with connect(running.connection_string, f"ids-{uuid.uuid4().hex}") as container:
        yield BlobStore(container, "ordernumber")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Retries follow each other at once."""
    monkeypatch.setattr("shared.ids.book.WRITES", replace(WRITES, first=0.0))
    return lambda: None
