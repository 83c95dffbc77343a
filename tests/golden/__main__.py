"""`python -m tests.golden`: writes what the code stores and sends of fixed values, to compare it with later."""

import json
from pathlib import Path

from tests.golden import messages, shelves

HERE = Path(__file__).parent


def made():
    """Return every document by its name."""
    stored = {name: shelves.written(name, shelf.values) for name, shelf in shelves.SHELVES.items()}
    return stored | {
        "messages": messages.bodies(),
        "bus": messages.on_the_bus(),
        "words": messages.words(),
        "calls": messages.calls(),
        "sounds": messages.sounds(),
        "halts": messages.halts(),
        "bounds": messages.bounds(),
        "waits": messages.waits(),
        "stretched": messages.stretched(),
        "ranges": messages.ranged(),
        "linemessages": messages.line_bodies(),
        "asidemessages": messages.aside_bodies(),
        "errors": messages.errors(),
    }


def text_of(document):
    """Return a document as its file has it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def file_of(name):
    """Return the file of a document."""
    return HERE / f"{name}.json"


def main():
    """Write all files."""
    for name, document in made().items():
        file_of(name).write_text(text_of(document), encoding="utf-8")


if __name__ == "__main__":
    main()
