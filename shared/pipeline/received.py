"""Received result messages: reads them, groups them by job, and parks those that cannot be credited."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec import Raw, Struct

from shared.decoding import decode as decode_json
from shared.errors import NewerVersionError, NotParkedError, ResultRefusedError
from shared.grammar import is_job
from shared.ledger import MOST_ROWS, ChunkState, Ledger
from shared.messages import VERSION, Internal, Result, Results, decode, encode, unwrap
from shared.parked import Claim, Entry, FailureCause, Stage, content_key, identify_message, split_bundle
from shared.pipeline.bus_results import Received, SendResult
from shared.pipeline.results import QUEUE, open_content
from shared.refusals import ResultReason
from shared.versions import check_message

#: The name of the stage; it is stored.
SETTLE: Final = "settle"
#: Upper bound of a received message, in bytes. The app sends at most three quarters of that.
LONGEST_BODY: Final = 256 * 1024
_FOUND_LENGTH: Final = 1000


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message and one result in it."""

    message: Received
    result: Result
    #: The packed result, if the message has it.
    packed: bytes | None = None
    is_bundled: bool = False

    def alone(self) -> Received:
        """Return the message that has this result alone: the others in its bundle are not parked with it."""
        return replace(self.message, body=encode(self.result)) if self.is_bundled else self.message


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A message that cannot be credited, with the reason."""

    message: Received
    reason: ResultReason
    found: str
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Newer:
    """A message of a newer version, or one about a row of a newer version, with what is newer."""

    message: Received
    found: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """A batch: groups of one job that fit one transaction, the unreadable messages, and the newer ones."""

    groups: tuple[tuple[Arrived, ...], ...]
    unreadable: tuple[Unsettled, ...]
    newer: tuple[Newer, ...] = ()


def sort(messages: Iterable[Received]) -> Sorted:
    """Read and group a batch. An unreadable message does not hold up the others."""
    jobs: dict[str, list[Arrived]] = {}
    unreadable: list[Unsettled] = []
    newer: list[Newer] = []
    for message in messages:
        for read in _read(message):
            match read:
                case Arrived():
                    jobs.setdefault(read.result.job, []).append(read)
                case Newer():
                    newer.append(read)
                case Unsettled():
                    unreadable.append(read)
    groups = [tuple(found[n : n + MOST_ROWS]) for found in jobs.values() for n in range(0, len(found), MOST_ROWS)]
    return Sorted(tuple(groups), tuple(unreadable), tuple(newer))


def _read(message: Received) -> list[Arrived | Unsettled | Newer]:
    if len(message.body) > LONGEST_BODY:
        found_size = f"it is {len(message.body)} bytes, the limit is {LONGEST_BODY}"
        return [Unsettled(message, ResultReason.UNREADABLE, found_size)]
    body = unwrap(message.body)
    try:
        found = decode(body)
    except msgspec.DecodeError as error:
        read = _read_each(message, body)
        is_newer = any(isinstance(one, Newer) for one in read)
        return read if is_newer else [_refuse(message, body, str(error))]
    if not isinstance(found, Results) or found.v != VERSION:
        return [_read_one(message, found)]
    if any(result.v != VERSION for result in found.results):
        return _read_each(message, body)
    return [_open(Arrived(message, result, is_bundled=True)) for result in found.results]


class _Bundle(Struct):
    results: list[Raw]


class _WrappedBundle(Struct):
    sluice: _Bundle


def _read_each(message: Received, body: bytes) -> list[Arrived | Unsettled | Newer]:
    """Read each result of a bundle as a message of its own: a newer one keeps the fields that this version does not know."""
    try:
        results = decode_json(body, _WrappedBundle).sluice.results
    except (ValueError, RecursionError):
        return []
    read: list[Arrived | Unsettled | Newer] = []
    for result in results:
        alone = replace(message, body=b'{"sluice":' + bytes(result) + b"}")
        try:
            read.append(_read_one(alone, decode(alone.body)))
        except msgspec.DecodeError as error:
            read.append(_refuse(alone, alone.body, str(error)))
    return read


def _read_one(message: Received, found: Internal) -> Arrived | Unsettled | Newer:
    if isinstance(found, Result):
        return _open(Arrived(message, found))
    kind = found.__struct_config__.tag
    return _refuse(
        message, unwrap(message.body), f"it is a {kind} of version {found.v}, not a result of version {VERSION}"
    )


def _refuse(message: Received, body: bytes, found: str) -> Unsettled | Newer:
    try:
        check_message(body, "a result message")
    except NewerVersionError as error:
        return Newer(message, str(error))
    return Unsettled(message, ResultReason.UNREADABLE, found)


def _open(arrived: Arrived) -> Arrived | Unsettled | Newer:
    """Check one result by itself: the others in its message do not depend on it."""
    result = arrived.result
    if result.v != VERSION:
        return _refuse(
            arrived.message, unwrap(arrived.message.body), f"its version is {result.v}, and this is version {VERSION}"
        )
    if not is_job(result.job):
        # No table takes every name as a key, so reading the job would fail at every delivery, like an outage.
        found = f"no job can be called {result.job[:100]!r}"
        return Unsettled(arrived.alone(), ResultReason.UNREADABLE, found)
    if result.content is None:
        return arrived
    try:
        name = f"{result.job}/{result.revision}/{result.chunk}"
        return replace(arrived, packed=open_content(name, result.content, result.hash))
    except ResultRefusedError as error:
        return Unsettled(arrived.alone(), ResultReason.REFUSED, str(error), result)


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
    return FailureCause(reason, unsettled.found[:_FOUND_LENGTH], unsettled.reason.instead, fingerprint)


def settle_stage(ledger: Ledger, send: SendResult) -> Stage:
    """Return the stage of the bus queue `results`."""

    def put_back(entry: Entry, body: bytes) -> None:
        # An earlier version parked a whole bundle, which it could not read.
        for alone in split_bundle(body):
            send(_result(entry, alone))

    return Stage(
        name=SETTLE,
        reads=lambda queue: queue == QUEUE,
        identify=lambda delivery: identify_message(SETTLE, delivery.body),
        put_back=put_back,
        has_landed=lambda entry: is_chunk_done(ledger, entry.job, entry.chunk),
    )


def is_chunk_done(ledger: Ledger, job: str, chunk: int | None) -> bool:
    """Check whether a chunk is done, by one request: the one effect that a replay of it or of its result can have."""
    if chunk is None:
        return False
    row = ledger.rows_of(job, [chunk]).get(chunk)
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
