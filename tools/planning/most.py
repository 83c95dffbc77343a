"""The most instances that an app may have at a time, and their price. Pure arithmetic: makes no request."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from shared.usage import Functions

HOUR: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """An app whose function groups all work at their maximum. Azure scales each of them by itself."""

    groups: int
    #: Instances of one group.
    maximum: int
    gigabytes: Decimal

    @property
    def instances(self) -> int:
        """The instances of all groups."""
        return self.groups * self.maximum

    def price_hour(self, prices: Functions) -> Decimal:
        """Price an hour in which all of them work."""
        return self.instances * self.gigabytes * HOUR * prices.gb_second
