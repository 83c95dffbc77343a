"""Workloads that each break one promise, in the methods that they have beside those of `Shops`."""

# ruff: noqa: D101, D102 - a class is named after its fault, and the contract says what the methods do

import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from msgspec import Struct

from shared.workloads import Line, Rejected, Total, shard_of


class Sale(Struct):
    shop: str
    amount: Decimal


Amounts = dict[str, Decimal]


class Unsplit:
    """Keeps every promise: the amount of each shop."""

    name, transaction, partial, sums = "shops", Sale, Amounts, ("amount",)

    def map(self, sale: Sale, number: int) -> Any:
        return (sale.shop, sale.amount) if sale.amount > 0 else Rejected("bad_amount")

    def combine(self, mapped: Iterable[tuple[str, Decimal]]) -> Any:
        partial: dict[str, Any] = {}
        for shop, amount in mapped:
            partial[shop] = partial.get(shop, 0) + amount
        return partial

    def merge(self, left: Any, right: Any) -> Any:
        return {
            shop: left.get(shop, 0) + right.get(shop, 0) for shop in (*left, *(one for one in right if one not in left))
        }

    def finish(self, partial: Any) -> Iterable[Any]:
        for shop, amount in sorted(partial.items()):
            yield Line({"shop": shop})
            yield Total(shop, {"amount": str(amount)})


class Shops(Unsplit):
    """Keeps them too, with shards."""

    def split(self, partial: Any, count: int) -> list[Any]:
        cuts: list[dict[str, Any]] = [{} for _ in range(count)]
        for shop, amount in partial.items():
            cuts[self.place(shop, count)][shop] = amount
        return cuts

    def place(self, shop: str, count: int) -> int:
        return shard_of(shop, count)


class FloatSums(Shops):
    partial = dict[str, float]

    def map(self, sale, number):
        return sale.shop, float(sale.amount)


class SetOrder(Shops):
    def combine(self, mapped):
        added = super().combine(mapped)
        return {shop: added[shop] for shop in set(added)}


class StateKept(Shops):
    def __init__(self):
        self.seen = 0

    def map(self, sale, number):
        self.seen += 1
        return sale.shop, Decimal(self.seen)


class HashOfText(Shops):
    def map(self, sale, number):
        return f"bucket-{hash(sale.shop) % 1000}", sale.amount


class Lossy(Shops):
    """Whole numbers as keys come back as text."""

    partial = dict

    def map(self, sale, number):
        return len(sale.shop), int(sale.amount)

    def place(self, shop, count):
        return shard_of(str(shop), count)

    def finish(self, partial):
        for length, amount in sorted(partial.items()):
            yield Total(str(length), {"amount": str(amount)})


class WrongShard(Shops):
    def place(self, shop, count):
        return len(shop) % count


class LostInSplit(Shops):
    def split(self, partial, count):
        return super().split({shop: partial[shop] for shop in [*partial][1:]}, count)


class SlowMap(Shops):
    """Takes a sixteenth of a second for each transaction, by the clock of the test."""

    def __init__(self, clock):
        self.clock = clock

    def map(self, sale, number):
        self.clock.now += 0.0625
        return super().map(sale, number)

    def __deepcopy__(self, memo):
        return type(self)(self.clock)


class ChangesTransaction(Shops):
    def map(self, sale, number):
        sale.amount = sale.amount * 2
        return sale.shop, sale.amount


class ChangesValues(Shops):
    """Empties each value that it has added."""

    def map(self, sale, number):
        return {sale.shop: sale.amount}

    def combine(self, mapped):
        partial: dict[str, Any] = {}
        for value in mapped:
            for shop, amount in value.items():
                partial[shop] = partial.get(shop, 0) + amount
            value.clear()
        return partial


class NotAssociative(Shops):
    def merge(self, left, right):
        both = super().merge(left, right)
        return {shop: amount if shop not in left or shop not in right else amount / 2 for shop, amount in both.items()}


class EmptyCounts(Shops):
    """A chunk without a sale has a row nevertheless."""

    def combine(self, mapped):
        return super().combine(mapped) or {"none": Decimal(1)}


class RandomNumbers(Shops):
    def map(self, sale, number):
        return sale.shop, Decimal(random.randrange(10**12))


class TwoTotals(Unsplit):
    def finish(self, partial):
        for shop, amount in sorted(partial.items()):
            yield Total(shop[:1], {"amount": str(amount)})


class Raises(Shops):
    def map(self, sale, number):
        if sale.amount < 0:
            raise ValueError("no negative amounts")
        return super().map(sale, number)


class NotANumber(Unsplit):
    partial = dict[str, float]

    def map(self, sale, number):
        return sale.shop, float("nan")


class NoJson(Unsplit):
    partial = object

    def combine(self, mapped):
        return object()


class MergeRaises(Unsplit):
    def merge(self, left, right):
        return left.add(right)


class FinishRaises(Unsplit):
    def finish(self, partial):
        yield Line({"share": 1 / len(partial.get("nowhere", ""))})


#: Each with the promise that it breaks.
FAULTS = {
    FloatSums: "associative",
    SetOrder: "process",
    StateKept: "state",
    HashOfText: "process",
    Lossy: "json",
    WrongShard: "shard",
    LostInSplit: "whole",
    ChangesTransaction: "input",
    ChangesValues: "values",
    NotAssociative: "associative",
    EmptyCounts: "nothing",
    RandomNumbers: "same",
    TwoTotals: "finish",
    Raises: "runs",
    NotANumber: "json",
    NoJson: "json",
    FinishRaises: "finish",
}
