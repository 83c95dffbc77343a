"""`python -m tests.outside`: tries every hostile case, and writes down what came of each class of them.

`python -m tests.outside orders` tries those about orders alone, and `front-door` all others.
"""

import os
import platform
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.benchmarks import document
from tests.outside import campaign, order_campaign, order_checker, rights
from tests.outside.people import running
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "security.md"
MAKER = "python -m tests.outside"
#: What the delivery that decides a case may take.
MOST_MS = 2_000


def main():
    """Run everything, or what is named; the status says whether anything was found that should not be."""
    parts = {"front-door": front_door, "orders": orders}
    return max(parts[name]() for name in sys.argv[1:] or parts)


def orders():
    """Try all that may be sent about orders of others."""
    with tempfile.TemporaryDirectory() as folder, order_campaign.everybody(Path(folder)) as everybody:
        everybody.open()
        record = everybody.run()
    problems = list(order_checker.breaches(record))
    table = markdown(("who", "requests or messages", "answered or parked as"), order_campaign.rows(record))
    said = (
        f"{len(record['asked'])} requests and {len(record['dropped'])} messages in one go, about {len(record['kept'])} things "
        f"that must stay as they are: {len(problems)} breaches by the checker."
    )
    sys.stdout.write(f"{table}\n\n{said}\n")
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    document.write(DOCUMENT, "tried-orders", f"{table}\n\n{said}", maker=MAKER)
    return 1 if problems else 0


def front_door():
    """Drop every hostile case of a publisher."""
    with running() as people:
        tried = Counter(rights.answer(call) for _, _, call in rights.operations(people.publisher))
        came = campaign.run(people, campaign.all_cases())
    rows = [
        (family, f"{count:,}", ", ".join(f"`{reason}`" for reason in reasons), f"{slowest:,} ms")
        for family, count, reasons, slowest in campaign.families(came)
    ]
    slow = [name for name, took in came.took.items() if took > MOST_MS]
    said = (
        f"{len(came.cases):,} cases in one go at the deployed concurrency: {len(came.problems)} ended otherwise than "
        f"written, {len(came.failed)} were tried again after a failure, {len(slow)} took a delivery of more than {MOST_MS / 1000:g} s. "
        f"Honest jobs before, among and after them are complete by the independent checker. The one process of the app "
        f"had {came.peak_mib} MiB at most. Of {tried.total()} operations beyond a publisher's rights "
        f"{tried[rights.REFUSED]} were refused. Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores at a load of {os.getloadavg()[0]:.0f}, what else the machine did included."
    )
    table = markdown(("class", "cases", "reasons", "slowest delivery"), rows)
    sys.stdout.write(f"{table}\n\n{said}\n")
    sys.stdout.writelines(f"{problem}\n" for problem in [*came.problems, *slow])
    document.write(DOCUMENT, "front-door", f"{table}\n\n{said}", maker=MAKER)
    return 1 if came.problems or tried.total() != tried[rights.REFUSED] else 0


if __name__ == "__main__":
    sys.exit(main())
