"""`python -m tests.outside`: drops every hostile case, and writes down what came of each class of them."""

import os
import platform
import sys
from collections import Counter

from local.docs import markdown
from local.paths import ROOT
from tests.benchmarks import document
from tests.outside import campaign, rights
from tests.outside.people import running

DOCUMENT = ROOT / "docs" / "security.md"
MAKER = "python -m tests.outside"
#: What the delivery that decides a case may take.
MOST_MS = 2_000


def main():
    """Run everything; the status says whether anything was found that should not be."""
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
        f"written, {len(came.delivered_again())} took more than one delivery, {len(slow)} a delivery of more than {MOST_MS / 1000:g} s. "
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
