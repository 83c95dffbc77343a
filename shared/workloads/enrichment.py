"""Enrichment: each transaction waits for what a service knows of its account; the waiting overlaps.

The service is asked `GET <SLUICE_ENRICHMENT_URL>/<account>` and answers 200 with {"segment": "..."}, or 404 for an account
that it does not know. Whatever else it answers, or does not, passes: the chunk is delivered again.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, Self

import msgspec
from msgspec import Struct

from shared.payload.decimals import EXACT
from shared.settings import SettingsError
from shared.workloads import Line, Rejected, Total
from shared.workloads.http_get import Service

URL: Final = "SLUICE_ENRICHMENT_URL"
#: Seconds for one answer.
TIMEOUT: Final = 10.0
_FOUND: Final = 200
_UNKNOWN: Final = 404


class Purchase(Struct, frozen=True):
    """One transaction."""

    account: str
    amount: Decimal


class Account(Struct, frozen=True):
    """What the service answers."""

    segment: str


class Segment(Struct, frozen=True):
    """What was bought by the accounts of one segment."""

    items: int
    amount: Decimal


Segments = dict[str, Segment]


class Enrichment:
    """The workload `enrichment`: purchases by segment, which only the service knows."""

    name = "enrichment"
    transaction = Purchase
    partial = Segments
    sums = ("amount",)
    #: A chunk of 1,000 waits for 32 answers at a time.
    concurrency = 32

    def __init__(self, service: Service) -> None:
        self._service = service

    @classmethod
    def configured(cls, settings: Mapping[str, str]) -> Self:
        """Return it with the service that the setting names."""
        try:
            return cls(Service.at(settings.get(URL, ""), TIMEOUT))
        except ValueError as error:
            raise SettingsError(f"{URL}: {error}") from error

    async def map(self, purchase: Purchase, _number: int) -> tuple[str, Decimal] | Rejected:
        """Return the account's segment with the amount."""
        status, body = await self._service.get(purchase.account)
        if status == _UNKNOWN:
            return Rejected("unknown_account", f"the service does not know account {purchase.account[:100]!r}")
        if status != _FOUND:
            raise ConnectionError(f"the service answers {status}")
        return msgspec.json.decode(body, type=Account).segment, purchase.amount

    def combine(self, mapped: Sequence[tuple[str, Decimal]]) -> Segments:
        """Add the purchases of a chunk up."""
        segments: Segments = {}
        for segment, amount in mapped:
            known = segments.get(segment)
            segments[segment] = _added(known, Segment(1, amount))
        return segments

    def merge(self, left: Segments, right: Segments) -> Segments:
        """Add the right segments to the left ones."""
        for name, segment in right.items():
            left[name] = _added(left.get(name), segment)
        return left

    def finish(self, partial: Segments) -> Iterator[Total | Line]:
        """Yield each segment as a row and as a line."""
        for name, segment in sorted(partial.items()):
            content: dict[str, str | int] = {"items": segment.items, "amount": format(segment.amount, "f")}
            yield Line({"segment": name, **content})
            yield Total(name, content)


def _added(known: Segment | None, more: Segment) -> Segment:
    if known is None:
        return more
    return Segment(known.items + more.items, EXACT.add(known.amount, more.amount))
