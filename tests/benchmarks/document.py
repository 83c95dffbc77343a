"""Puts what a benchmark measured into the page that speaks of it, between the markers that stand there."""

import re
from pathlib import Path


def write(document: Path, benchmark: str, tables: str) -> None:
    """Replace what stands between the markers of this benchmark; a page without them is an error, not a silence."""
    text = document.read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- made by `make bench`: {benchmark} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"{document.name} has no place marked for the benchmark {benchmark!r}")
    document.write_text(place.sub(lambda found: f"{found[1]}\n{tables}\n\n{found[2]}", text), encoding="utf-8")
