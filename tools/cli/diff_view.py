"""How `sluice jobs diff` shows two runs of a job: lines for people, one JSON document for programs."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from shared.grammar import texts
from shared.operating import AccountChange, RunDiff, Sides
from tools.cli.rerun import (
    SHOWN,
    account_document,
    describe_account,
    describe_counts,
    describe_sides,
    portions_document,
)
from tools.cli.screen import clean


def diff_in_words(diff: RunDiff, changes: Iterable[AccountChange]) -> list[str]:
    """Return the findings for a person. The changes are read to their end."""
    first = [change for number, change in enumerate(changes) if number < SHOWN]
    ways = ", ".join(
        f"{way} {describe_sides(Sides(sides.before.items, sides.now.items))}" for way, sides in diff.portions.items()
    )
    before, now = diff.revisions
    lines = [f"job {diff.job}, revision {before} -> {now}: {ways}"]
    if not any(diff.rows):
        lines.append("neither has totals: compare their output lines")
    lines += [*describe_counts(diff.totals), *(f"  {describe_account(one)}" for one in first)]
    if diff.totals.changed > SHOWN:
        lines.append("  …  all: --json")
    lines.append("status 1: they differ" if diff.differs else "nothing differs")
    return [clean(line).plain for line in lines]


def list_diff_pieces(diff: RunDiff, changes: Iterable[AccountChange]) -> Iterator[str]:
    """Yield the document in pieces: the accounts may be more than memory holds."""
    head: dict[str, Any] = {
        "job": diff.job,
        "before": diff.revisions.before,
        "now": diff.revisions.now,
        **{way: portions_document(sides) for way, sides in diff.portions.items()},
    }
    yield json.dumps(head)[:-1] + ', "accounts": ['
    for number, change in enumerate(changes):
        yield (", " if number else "") + json.dumps(account_document(change))
    totals = diff.totals
    tail = {
        "equal": totals.equal,
        "differ": totals.differ,
        "new": totals.new,
        "gone": totals.gone,
        "amounts": texts(totals.amounts),
        "differs": diff.differs,
    }
    yield "], " + json.dumps(tail)[1:]
