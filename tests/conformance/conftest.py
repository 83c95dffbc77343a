"""Fixtures of the tests of `sluice doctor --deep`."""

import gc
import warnings

import pytest


@pytest.fixture(scope="module")
def forgotten_sockets():
    """Let nobody trip over a socket that the bus SDK forgets when a connection breaks, as these tests make it break."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
