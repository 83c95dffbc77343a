"""Constants of the capacity model: seconds and bytes that `make bench ARGS="--only capacity"` measured, and wrote down.

All of them are of one machine and of Azurite. None was measured on Azure, so a result of the model is an estimate.
"""

from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

#: Written by the benchmark, and by nothing else.
FILE: Final = Path(__file__).with_name("measured.json")


class Shares(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of CPU: per job, per chunk and per transaction."""

    job: float
    chunk: float
    transaction: float

    def of(self, jobs: float, chunks: float, transactions: float) -> float:
        """Return the seconds of so much work."""
        return jobs * self.job + chunks * self.chunk + transactions * self.transaction


class Constants(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds and bytes of one machine. `MEANINGS` explains each."""

    machine: str
    publisher: Shares
    app: Shares
    host: Shares
    stand_ins: Shares
    workload: float
    start: float
    put: float
    finish_job: float
    finish_chunk: float
    merge: float
    account_bytes: int
    totals: float
    retire_job: float
    retire_chunk: float
    tick: float
    app_bytes: int
    publisher_bytes: int


#: What each constant is, and where it was measured: the stack, or a piece on its own.
MEANINGS: Final = {
    "publisher": ("CPU of the publisher", "stack"),
    "app": ("CPU of the app in all stages", "stack"),
    "host": ("CPU of the local host, in place of the Functions host", "stack"),
    "stand_ins": ("CPU of Azurite and the local broker, which on Azure are other machines", "stack"),
    "workload": ("CPU of billing's own code per transaction, a part of the app's", "alone"),
    "start": ("from the submission to the first chunks", "stack"),
    "put": ("CPU of the process that plans and dispatches a job, per chunk", "`large_job`, stage `accept`"),
    "finish_job": ("finish of a job, of any size", "`large_job`, stage `finish`"),
    "finish_chunk": ("finish, per chunk, without its accounts", "`large_job`, stage `finish`"),
    "merge": ("finish, per account of a chunk's partial", "alone"),
    "account_bytes": ("stored bytes of one account in a chunk's result", "alone"),
    "totals": ("finish, CPU per group of 99 totals", "alone, on Azurite"),
    "retire_job": ("retention, per job", "`large_job`, stage `bury`"),
    "retire_chunk": ("retention, per chunk", "`large_job`, stage `bury`"),
    "tick": ("a tick with one open job for which there is nothing to do", "`large_job`, stage `wait`"),
    "app_bytes": ("memory of a process of the app that has no message yet", "`large_job`, stage `wait`"),
    "publisher_bytes": ("memory of a publisher at its most", "stack"),
}


@cache
def constants() -> Constants:
    """Load the constants."""
    return msgspec.json.decode(FILE.read_bytes(), type=Constants)
