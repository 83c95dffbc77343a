"""Puts measured tables into docs/ids.md, between the marks of their place."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "ids.md"


def write(place: str, tables: str) -> None:
    """Replace what stands between the marks of the place."""
    begin, end = f"<!-- {place}: begin -->", f"<!-- {place}: end -->"
    text = DOCS.read_text(encoding="utf-8")
    head, tail = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    DOCS.write_text(f"{head}\n\n{tables}\n\n{tail}", encoding="utf-8")
