"""Histories with two faults, in memory: the second one may meet the recovery from the first."""

import random

from tests.faults import campaign
from tests.faults.plan import MODES, Fault

#: The second fault comes this many requests after the first at most: near enough to meet what the first one caused.
FURTHEST = 40
SEED = 20261121


def histories(sites, number, seed=SEED):
    """Return so many different pairs, spread over the scenarios by their length."""
    chosen, names = random.Random(seed), list(sites)
    weights = [len(sites[name]) for name in names]
    made = set()
    while len(made) < number:
        name = chosen.choices(names, weights)[0]
        first = chosen.randint(1, len(sites[name]))
        second = first + chosen.randint(1, FURTHEST)
        made.add((name, (Fault(first, chosen.choice(MODES)), Fault(second, chosen.choice(MODES)))))
    return sorted(made, key=str)


def campaign_of(number, shown):
    """Run so many histories and return a row a scenario, and how many breaches there are."""
    sites = campaign.recorded(list(campaign.BY_NAME))
    runs = {name: [0, 0, 0] for name in sites}
    for (name, faults), outcome in shown(campaign.outcomes(histories(sites, number))):
        counts = runs[name]
        counts[0] += 1
        counts[1] += len(outcome.fired) == len(faults)
        counts[2] += bool(outcome.breaches)
    rows = [(name, str(len(sites[name])), *(f"{count:,}" for count in counts)) for name, counts in runs.items()]
    whole = [sum(counts[place] for counts in runs.values()) for place in range(3)]
    total = ("**all**", "", *(f"**{count:,}**" for count in whole))
    return [*rows, total], whole[2]
