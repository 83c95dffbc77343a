"""The fleet that the simulations are compared with."""

from tests.concurrency.conftest import fleet

__all__ = ["fleet"]
