"""Parks a failed message: the one way into the store, whatever stage it failed in."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from shared.clock import Clock
from shared.errors import RefusedError
from shared.parked.cause import FINGERPRINT_SCHEME, fingerprint_of, reason_of
from shared.parked.entry import INSTEAD, NO_JOB, OTHERWISE, RESUME, Entry, Stage
from shared.parked.parked_table import ParkedTable
from shared.pipeline.messages import Chunk, Outcome, Result
from shared.telemetry import events
from shared.telemetry.event import tell

#: A result message has one kibibyte.
LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMessage:
    """A message that is not tried again, as it was delivered."""

    stage: Stage
    #: Where a replay puts it.
    queue: str
    key: str
    body: bytes
    message_id: str
    deliveries: int
    job: str = NO_JOB
    chunk: int | None = None
    revision: int | None = None
    #: Of what was refused at the door, the job that it claims.
    claimed: str = ""


class Parking:
    """Writes entries; safe to repeat."""

    def __init__(self, table: ParkedTable, clock: Clock) -> None:
        self.table, self._clock = table, clock

    def park(self, failed: FailedMessage, error: BaseException) -> Entry:
        """Keep the message with the reason that the error gives."""
        parked = self.table.park(self._entry(failed, error), failed.body)
        tell(
            events.MESSAGE_PARKED,
            job=failed.claimed or failed.job,
            key=failed.key,
            stage=failed.stage.value,
            reason=parked.reason,
            fingerprint=parked.fingerprint,
        )
        return parked

    def _entry(self, failed: FailedMessage, error: BaseException) -> Entry:
        reason, now = reason_of(error), self._clock.now()
        otherwise = RESUME if failed.stage is Stage.FINISH else OTHERWISE
        found, instead = f"{type(error).__name__}: {error}", INSTEAD.get(reason, otherwise)
        if isinstance(error, RefusedError):
            found, instead = error.found, error.instead
        return Entry(
            job=failed.job,
            key=failed.key,
            stage=failed.stage,
            queue=failed.queue,
            reason=reason,
            found=found,
            instead=instead,
            fingerprint=fingerprint_of(error, failed.stage),
            scheme=FINGERPRINT_SCHEME,
            attempts=failed.deliveries,
            first_at=now,
            last_at=now,
            message_id=failed.message_id,
            sha256=sha256(failed.body).hexdigest(),
            size=len(failed.body),
            chunk=failed.chunk,
            revision=failed.revision,
            claimed=failed.claimed,
        )


def parked_result(chunk: Chunk, entry: Entry) -> Result:
    """Return what the ledger is told of a chunk that is parked; its lines may be unreadable, and so its sums."""
    lost = Outcome(items=sum(frame[2] for frame in chunk.frames), sums=None)
    reason = entry.reason[:LONGEST_REASON]
    return Result(job=chunk.job, chunk=chunk.chunk, revision=chunk.revision, parked=lost, reason=reason)
