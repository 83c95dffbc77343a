"""Puts what a command measured into the page that speaks of it, between the markers that stand there."""

import re
from pathlib import Path


def write(document: Path, place: str, tables: str, *, maker: str = "make bench") -> None:
    """Replace what stands between the markers of this place; a page without them is an error, not a silence."""
    text = document.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- made by `{re.escape(maker)}`: {re.escape(place)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"{document.name} has no place marked for {place!r} of `{maker}`")
    document.write_text(marked.sub(lambda found: f"{found[1]}\n{tables}\n\n{found[2]}", text), encoding="utf-8")
