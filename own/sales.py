from operator import add
from msgspec import Struct
from sluice.workloads import Line


class Sale(Struct):
    units: int


class Sales:
    name, transaction, partial, sums = "sales", Sale, int, ("units",)
    combine, merge = sum, add

    def map(self, sale, number):
        return sale.units

    def finish(self, partial):
        yield Line({"units": partial})
