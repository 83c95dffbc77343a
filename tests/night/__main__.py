"""`python -m tests.night`: everything at once, for a night by a seed, at deployed settings; judged from outside.

python -m tests.night --seed 7 --minutes 10
python -m tests.night --nights 20 --minutes 15     (seeds from 1 on)

Each night is a row of docs/appendix/night.md, in place of the row of its seed; the rows of other nights stay.
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

DOCUMENT, PLACE, MAKER = ROOT / "docs" / "appendix" / "night.md", "night", "python -m tests.night"


def one_night(seed, minutes, size):
    """Run one night. Return its figures and its breaches."""
    with tempfile.TemporaryDirectory(prefix="sluice-night-") as name, Bank() as bank:
        folder = Path(name)
        with (
            running(folder, bank=bank.address, rooms=ROOMS) as stack,
            Looking(stack.project, stack.settings, folder) as one,
            Looking(stack.project, stack.settings, folder) as other,
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
    failed = 0
    for seed in range(options.seed, options.seed + options.nights):
        began = time.monotonic()
        figures, found = one_night(seed, options.minutes, options.size)
        took = time.monotonic() - began
        figures = {
            "seed": str(seed),
            "took": f"{took:.0f} s",
            "minutes, size": f"{options.minutes:g}, {options.size:,}",
            "load": f"{os.getloadavg()[2]:.0f}",
        } | figures
        figures["breaches"] = str(len(found))
        failed += bool(found)
        sys.stdout.writelines(f"{what}: {value}\n" for what, value in figures.items())
        sys.stdout.writelines(f"  BREACH {breach}\n" for breach in found)
        sys.stdout.flush()
        if not options.dry:
            # At once: what ends this process later takes no night with it.
            said = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores."
            before = document.read(DOCUMENT, PLACE, maker=MAKER)
            document.write(DOCUMENT, PLACE, accumulated(before, figures, found, said), maker=MAKER)
    return int(failed > 0)


def accumulated(before, figures, found, said):
    """Return the table with this night in it, the sum of all, and each breach of each night in the table."""
    head, seed = list(figures), figures["seed"]
    lines = [line.strip("| ").split(" | ") for line in before.splitlines() if line.startswith("|")]
    # Nights with other columns were others.
    rows = {row[0]: row for row in lines[2:] if lines[0] == head} | {seed: list(figures.values())}
    rows = [rows[one] for one in sorted(rows, key=int)]
    breaches = [line for line in before.splitlines() if line.startswith("- night ")] if len(rows) > 1 else []
    breaches = [line for line in breaches if not line.startswith(f"- night {seed}:")]
    breaches += [f"- night {seed}: {breach}" for breach in found]
    hours = sum(float(row[head.index("took")].removesuffix(" s")) for row in rows) / 3600
    total = f"{len(rows)} nights, {hours:.1f} hours in all. {said}"
    return "\n\n".join([markdown(head, rows), total, *(["\n".join(breaches)] if breaches else [])])


if __name__ == "__main__":
    sys.exit(main())
