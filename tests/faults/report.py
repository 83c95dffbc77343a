"""What the campaigns found, as tables for docs/appendix/faults.md."""

import platform
from collections import Counter

from tests.benchmarks import document
from tests.faults.sightings import STATES
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "faults.md"


def single_faults(tallies, took, reached=STATES):
    """Return the tables of single faults: one row a scenario, and the states that were reached."""
    header = ("scenario", "requests", "reached", "sites", "runs", "breaches")
    rows = [_row(name, tally) for name, tally in tallies.items()]
    whole = _added(rows, len(header))
    met, known = (_united(tally.sites for tally in tallies.values()), _united(t.recorded for t in tallies.values()))
    whole[2] = f"{len(met)} of {len(known)}"
    table = markdown(header, [*rows, ("**all**", *(f"**{number}**" for number in whole))])
    return "\n\n".join([table, _said(tallies, took), states(tallies, reached)])


def _row(name, tally):
    counts = (tally.requests, len(tally.reached), len(tally.sites), tally.runs, len(tally.breaches))
    return (name, *(f"{count:,}" for count in counts))


def two_faults(tallies, took):
    """Return the tables of histories with two faults."""
    header = ("scenario", "requests", "histories", "both faults happened", "breaches")
    rows = [
        (name, *(f"{count:,}" for count in (tally.requests, tally.runs, tally.whole, len(tally.breaches))))
        for name, tally in tallies.items()
    ]
    table = markdown(header, [*rows, ("**all**", *(f"**{number}**" for number in _added(rows, len(header))))])
    return "\n\n".join([table, _said(tallies, took), states(tallies)])


def _added(rows, columns):
    return [f"{sum(int(row[place].replace(',', '')) for row in rows):,}" for place in range(1, columns)]


def _united(sets):
    return set().union(*sets)


def _said(tallies, took):
    missed = sum(len(tally.missed) for tally in tallies.values())
    return (
        f"{took:.0f} s, Python {platform.python_version()}. "
        f"{missed:,} more runs are not counted: their fault did not happen, or met another request than the recorded one."
    )


def states(tallies, names=None):
    """Return in how many runs each state was reached."""
    seen = sum((tally.seen for tally in tallies.values()), Counter())
    return markdown(("state", "runs that reached it"), [(name, f"{seen[name]:,}") for name in names or sorted(seen)])


def unreached(tallies, names):
    """Return the states that no run reached."""
    return [name for name in names if not any(tally.seen[name] for tally in tallies.values())]


def mutants(found):
    """Return the table of seeded mistakes."""
    return markdown(("mistake", "found by", "the check says", "shows only without"), found)


def write(tables):
    """Put the tables into their places in docs/appendix/faults.md."""
    for name, table in tables.items():
        document.write(DOCUMENT, name, table, maker="make faults")
