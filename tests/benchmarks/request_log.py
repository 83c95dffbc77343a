"""Reads the emulator's own log of requests, in the words that the meter uses."""

import re
from collections import Counter
from pathlib import Path

from shared.usage.requests import BLOB, QUEUE, TABLE, Kind, identify

_REQUEST = re.compile(r'"([A-Z]+) (/[^" ]*) HTTP')


def kinds(text: str) -> Counter[Kind]:
    """Return the requests of a piece of the log; which table a batch of entities was for, it does not say."""
    return Counter(
        identify(_service(path), method, f"http://emulator{path}") for method, path in _REQUEST.findall(text)
    )


def read_from(log: Path, start: int) -> str:
    """Return what was logged since the log had so many bytes."""
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def _service(path: str) -> str:
    address, _, query = path.partition("?")
    _, _account, name, *rest = [*address.split("/"), ""]
    if rest[:1] == ["messages"] or ("comp=metadata" in query and not any(rest)):
        return QUEUE
    # A blob has names below its container's, a table has its key in brackets; a bare name is told by its query.
    is_table = "(" in name or name in {"$batch", "Tables"} or (not any(rest) and "restype=" not in query)
    return TABLE if is_table else BLOB
