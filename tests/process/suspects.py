"""Workloads that end their process, or never end, at the transactions that a setting names."""

import ctypes
import os
import sys
import time
from decimal import Decimal

import msgspec

from shared.workloads import Rejected
from tests.process.world import Sale, Sales


def _fill_memory():
    held = bytearray()
    while True:
        held += bytes(1 << 20)


def _fail(error):
    raise error


def _print():
    print("to standard output")  # noqa: T201 - a workload may
    os.write(1, b"even so")


ENDS = {
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(0),
    "exit status": lambda: os._exit(3),
    "memory": _fill_memory,
    "stands still": lambda: time.sleep(3600),
    "SystemExit": lambda: sys.exit(2),
    "outage": lambda: _fail(ConnectionResetError("a secret")),
    "bug": lambda: _fail(KeyError("a secret")),
    "prints": _print,
}


class Suspect(Sales):
    """Sales that meet their end in `map`."""

    name = "suspect"

    def __init__(self, how, amounts):
        super().__init__(self._meet)
        self.how, self.amounts = how, amounts

    @classmethod
    def configured(cls, settings):
        """Build it from the settings of the app."""
        return cls(settings["HOW"], [Decimal(one) for one in settings["AMOUNTS"].split()])

    def _meet(self, sale):
        if sale.amount in self.amounts:
            ENDS[self.how]()


class AtOnce(Suspect):
    """One that maps a whole part in one call."""

    def map_many(self, transactions, numbers):
        """Map them."""
        return [self.map(*one) for one in zip(transactions, numbers, strict=True)]


class Waiting(Suspect):
    """One whose calls wait for others, one at a time."""

    concurrency = 1

    async def map(self, transaction, number):
        """Map it."""
        return super().map(transaction, number)


class InCombine(Suspect):
    """One that meets its end in `combine`."""

    def map(self, sale, _number):
        """Map it."""
        return (sale.shop, sale.amount)

    def combine(self, mapped):
        """Meet the end."""
        ENDS[self.how]()
        return super().combine(mapped)


class Unloadable:
    """One that ends its process as soon as it is built."""

    name, transaction, partial, sums = "suspect", Sale, dict[str, Decimal], ()

    @classmethod
    def configured(cls, _settings):
        """End."""
        os._exit(4)


class Rejecting(Suspect):
    """One that rejects, and whose partial is no plain type."""

    class Sum(msgspec.Struct):
        """Its partial."""

        amount: Decimal

    partial = Sum

    def map(self, sale, _number):
        """Reject the amounts of the setting."""
        return Rejected("named", str(sale.amount)) if sale.amount in self.amounts else sale.amount

    def combine(self, mapped):
        """Add up."""
        return self.Sum(sum(mapped, Decimal()))

    def merge(self, left, right):
        """Add up."""
        return self.Sum(left.amount + right.amount)
