"""Reads the emulator's own log of requests, in the words that the meter uses."""

import re
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueServiceClient

from shared.azure.meter import BLOB, QUEUE, TABLE, RequestKind, identify

#: Seconds until a line that was asked for must be there.
PATIENCE: Final = 30.0
_REQUEST = re.compile(r'"([A-Z]+) (/[^" ]*) HTTP')


def kinds(text: str) -> Counter[RequestKind]:
    """Return the requests of a piece of the log; which table a batch of entities was for, it does not say."""
    return Counter(
        identify(_service(path), method, f"http://emulator{path}") for method, path in _REQUEST.findall(text)
    )


def read_from(log: Path, start: int) -> str:
    """Return what was logged since the log had so many bytes."""
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def between_marks(log: Path, begin: str, end: str) -> str:
    """Return what was logged between two marks; the emulator writes its log a little later than it answers."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        _, began, rest = read_from(log, 0).partition(begin)
        inside, ended, _ = rest.partition(end)
        if began and ended:
            return inside
        time.sleep(0.05)
    raise TimeoutError(f"{log.name} has no line about {begin} or none about {end}")


def mark(connection_string: str, name: str) -> None:
    """Leave a line in the log: nobody has a queue of that name, and to ask for it is an entry all the same."""
    with QueueServiceClient.from_connection_string(connection_string) as client, suppress(ResourceNotFoundError):
        client.get_queue_client(name).peek_messages()


def _service(path: str) -> str:
    address, _, query = path.partition("?")
    _, _account, name, *rest = [*address.split("/"), ""]
    if rest[:1] == ["messages"] or ("comp=metadata" in query and not any(rest)):
        return QUEUE
    # A blob has names below its container's, a table has its key in brackets; a bare name is told by its query.
    is_table = "(" in name or name in {"$batch", "Tables"} or (not any(rest) and "restype=" not in query)
    return TABLE if is_table else BLOB
