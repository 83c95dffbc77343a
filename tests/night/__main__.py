"""`python -m tests.night`: everything at once, for a night by a seed, at deployed settings; judged from outside.

python -m tests.night --seed 7 --minutes 10
python -m tests.night --nights 20 --minutes 15     (seeds from 1 on; writes docs/appendix/night.md)
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.night.bank import Bank
from tests.night.campaign import ROOMS, Night
from tests.night.looking import Looking
from tests.night.stack import running


def one_night(seed, minutes, size):
    """Run one night. Return its figures and its breaches."""
    with tempfile.TemporaryDirectory(prefix="sluice-night-") as name, Bank() as bank:
        folder = Path(name)
        with (
            running(folder, bank=bank.address, rooms=ROOMS) as stack,
            Looking(stack.settings, folder) as one,
            Looking(stack.settings, folder) as other,
        ):
            night = Night(stack, bank, (one, other), folder, seed, minutes)
            found = night.run(size)
            return night.figures(), found


def main(arguments=None):
    """Run the nights that are wanted. Return 1 if any had a breach."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first night")
    parser.add_argument("--nights", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10, help="in which things befall the installation")
    parser.add_argument("--size", type=int, default=20_000, help="transactions of a large job")
    options = parser.parse_args(arguments)
    is_bad = False
    for seed in range(options.seed, options.seed + options.nights):
        began = time.monotonic()
        figures, found = one_night(seed, options.minutes, options.size)
        is_bad = is_bad or bool(found)
        sys.stdout.write(f"night {seed}: {time.monotonic() - began:.0f} s, {len(found)} breaches\n")
        for what, value in figures.items():
            sys.stdout.write(f"  {what}: {value}\n")
        for breach in found:
            sys.stdout.write(f"  BREACH {breach}\n")
        sys.stdout.flush()
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
