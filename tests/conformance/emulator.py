"""Compares `sluice doctor --deep` of Microsoft's emulator with that of the broker: `.ci/emulator` runs it where Docker is.

Each property that differs needs its row in docs/appendix/stand-ins.md, and each row a difference.
"""

import json
import re
import sys
from pathlib import Path

from tools.local.paths import ROOT

PAGE = ROOT / "docs" / "appendix" / "stand-ins.md"
_ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \|", re.MULTILINE)


def compare(emulator, broker):
    """Return a line for each property whose state differs, by its key."""
    here = {one["property"]: one for one in broker["properties"]}
    there = {one["property"]: one for one in emulator["properties"]}
    return {
        key: f"| `{key}` | {one['state']} | {here[key]['state']} | {one['found'] or one['why']} |"
        for key, one in there.items()
        if one["state"] != here[key]["state"]
    }


def judge(differences, page):
    """Return what the page lacks, and what it says for nothing."""
    said = set(_ROW.findall(page))
    lacking = [f"{PAGE.name} lacks the row: {row}" for key, row in differences.items() if key not in said]
    return lacking + [f"{PAGE.name} has a row of {key}, which does not differ" for key in sorted(said - {*differences})]


def main(files):
    """Write every difference. The status is 1 if the page does not say the same."""
    emulator, broker = (json.loads(Path(file).read_text()) for file in files)
    differences = compare(emulator, broker)
    head = ["| property | emulator | broker | found |", "| --- | --- | --- | --- |"]
    sys.stdout.write("\n".join([*head, *differences.values(), ""]))
    wrong = judge(differences, PAGE.read_text())
    sys.stderr.write("".join(f"{one}\n" for one in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
