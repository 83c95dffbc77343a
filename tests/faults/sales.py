"""The jobs of these runs: sales by shop, with a switch that breaks the workload as a bad deployment would."""

from decimal import Decimal
from functools import partial
from hashlib import sha256

import msgspec

from shared.errors import RefusedError
from shared.workloads import Line, Rejected, Total, shard_of


class Sale(msgspec.Struct, frozen=True):
    """A transaction."""

    shop: str
    amount: Decimal


class Sold(msgspec.Struct, frozen=True):
    """A sale with its id."""

    shop: str
    amount: Decimal
    id: int


class Sales:
    """Keeps every sale with its id, so that a check can name what is missing or there twice."""

    name, transaction, partial, sums = "sales", Sale, list[Sold], ("amount",)

    def __init__(self, note=lambda *_: None):
        #: Is told of each run of a chunk.
        self.breaks_at, self.note = {}, note

    def map(self, sale, number):
        """Reject what has no shop; fail as this deployment does."""
        if sale.shop in self.breaks_at:
            # A new one each time: an error that is raised again keeps every frame that it ever passed.
            error = self.breaks_at[sale.shop]()
            raise error
        return Sold(sale.shop, sale.amount, number) if sale.shop else Rejected("no_shop", "the shop is empty")

    def combine(self, mapped):
        """Keep all."""
        found = list(mapped)
        if found:
            self.note("run", found[0].id)
        return found

    def merge(self, left, right):
        """Keep all of both."""
        return left + right

    def finish(self, partial):
        """Yield a line a sale and a total a shop."""
        shops = {}
        for sale in partial:
            shops[sale.shop] = shops.get(sale.shop, Decimal()) + sale.amount
            yield Line({"id": sale.id, "shop": sale.shop, "amount": str(sale.amount)})
        yield from (Total(shop, {"amount": str(amount)}) for shop, amount in sorted(shops.items()))


class SplitSales(Sales):
    """The same, in cuts by shop."""

    def split(self, partial, count):
        """Keep every sale, in the cut of its shop."""
        cuts = [[] for _ in range(count)]
        for sale in partial:
            cuts[shard_of(sale.shop, count)].append(sale)
        return cuts


class LinedSales(Sales):
    """The same, and a line of each accepted sale."""

    #: Bytes of its text, which hardly pack.
    text = 0

    def lines(self, sale, number, sold):
        """Yield it with its number."""
        text = "".join(sha256(f"{number}-{n}".encode()).hexdigest() for n in range(self.text // 64))
        yield Line({"number": number, "shop": sale.shop, "text": text})


class LongLinedSales(LinedSales):
    """One whose lines are too long for a message."""

    text = 64 * 1024


#: What a deployment can break: a failure of a known and permanent kind, and one of a kind that nobody knows.
PERMANENT = partial(RefusedError, "bad_sale", "this deployment cannot read it", "deploy the one before, then replay")
UNKNOWN = partial(ValueError, "this deployment has a bug")


class DyingError(Exception):
    """Stands for the end of the process."""
