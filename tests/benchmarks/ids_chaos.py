"""The full proof of the ids: `python -m tests.benchmarks.ids_chaos`.

Eight processes draw a million ids from one blob while they are killed and replies are lost; then Twist's generator
under the same. Prints one table, puts it into docs/appendix/ids.md, writes .stack/bench/ids_chaos.json, and fails when a promise is broken.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.document import write
from tests.ids.chaos import Account, Chaos, run
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT

FULL = Chaos(processes=8, ids=125_000, kills=110, loss=0.25, range_size=300)
OUTPUT = Path(".stack/bench/ids_chaos.json")
DOCUMENT = ROOT / "docs" / "appendix" / "ids.md"


def run_in_a_folder(chaos: Chaos, connection: str) -> Account:
    """Run in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return run(chaos, connection, Path(folder))


def table(columns: dict[str, Account]) -> str:
    """Return the accounts side by side."""
    rows = ["ids", "duplicates", "kills", "lost_replies", "requests", "refused", "reservations", "gaps", "unexplained"]
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in rows:
        values = " | ".join(f"{account.rows()[row]:,}" for account in columns.values())
        lines.append(f"| {row.replace('_', ' ')} | {values} |")
    lines.append("| seconds | " + " | ".join(f"{account.seconds:.0f}" for account in columns.values()) + " |")
    return "\n".join(lines)


def main(_arguments: Sequence[str] = ()) -> int:
    """Run both, print the table, and return 0 when every promise is kept."""
    with Azurite.start() as azurite:
        ours = run_in_a_folder(FULL, azurite.connection_string)
        seed = run_in_a_folder(replace(FULL, ids=12_500, kills=11, generator="Twist"), azurite.connection_string)
    columns = {"shared/ids": ours, "Twist's generator (a tenth)": seed}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps({name: account.rows() for name, account in columns.items()}, indent=1))
    fates = ", ".join(f"{fate}: {count:,}" for fate, count in ours.gaps_by_fate.items())
    text = f"{table(columns)}\n\nThe gaps, by what the log says of them: {fates}."
    print(text)  # noqa: T201  # commands print
    write(DOCUMENT, "ids_chaos", text)
    is_kept = (ours.ids, ours.duplicates, ours.unexplained) == (8 * 125_000, 0, 0)
    return 0 if is_kept and ours.kills >= 100 and ours.lost_replies >= 1000 and seed.duplicates > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
