"""Puts what a command measured into the page that speaks of it, between the markers that stand there."""

import re
from pathlib import Path


def write(document: Path, place: str, tables: str, *, maker: str = "make bench") -> None:
    """Replace what stands between the markers of this place; a page without them is an error, not a silence."""
    text, found = _find(document, place, maker)
    document.write_text(f"{text[: found.start(1)]}\n{tables}\n\n{text[found.end(1) :]}", encoding="utf-8")


def read(document: Path, place: str, *, maker: str = "make bench") -> str:
    """Return what stands between the markers of this place."""
    _, found = _find(document, place, maker)
    return found[1]


def _find(document: Path, place: str, maker: str) -> tuple[str, re.Match[str]]:
    text = document.read_text(encoding="utf-8")
    marked = re.compile(rf"<!-- made by `{re.escape(maker)}`: {re.escape(place)} -->\n(.*?)<!-- end -->", re.DOTALL)
    if (found := marked.search(text)) is None:
        raise ValueError(f"{document.name} has no place marked for {place!r} of `{maker}`")
    return text, found
