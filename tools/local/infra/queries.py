"""Writes infra/queries.json, from which Bicep saves the operator's queries in the workspace."""

import json
from pathlib import Path
from typing import Any

from tools.local.paths import ROOT

FILE = ROOT / "infra" / "queries.json"
FOLDER = ROOT / "infra" / "queries"


def text() -> str:
    """Return the file's content."""
    return json.dumps(document(), indent=2) + "\n"


def document(folder: Path = FOLDER) -> dict[str, Any]:
    """Return every query with its name and the question that it answers, which its first line asks."""
    return {"queries": [_query(file) for file in sorted(folder.glob("*.kql"))]}


def _query(file: Path) -> dict[str, str]:
    content = file.read_text()
    question, mark, _ = content.splitlines()[0].removeprefix("// ").partition("?")
    return {"name": file.stem, "question": question + mark, "query": content}
