"""Received result messages: reads them, groups them by job, and parks those that cannot be credited."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from shared.errors import NotParkedError
from shared.grammar import is_job
from shared.ledger import MOST_ROWS, ChunkState, Ledger
from shared.messages import VERSION, Result, SendResult, decode, unwrap
from shared.parked import Claim, Entry, FailureCause, Stage, content_key, identify_message
from shared.pipeline.results import QUEUE

#: The name of the stage; it is stored.
SETTLE: Final = "settle"
#: Upper bound of a received result message, in bytes. The app sends at most a quarter of that.
LONGEST_BODY: Final = 4096
_FOUND_LENGTH: Final = 1000


class ResultFault(StrEnum):
    """The reason why a result message is parked instead of credited."""

    UNREADABLE = "result_unreadable"
    UNKNOWN_JOB = "result_of_unknown_job"
    REFUSED = "result_refused"
    LEDGER_UNREADABLE = "ledger_unreadable"
    FAILED = "result_failed"


_INSTEAD: Final = {
    ResultFault.UNREADABLE: "find out who else sends to the queue of results; the tick dispatches the chunk again",
    ResultFault.UNKNOWN_JOB: "find out who else sends to the queue of results; replay it when the job was restored",
    ResultFault.REFUSED: "find out who else sends to the queue of results; the tick dispatches the chunk again",
    ResultFault.LEDGER_UNREADABLE: "restore the job's rows, then replay",
    ResultFault.FAILED: "find the failure in the log; the tick dispatches the chunk again",
}


@dataclass(frozen=True, slots=True)
class Received:
    """One message from the queue of results."""

    body: bytes
    id: str
    #: Number of its deliveries, this one included.
    deliveries: int = 1


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message and the result in it."""

    message: Received
    result: Result


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A message that cannot be credited, with the reason."""

    message: Received
    reason: ResultFault
    found: str
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Sorted:
    """A batch: groups of one job that fit one transaction, and the unreadable messages."""

    groups: tuple[tuple[Arrived, ...], ...]
    unreadable: tuple[Unsettled, ...]


def sort(messages: Iterable[Received]) -> Sorted:
    """Read and group a batch. An unreadable message does not hold up the others."""
    jobs: dict[str, list[Arrived]] = {}
    unreadable = []
    for message in messages:
        read = _read(message)
        if isinstance(read, Arrived):
            jobs.setdefault(read.result.job, []).append(read)
        else:
            unreadable.append(read)
    groups = [tuple(found[n : n + MOST_ROWS]) for found in jobs.values() for n in range(0, len(found), MOST_ROWS)]
    return Sorted(tuple(groups), tuple(unreadable))


def _read(message: Received) -> Arrived | Unsettled:
    if len(message.body) > LONGEST_BODY:
        found_size = f"it is {len(message.body)} bytes, the limit is {LONGEST_BODY}"
        return Unsettled(message, ResultFault.UNREADABLE, found_size)
    try:
        found = decode(unwrap(message.body))
    except msgspec.DecodeError as error:
        return Unsettled(message, ResultFault.UNREADABLE, str(error))
    if not isinstance(found, Result):
        return Unsettled(message, ResultFault.UNREADABLE, f"it is a {found.__struct_config__.tag}, not a result")
    if found.v != VERSION:
        return Unsettled(message, ResultFault.UNREADABLE, f"its version is {found.v}, and this is version {VERSION}")
    if not is_job(found.job):
        # No table takes every name as a key, so reading the job would fail at every delivery, like an outage.
        return Unsettled(message, ResultFault.UNREADABLE, f"no job can be called {found.job[:100]!r}")
    return Arrived(message, found)


def claim_of(unsettled: Unsettled) -> Claim:
    """Return the claim of a message that cannot be credited. Each different content is an entry of its job."""
    key, result = content_key(SETTLE, unsettled.message.body), unsettled.result
    if result is None:
        return Claim(key=key)
    return Claim(key=key, job=result.job, chunk=result.chunk, revision=result.revision)


def cause_of(unsettled: Unsettled) -> FailureCause:
    """Return the cause. All messages that cannot be credited for the same reason share it."""
    reason = unsettled.reason.value
    fingerprint = hashlib.sha256(reason.encode()).hexdigest()[:12]
    return FailureCause(reason, unsettled.found[:_FOUND_LENGTH], _INSTEAD[unsettled.reason], fingerprint)


def settle_stage(ledger: Ledger, send: SendResult) -> Stage:
    """Return the stage of the bus queue `results`."""
    return Stage(
        name=SETTLE,
        reads=lambda queue: queue == QUEUE,
        identify=lambda delivery: identify_message(SETTLE, delivery.body),
        put_back=lambda entry, body: send(_result(entry, body)),
        has_landed=lambda entry: is_chunk_done(ledger, entry),
    )


def is_chunk_done(ledger: Ledger, entry: Entry) -> bool:
    """Check whether the chunk of an entry is done, the one effect that a replay of it or of its result can have."""
    if entry.chunk is None:
        return False
    row = ledger.rows_of(entry.job, [entry.chunk]).get(entry.chunk)
    return row is not None and row.state is ChunkState.DONE


def _result(entry: Entry, body: bytes) -> Result:
    with suppress(msgspec.DecodeError, RecursionError):
        message = decode(unwrap(body))
        if isinstance(message, Result):
            return message
    raise NotParkedError(
        f"could not put back parked {entry.key!r} of job {entry.job!r}: its bytes are not a result; discard it, "
        "the tick dispatches its chunk again"
    )
