"""A workload with a fault, until a file says that the mended one is deployed."""

import os
import time
from pathlib import Path

import msgspec

from shared.workloads.workload import Total

#: The mended one asks a slow service, so that a person is in time to stop a replay between two waves.
ANSWERS_AFTER = 2.0


class Parcel(msgspec.Struct, frozen=True):
    """A transaction."""

    town: str


class Mendable:
    """Counts parcels; for one town it has no rate before it is mended."""

    name, transaction, partial, sums = "mendable", Parcel, int, ()

    def map(self, parcel, _number):
        """Look the rate up."""
        if parcel.town == "Oz":
            if not Path(os.environ["MENDED"]).exists():
                rates = {}
                return rates[parcel.town]
            time.sleep(ANSWERS_AFTER)
        return 1

    def combine(self, mapped):
        """Count."""
        return sum(mapped)

    def merge(self, left, right):
        """Add."""
        return left + right

    def finish(self, partial):
        """Yield the count."""
        yield Total("parcels", {"count": partial})
