"""Draws prose to be judged by a person: `python -m tests.repo.sample [SEED [NUMBER]]`, each time the same.

By the ten rules of docs/contributing.md; a stranger who reads a text twice has found a fault.
"""

import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.repo.words import markdown, python
from tools.local.paths import ROOT

SEED, NUMBER = 20261122, 40
#: Everything a stranger reads, tests and made tables apart.
READ = (
    "README.md",
    "docs",
    "function_app.py",
    "functions",
    "capabilities",
    "sluice",
    "shared",
    "tools/cli",
    "tools/planning",
    "tools/conformance",
    "tools/local",
)
#: A shorter text is a name or a heading.
LEAST_WORDS = 5


class Drawn(NamedTuple):
    """One piece of prose and where it stands."""

    place: str
    text: str


def pieces() -> Iterator[Drawn]:
    """Yield every comment, docstring, message and paragraph that a stranger may read."""
    for name in READ:
        top = ROOT / name
        files = [top] if top.is_file() else sorted(file for ending in ("*.py", "*.md") for file in top.rglob(ending))
        for file in files:
            text = file.read_text(encoding="utf-8")
            for prose in markdown(text) if file.suffix == ".md" else python(text):
                plain = " ".join(prose.text.split())
                if len(plain.split()) >= LEAST_WORDS:
                    yield Drawn(f"{file.relative_to(ROOT)}:{prose.line}", plain)


def drawn(seed: int = SEED, number: int = NUMBER) -> list[Drawn]:
    """Return so many pieces, the same for the same tree and seed."""
    return random.Random(seed).sample(sorted(pieces()), number)


if __name__ == "__main__":
    for one in drawn(*map(int, sys.argv[1:])):
        print(f"{one.place}\n    {one.text}")  # noqa: T201 - a command prints
