"""The table of the forty mistakes, before and after `sluice doctor` compared properties: `python -m tests.cli.mistakes` writes it.

The words are those that tests/cli/test_mistakes.py finds in the command's output.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.cli import test_mistakes as seeded
from tools.local.docs import markdown
from tools.local.paths import ROOT

PAGE = ROOT / "docs" / "appendix" / "mistakes.md"
#: Where the commit 339221b of 2026-11-25 was silent, by an outsider's count.
SILENT = {
    "results: lock",
    "results: so an outage",
    "results: time to live",
    "timeouts: duplicate detection",
    "job-events: duplicate detection",
    "seat-commands-00: dead letters go to",
    "order-events/orders: what expires",
    "seats-events/processes: deliveries",
    "signals/release: everything passes",
    "signals/release: time to live",
    "signals/work: kind",
    "outputs: is public",
    *(f"settings: {name}" for name in seeded.SETTINGS),
    "start: SLUICE_WORKQUEUES",
} - {"settings: fewer work queues than the settings say", "settings: a room that was not made"}


class Mistake(NamedTuple):
    """One mistake: its key, the blamed entity or setting, and the words of the command."""

    key: str
    blamed: str
    says: str

    @property
    def was_found(self) -> bool:
        """True if the command said something of it before."""
        return not any(self.key.startswith(one) for one in SILENT)


def mistakes() -> Iterator[Mistake]:
    """Yield all of them, in the order of the tests."""
    whole = [{name: words for name, (_, words) in group.items()} for group in seeded.BUS.values()]
    for group in (*whole, seeded.DEAD, seeded.PLACES):
        yield from (Mistake(f"{name}: {words}", name, words) for name, words in group.items())
    for name, (_, blamed) in seeded.SETTINGS.items():
        yield Mistake(f"settings: {name}", ", ".join(blamed), "; ".join(dict.fromkeys(blamed.values())))
    for words in seeded.STORAGE:
        yield Mistake(f"storage: {words}", "every queue, container and table", words)
    yield Mistake(f"bus: {seeded.ON_BUS}", "every entity of the bus", seeded.ON_BUS)
    yield Mistake(
        "queues", "every queue of storage", "blamed, with the error of the service: the endpoint is that of blobs"
    )
    for _, words in seeded.STOPPING:
        yield Mistake(f"start: {words}", words.partition(" ")[0], words)


def render() -> str:
    """Return the page."""
    found = list(mistakes())
    rows = [(f"`{one.blamed}`", one.says, "found" if one.was_found else "silence") for one in found]
    before = sum(one.was_found for one in found)
    return (
        "# Mistakes in an installation\n\n"
        "`python -m tests.cli.mistakes` writes this page. `tests/cli/test_mistakes.py` makes each mistake, and finds the words in "
        "the output of `sluice doctor`. It blames nothing else.\n\n"
        f"Of {len(found)} mistakes the commit `339221b` found {before}. Now all are found.\n\n"
        f"{markdown(('blamed', 'words of `sluice doctor`', 'before'), rows)}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(render())
