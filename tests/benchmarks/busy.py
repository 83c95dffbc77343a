"""A workload that computes: what a second worker process is good for shows where the processor is what is short."""

import hashlib
from collections.abc import Sequence
from typing import Final

from shared.workloads import Total
from shared.workloads.billing import UsageRecord

#: About a tenth of a millisecond for each transaction.
ROUNDS: Final = 300


class Busy:
    """Hashes each transaction many times over."""

    name = "busy"
    transaction = UsageRecord
    partial = int
    sums = ("quantity",)

    def map(self, usage: UsageRecord, number: int) -> int:
        """Return a number that took a while."""
        digest = f"{usage.account}{number}".encode()
        for _ in range(ROUNDS):
            digest = hashlib.sha256(digest).digest()
        return digest[0]

    def combine(self, values: Sequence[int]) -> int:
        """Add them."""
        return sum(values)

    def merge(self, left: int, right: int) -> int:
        """Add two."""
        return left + right

    def finish(self, partial: int) -> list[Total]:
        """Return one row."""
        return [Total("all", {"sum": partial})]
