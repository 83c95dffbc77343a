"""What the searches share."""

import pytest


@pytest.fixture(autouse=True)
def quick(without_garbage_collection):
    """A search makes no garbage that only a collection finds."""
