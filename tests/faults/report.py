"""What the campaigns found, as tables for docs/faults.md."""

import re
from collections import Counter

from local.docs import markdown
from local.paths import ROOT
from tests.faults.plan import MODES

DOCUMENT = ROOT / "docs" / "faults.md"


def crash_points(tallies):
    """Return the table of single faults, one row a scenario."""
    header = ("scenario", "requests", "reached", "sites", *(f"`{mode}`" for mode in MODES), "runs", "breaches")
    rows = [_row(name, tally) for name, tally in tallies.items()]
    whole = [sum(int(row[place].replace(",", "")) for row in rows) for place in range(1, len(header))]
    whole[2] = len({site for tally in tallies.values() for site in tally.sites})
    return markdown(header, [*rows, ("**all**", *(f"**{number:,}**" for number in whole))])


def _row(name, tally):
    counts = [tally.requests, len(tally.reached), len(tally.sites), *(tally.modes[mode] for mode in MODES)]
    return (name, *(f"{count:,}" for count in [*counts, tally.runs, len(tally.breaches)]))


def stages(tallies):
    """Return the table of request sites by stage."""
    sites = {site for tally in tallies.values() for site in tally.sites}
    counts = Counter(stage for stage, _ in sites)
    return markdown(("stage", "sites"), [(stage, str(count)) for stage, count in sorted(counts.items())])


def mutants(found):
    """Return the table of seeded mistakes."""
    return markdown(("mistake", "found by", "the check says"), found)


def pairs(rows):
    """Return the table of histories with two faults."""
    return markdown(("scenario", "requests", "histories", "both faults happened", "breaches"), rows)


def write(**tables):
    """Put the tables between their marks."""
    text = DOCUMENT.read_text()
    for name, table in tables.items():
        begin, end = f"<!-- made by `make faults`: {name.replace('_', '-')} -->", "<!-- end -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text, count = pattern.subn(lambda _, begin=begin, end=end, table=table: f"{begin}\n\n{table}\n\n{end}", text)
        if count != 1:
            raise ValueError(f"{DOCUMENT.name} has {count} places for {name}, expected 1")
    DOCUMENT.write_text(text)
