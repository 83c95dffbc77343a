"""`python -m tests.night`: everything at once, for a night by a seed, at deployed settings; judged from outside.

python -m tests.night --seed 7 --minutes 10
python -m tests.night --nights 20 --minutes 15     (seeds from 1 on; writes docs/appendix/night.md)
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import document
from tests.night.bank import Bank
from tests.night.campaign import ROOMS, Night
from tests.night.looking import Looking
from tests.night.stack import running
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "night.md"


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
    """Run the nights that are wanted, and write them into the page. Return 1 if any had a breach."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first night")
    parser.add_argument("--nights", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10, help="in which things befall the installation")
    parser.add_argument("--size", type=int, default=20_000, help="transactions of a large job")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    options = parser.parse_args(arguments)
    rows, breaches = [], []
    for seed in range(options.seed, options.seed + options.nights):
        began = time.monotonic()
        figures, found = one_night(seed, options.minutes, options.size)
        breaches += [f"night {seed}: {breach}" for breach in found]
        rows.append((str(seed), f"{time.monotonic() - began:.0f} s", *figures.values(), str(len(found))))
        sys.stdout.write(f"night {seed}: {rows[-1][1]}, {len(found)} breaches\n")
        sys.stdout.writelines(f"  {what}: {value}\n" for what, value in figures.items())
        sys.stdout.writelines(f"  BREACH {breach}\n" for breach in found)
        sys.stdout.flush()
    if not options.dry:
        head = ("seed", "took", *figures, "breaches")
        said = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores; load {os.getloadavg()[2]:.0f}."
        listed = "".join(f"\n- {breach}" for breach in breaches)
        document.write(DOCUMENT, "night", f"{markdown(head, rows)}\n\n{said}{listed}", maker="python -m tests.night")
    return int(bool(breaches))


if __name__ == "__main__":
    sys.exit(main())
