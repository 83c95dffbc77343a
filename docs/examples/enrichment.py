"""An example workload: each transaction waits for a service's answer, and the waits of a chunk overlap.

The service answers `GET <ENRICHMENT_URL>/<account>` with 200 and {"segment": "..."}, or with 404 for an unknown
account. Any other answer, and no answer, is an outage: the chunk is redelivered. Copy the file beside your app, add
aiohttp to its requirements, and name it in SLUICE_WORKLOADS.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, Self
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from sluice.errors import SettingsError
from sluice.workloads import EXACT, Line, Rejected, Total

SETTING: Final = "ENRICHMENT_URL"
#: Seconds for one answer.
TIMEOUT: Final = 10.0
_FOUND: Final = 200
_UNKNOWN: Final = 404


class Purchase(Struct, frozen=True):
    """One transaction."""

    account: str
    amount: Decimal


class Account(Struct, frozen=True):
    """The service's answer."""

    segment: str


class Segment(Struct, frozen=True):
    """The purchases of the accounts of one segment."""

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

    def __init__(self, service: str, timeout: float = TIMEOUT) -> None:
        if URL(service).scheme not in ("http", "https") or not URL(service).host:
            raise ValueError(f"{service!r} is no http or https URL, for instance http://127.0.0.1:8000/accounts")
        self._service, self._timeout = service.rstrip("/"), aiohttp.ClientTimeout(total=timeout)

    @classmethod
    def configured(cls, settings: Mapping[str, str]) -> Self:
        """Return it with the service that the setting names."""
        try:
            return cls(settings.get(SETTING, ""))
        except ValueError as error:
            raise SettingsError(f"{SETTING}: {error}") from error

    async def map(self, purchase: Purchase, _number: int) -> tuple[str, Decimal] | Rejected:
        """Return the account's segment with the amount."""
        # Quoted before it becomes a URL: an account with a slash stays one segment of the path.
        url = URL(f"{self._service}/{quote(purchase.account, safe='')}", encoded=True)
        try:
            async with aiohttp.request("GET", url, timeout=self._timeout) as response:
                status, body = response.status, await response.read()
        except aiohttp.ClientError as error:
            raise ConnectionError(f"the service does not answer: {type(error).__name__}") from error
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
