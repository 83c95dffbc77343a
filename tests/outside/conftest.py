"""One stack for all of a worker's tests from outside: the deployed host.json, and people with their own rights."""

import pytest

from tests.outside.people import running


@pytest.fixture(scope="package")
def outside():
    """The running app, its publisher and its operator."""
    with running() as people:
        yield people
