"""Jobs, results and rows with everything but what a test is about filled in."""

import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import zstandard

from shared.grammar import amounts
from shared.ledger import ChunkRow, Job, JobState, PlanBlob
from shared.ledger.settlement import row_of
from shared.messages import PortionMessage, Result

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
#: Items and amount of every chunk that a builder makes.
ITEMS, AMOUNT = 10, Decimal("12.34")


def at(seconds: float) -> datetime:
    """Return a moment after noon."""
    return NOON + timedelta(seconds=seconds)


def job(chunks: int = 3, **changes) -> Job:
    """Return a planned job whose chunks are all on the work queues."""
    made = Job(
        job="nightly",
        content_hash="c0ffee",
        workload="billing",
        accepted_at=NOON,
        state=JobState.RUNNING,
        items=chunks * ITEMS,
        chunks=chunks,
        declared=amounts({"amount": str(AMOUNT * chunks)}) if chunks else {},
        id_base=1000,
        plan=PlanBlob("nightly/plan", '"0x1"'),
        dispatch_cursor=chunks,
        started_at=NOON,
        progressed_at=NOON,
    )
    return replace(made, **changes)


def result(chunk: int = 0, *, job: str = "nightly", revision: int = 1, **changes) -> Result:
    """Return the result of a chunk that is done, as its own processor sends it."""
    values = {
        "job": job,
        "chunk": chunk,
        "revision": revision,
        "blob": f"{job}/{revision}/{chunk}",
        "hash": hashlib.sha256(f"{job} {revision} {chunk}".encode()).hexdigest(),
        "accepted": PortionMessage(items=ITEMS, sums={"amount": str(AMOUNT)}),
        "milliseconds": 7,
        "requests": {"useful": 3},
    }
    return Result(**values | changes)


def brought(chunk: int = 0, text: bytes = b"a result", **changes) -> Result:
    """Return the result of a chunk that brings its content, as its own processor sends it."""
    packed = zstandard.compress(b"%b of chunk %d" % (text, chunk))
    values = {
        "blob": None,
        "content": base64.b64encode(packed).decode(),
        "length": len(packed),
        "hash": hashlib.sha256(b"%b of chunk %d" % (text, chunk)).hexdigest(),
    }
    return result(chunk, **values | changes)


def parked(chunk: int = 0, *, sums: bool = True, **changes) -> Result:
    """Return the result of a chunk that is parked, with sums where its lines could be read."""
    outcome = PortionMessage(items=ITEMS, sums={"amount": str(AMOUNT)} if sums else None)
    gone = {"blob": None, "hash": None, "accepted": PortionMessage(), "parked": outcome, "reason": "workload_failed"}
    return result(chunk, **gone | changes)


def row(chunk: int = 0, **changes) -> ChunkRow:
    """Return the row of a chunk that is done."""
    return replace(row_of(result(chunk), NOON), **changes)
