"""Billing done again, naively and in another way: fractions, one unit of price at a time, for whole files."""

import random
from decimal import Decimal
from fractions import Fraction

#: The price lists in the words of a contract: up to so many units at so much; written down again, not imported.
CONTRACTS = {
    "basic": ("EUR", 2, [("100", "0.05"), ("1000", "0.035"), (None, "0.02")]),
    "standard": ("EUR", 2, [("1000", "0.0275"), ("10000", "0.0180"), (None, "0.0095")]),
    "premium": ("EUR", 2, [(None, "0.00815")]),
    "nippon": ("JPY", 0, [("500", "7.25"), (None, "4.5")]),
    "gulf": ("KWD", 3, [("250", "0.0125"), ("2500", "0.0095"), (None, "0.0061")]),
}


def price(plan, quantity):
    """Return what a quantity costs, in the currency's smallest unit, rounded half to even."""
    _currency, places, tiers = CONTRACTS[plan]
    cost, left, below = Fraction(0), Fraction(quantity), Fraction(0)
    for up_to, rate in tiers:
        room = left if up_to is None else min(left, Fraction(up_to) - below)
        cost += room * Fraction(rate)
        left -= room
        below = below if up_to is None else Fraction(up_to)
    return round(cost * 10**places)


def invoices(transactions):
    """Return items, quantity and smallest units owed by (account, currency)."""
    owed = {}
    for account, plan, quantity in transactions:
        key = account, CONTRACTS[plan][0]
        items, total, amount = owed.get(key, (0, Fraction(0), 0))
        owed[key] = items + 1, total + Fraction(quantity), amount + price(plan, quantity)
    return owed


def usage(count, seed=1, accounts=50):
    """Return transactions, quantities as text, with many that sit on a tier's end or on a rounding's half."""
    chance = random.Random(seed)
    ends = ["100", "1000", "10000", "250", "500", "2500", "100.000001", "999.999999", "0.000001", "1000000000"]
    return [
        (
            f"a-{chance.randrange(accounts)}",
            chance.choice(sorted(CONTRACTS)),
            chance.choice(ends)
            if chance.random() < 0.2
            else f"{Decimal(chance.randrange(1, 10**7)).scaleb(-chance.randrange(6)):f}",
        )
        for _ in range(count)
    ]
