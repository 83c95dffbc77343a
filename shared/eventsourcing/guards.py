"""What a commit must fulfil before any store tries it. Azurite would take what Azure refuses."""

import json
from collections.abc import Mapping
from typing import Any, Final

from shared.errors import CommitTooLargeError
from shared.eventsourcing.homes import MOST_EVENTS, Commit

#: Bytes of a process as JSON. A larger command belongs in a blob.
MOST_PROCESS_BYTES: Final = 512 * 1024
#: Rows of one transaction.
MOST_ROWS: Final = 100
_dumps: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def check_commit(commit: Commit) -> None:
    """Raise CommitTooLargeError for a commit that one transaction does not take, ValueError for one without events."""
    tried = f"could not write {len(commit.events)} events after {commit.expected} of home {commit.home!r}"
    if not commit.events:
        raise ValueError(f"{tried}: only the insert of an event guards the write, so a commit has at least one")
    if len(commit.events) > MOST_EVENTS:
        raise CommitTooLargeError(f"{tried}: a commit takes {MOST_EVENTS}; divide it between commands")
    rows = len(commit.events) + 1 + (commit.process is not None) + len(commit.inbox) + (commit.memento is not None)
    if rows > MOST_ROWS:
        raise CommitTooLargeError(f"{tried}: they are {rows} rows with {len(commit.inbox)} ids, {MOST_ROWS} fit")
    size = 0 if commit.process is None else len(to_json(commit.process).encode())
    if size > MOST_PROCESS_BYTES:
        raise CommitTooLargeError(
            f"{tried}: its process has {size} bytes as JSON, the limit is {MOST_PROCESS_BYTES}; put large commands "
            "into a blob and store its name"
        )


def to_json(document: Mapping[str, Any]) -> str:
    """Return a document as compact JSON. A number that JSON does not have is a ValueError."""
    return _dumps(document)
