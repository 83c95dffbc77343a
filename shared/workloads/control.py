"""Control sums: fields of transactions, added exactly, so that nothing can be lost between two stages unseen."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from operator import attrgetter
from typing import Any

from shared.payload.decimals import EXACT, ZERO, read_sum
from shared.pipeline.messages import Sums


def sums_of(transactions: Sequence[Any], fields: Iterable[str]) -> Sums:
    """Return the exact sum of each field; what may be added was looked at when the transactions were read."""
    with localcontext(EXACT):
        return {name: _text(sum(map(attrgetter(name), transactions), ZERO)) for name in fields}


def with_amounts(sums: Sums, more: Sequence[Mapping[str, Decimal] | None]) -> Sums | None:
    """Return the sums with some amounts more; amounts that are not known make the whole unknown."""
    known = [amounts for amounts in more if amounts is not None]
    if len(known) != len(more):
        return None
    with localcontext(EXACT):
        return {name: _text(sum((one[name] for one in known), Decimal(before))) for name, before in sums.items()}


def _text(value: Decimal) -> str:
    text = format(value, "f")
    # A workload's own default may be anything; what no message can carry ends here, where the workload is at fault.
    read_sum(text)
    return text
