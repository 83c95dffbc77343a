"""Histories with two faults, in memory: the second one may meet the recovery from the first."""

import random

from tests.faults.plan import MODES, Fault

#: The second fault comes this many requests after the first at most: near enough to meet what the first one caused.
FURTHEST = 40
SEED = 20261121


def histories(sites, number, seed=SEED):
    """Return so many different pairs, spread over the scenarios by their length."""
    chosen, names = random.Random(seed), list(sites)
    weights = [len(sites[name]) for name in names]
    made = {}
    while len(made) < number:
        name = chosen.choices(names, weights)[0]
        first = chosen.randint(1, len(sites[name]))
        second = first + chosen.randint(1, FURTHEST)
        made[name, (Fault(first, chosen.choice(MODES)), Fault(second, chosen.choice(MODES)))] = True
    # As they were drawn: a campaign that is cut short has met every scenario.
    return list(made)
