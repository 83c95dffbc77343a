"""Billing: usage is priced by the tiers of its plan and added up to one invoice per account and currency.

Each transaction is priced by itself and rounded once, half to even, to the smallest unit of the plan's currency. An
invoice is the exact sum of rounded charges: a customer who adds up the lines gets the same amount.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation, Overflow, localcontext
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct, field

from shared.workloads.registry import shard_of
from shared.workloads.workload import Line, Rejected, Total

#: The smallest unit of each currency, to which a charge is rounded.
UNITS: Final = MappingProxyType({"EUR": Decimal("0.01"), "JPY": Decimal(1), "KWD": Decimal("0.001")})
#: The upper bound of a quantity: a larger one is taken for a mistaken unit.
MOST_QUANTITY: Final = Decimal(1_000_000_000)
LONGEST_ACCOUNT: Final = 200
_ZERO: Final = Decimal(0)
#: A quantity here has at most 28 digits, by the bounds of control sums and of quantities. So its product with a rate
#: is exact, and only the rounding to a currency's unit loses digits.
_PRICING: Final = Context(prec=40, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation, Overflow])
_ADDING: Final = Context(prec=60, traps=[Inexact, InvalidOperation, Overflow])


@dataclass(frozen=True, slots=True)
class Tier:
    """The rate per unit, for the units up to a number. None: for all further units."""

    up_to: Decimal | None
    rate: Decimal


class Tariff:
    """A price list: each unit costs the rate of the tier it lies in, the first units that of the first tier."""

    def __init__(self, currency: str, *tiers: tuple[str | None, str]) -> None:
        self.currency, self.unit = currency, UNITS[currency]
        self.tiers = tuple(Tier(None if up_to is None else Decimal(up_to), Decimal(rate)) for up_to, rate in tiers)
        self.ends = [tier.up_to for tier in self.tiers if tier.up_to is not None]
        if len(self.ends) != len(self.tiers) - 1 or self.ends != sorted(set(self.ends)):
            raise ValueError(f"tier limits must increase and the last must be None, for all further units; got {tiers}")
        #: Per tier its rate, and the correction by the tiers below it: price = quantity * rate + correction.
        self.lines = list(self._lines())

    def _lines(self) -> Iterator[tuple[Decimal, Decimal]]:
        base, previous, below = _ZERO, _ZERO, _ZERO
        for tier in self.tiers:
            base += (previous - tier.rate) * below
            yield tier.rate, base
            previous, below = tier.rate, tier.up_to or below


PLANS: Final[Mapping[str, Tariff]] = MappingProxyType(
    {
        "basic": Tariff("EUR", ("100", "0.05"), ("1000", "0.035"), (None, "0.02")),
        "standard": Tariff("EUR", ("1000", "0.0275"), ("10000", "0.0180"), (None, "0.0095")),
        "premium": Tariff("EUR", (None, "0.00815")),
        "nippon": Tariff("JPY", ("500", "7.25"), (None, "4.5")),
        "gulf": Tariff("KWD", ("250", "0.0125"), ("2500", "0.0095"), (None, "0.0061")),
    }
)


class UsageRecord(Struct, frozen=True, gc=False):
    """One transaction: the quantity that an account used on a plan."""

    account: str
    plan: str
    quantity: Decimal


class Invoice(Struct):
    """The charges of an account in one currency, added up."""

    items: int
    quantity: Decimal
    amount: Decimal


class Invoices(Struct):
    """A partial: invoices by currency and account."""

    by_currency: dict[str, dict[str, Invoice]] = field(default_factory=dict)


#: Account, currency, quantity and amount.
UsageCharge = tuple[str, str, Decimal, Decimal]


class Billing:
    """The workload `billing`."""

    name = "billing"
    transaction = UsageRecord
    partial = Invoices
    sums = ("quantity",)

    def __init__(self, plans: Mapping[str, Tariff] = PLANS) -> None:
        self._plans = plans

    @classmethod
    def configured(cls, _settings: Mapping[str, str]) -> Self:
        """Return the workload with the price lists above."""
        return cls()

    def map(self, usage: UsageRecord, _number: int) -> UsageCharge | Rejected:
        """Return the charge for one transaction."""
        with localcontext(_PRICING):
            return self._charge(usage)

    def map_many(self, usages: Sequence[UsageRecord], _numbers: Sequence[int]) -> list[UsageCharge | Rejected]:
        """Return the charges for a chunk, priced in one decimal context: entering a context costs as much as one price."""
        with localcontext(_PRICING):
            return [self._charge(usage) for usage in usages]

    def combine(self, charges: Sequence[UsageCharge]) -> Invoices:
        """Return the invoices of a chunk."""
        by_currency: dict[str, dict[str, Invoice]] = {}
        with localcontext(_ADDING):
            for account, currency, quantity, amount in charges:
                invoices = by_currency.setdefault(currency, {})
                if (invoice := invoices.get(account)) is None:
                    invoices[account] = Invoice(1, quantity, amount)
                else:
                    invoice.items += 1
                    invoice.quantity += quantity
                    invoice.amount += amount
        return Invoices(by_currency)

    def merge(self, left: Invoices, right: Invoices) -> Invoices:
        """Add the right invoices to the left ones."""
        with localcontext(_ADDING):
            for currency, invoices in right.by_currency.items():
                merged = left.by_currency.setdefault(currency, {})
                for account, invoice in invoices.items():
                    known = merged.setdefault(account, invoice)
                    if known is not invoice:
                        known.items += invoice.items
                        known.quantity += invoice.quantity
                        known.amount += invoice.amount
        return left

    def split(self, partial: Invoices, count: int) -> list[Invoices]:
        """Return the invoices in so many cuts, by account."""
        cuts = [Invoices() for _ in range(count)]
        for currency, invoices in partial.by_currency.items():
            for account, invoice in invoices.items():
                cuts[shard_of(account, count)].by_currency.setdefault(currency, {})[account] = invoice
        return cuts

    def finish(self, partial: Invoices) -> Iterator[Total | Line]:
        """Yield each invoice as a line, and each account's row with its amounts in every currency."""
        currencies = sorted(partial.by_currency.items())
        for account in sorted({account for _, invoices in currencies for account in invoices}):
            owed = [(currency, invoices[account]) for currency, invoices in currencies if account in invoices]
            for currency, invoice in owed:
                yield Line({"account": account, "currency": currency, **_texts(invoice)})
            yield Total(account, _row(owed))

    def _charge(self, usage: UsageRecord) -> UsageCharge | Rejected:
        plan = self._plans.get(usage.plan)
        if plan is None:
            return Rejected("unknown_plan", f"the plan is {usage.plan[:100]!r}")
        if not 0 < len(usage.account) <= LONGEST_ACCOUNT:
            return Rejected(
                "bad_account", f"the account has {len(usage.account)} characters, not 1 to {LONGEST_ACCOUNT}"
            )
        quantity = usage.quantity
        # Its digits are bounded already: control sums are checked before `map`.
        if not _ZERO < quantity <= MOST_QUANTITY:
            return Rejected("bad_quantity", f"the quantity is not above 0 and at most {MOST_QUANTITY}")
        rate, base = plan.lines[bisect_left(plan.ends, quantity)]
        return usage.account, plan.currency, quantity, (quantity * rate + base).quantize(plan.unit)


def _texts(invoice: Invoice) -> dict[str, str | int]:
    return {
        "items": invoice.items,
        "quantity": format(invoice.quantity, "f"),
        "amount": format(invoice.amount, "f"),
    }


def _row(owed: Sequence[tuple[str, Invoice]]) -> dict[str, str | int]:
    amounts: dict[str, str | int] = {f"amount_{currency}": format(invoice.amount, "f") for currency, invoice in owed}
    return {"items": sum(invoice.items for _, invoice in owed), **amounts}
