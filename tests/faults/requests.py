"""The requests of every scenario without a fault, written down: `python -m tests.faults.requests`.

A change of the code that is none of behaviour sends the same requests, in the same order.
"""

import json
from itertools import zip_longest
from pathlib import Path

from tests.faults import campaign

FILE = Path(__file__).with_name("requests.json")
#: Runs that may differ from the list: threads beside the others may change places with them now and then.
ATTEMPTS = 3


def lines_of(sites):
    """Return the requests of each scenario, one line each: the stage, the method or the act on the bus, the entity."""
    return {name: [f"{stage} {site}" for stage, site in requests] for name, requests in sites.items()}


def sites_of(lines):
    """Return the requests of each scenario from its lines: the reverse of `lines_of`."""
    return {name: [tuple(line.split(" ", 1)) for line in found] for name, found in lines.items()}


def differences(written, sites, again=campaign.recorded):
    """Return what differs for each scenario, as the first request that does; one that differs is recorded once more."""
    found = lines_of(sites)
    for _ in range(ATTEMPTS - 1):
        differing = [name for name in found if found[name] != written.get(name)]
        if differing:
            found |= lines_of(again(differing))
    names = [name for name in sorted({*written, *found}) if written.get(name) != found.get(name)]
    return [_difference(name, written.get(name, []), found.get(name, [])) for name in names]


def _difference(name, before, now):
    pairs = enumerate(zip_longest(before, now, fillvalue="nothing"), 1)
    number, (was, is_now) = next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), (0, ("", "")))
    return f"{name}: request {number} of {len(before)} was {was!r}, is {is_now!r} of {len(now)}"


def read():
    """Return the requests that are written down."""
    return json.loads(FILE.read_text())


def main():
    """Write them down."""
    sites = campaign.recorded(list(campaign.BY_NAME))
    FILE.write_text(json.dumps(lines_of(sites), indent=1) + "\n")


if __name__ == "__main__":
    main()
