"""One thing that failed for good, as plain data."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

#: Stands for the job where a message does not say one; no job can be called so.
NO_JOB: Final = "~none"
#: The partition of what was refused at the door, whatever job it claims: only what the app itself sent lies under a job.
DOOR: Final = "~door"
#: The stage at the door; its entries are believed in nothing. Each other stage says its own name.
ACCEPT: Final = "accept"
#: The partition beside the entries in which deliveries are noted; no job can be called so either.
NOT_ENTRIES: Final = "~attempts"


class EntryState(StrEnum):
    """What was done about it."""

    #: Nothing yet, or it came back after a replay.
    OPEN = "open"
    #: Somebody is putting it back on its queue, or died while doing so.
    REPLAYING = "replaying"
    #: It is back on its queue; what becomes of it is not known yet.
    REPLAYED = "replayed"
    #: It was replayed and has had its effect.
    DONE = "done"
    #: A person said that it is not needed.
    DISCARDED = "discarded"


#: Nobody needs the bytes of these any more.
CLOSED: Final = frozenset({EntryState.DONE, EntryState.DISCARDED})
#: A delivery of the same message that comes late changes nothing about these.
SETTLED: Final = CLOSED | {EntryState.OPEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row: why, what and where from; its bytes are in a blob of their own."""

    job: str
    key: str
    #: The name of the stage that it failed in.
    stage: str
    #: Where a replay puts it.
    queue: str
    #: The code of the reason, what was found, and what to send instead.
    reason: str
    found: str
    instead: str
    fingerprint: str
    attempts: int
    first_at: datetime
    last_at: datetime
    message_id: str
    #: SHA-256 and number of the original bytes.
    sha256: str
    size: int
    chunk: int | None = None
    revision: int | None = None
    #: Of what was refused at the door, the job that it is about: said by whoever sent it, so it only lists it.
    claimed: str = ""
    state: EntryState = EntryState.OPEN
    #: How often it was put back, and how often it came back.
    replays: int = 0
    returns: int = 0
    #: Who discarded it, and why.
    note: str = ""
    #: How the fingerprint was made; None in rows of version aa6d1e7 and older, whose fingerprints name files.
    scheme: int | None = None
    #: Which write put the row here: after a lost reply, a writer knows its own row by it.
    nonce: str = ""
    etag: str = ""

    @property
    def is_open(self) -> bool:
        """Whether somebody may still need it."""
        return self.state not in CLOSED

    @property
    def about(self) -> str:
        """The job that it is about; rows of the version before have no claim and lie under their job."""
        return self.claimed or (NO_JOB if self.job == DOOR else self.job)

    @property
    def bytes_name(self) -> str:
        """The name of the blob with its bytes."""
        return f"{self.job}/{self.sha256}"

    def again(self, later: "Entry") -> "Entry":
        """Return the entry after the same message failed once more."""
        if self.stage == ACCEPT and later.stage != ACCEPT:
            # The version before believed a publisher's message that claimed to be this chunk: the place is the chunk's.
            return later
        noted = replace(self, last_at=later.last_at, message_id=later.message_id)
        if self.state is EntryState.OPEN:
            # Another delivery of the message that was parked already: it counts its deliveries itself.
            return replace(noted, attempts=max(self.attempts, later.attempts))
        return replace(
            noted,
            state=EntryState.OPEN,
            attempts=self.attempts + later.attempts,
            returns=self.returns + (self.state in {EntryState.REPLAYING, EntryState.REPLAYED}),
            reason=later.reason,
            found=later.found,
            instead=later.instead,
            fingerprint=later.fingerprint,
            scheme=later.scheme,
        )

    def is_same_cause(self, other: "Entry") -> bool:
        """Whether both failed for one cause; an older fingerprint says nothing beside a new one, the reason does."""
        if self.scheme is None or other.scheme is None:
            return self.reason == other.reason
        return self.fingerprint == other.fingerprint


def chunk_key(chunk: int, revision: int) -> str:
    """Return the key of a chunk; whoever parks it, and however often, there is one entry."""
    return f"chunk-{chunk:09}-{revision}"


def result_key(chunk: int, revision: int) -> str:
    """Return the key of a message about a chunk."""
    return f"result-{chunk:09}-{revision}"


def finish_key(revision: int) -> str:
    """Return the key of a finish message."""
    return f"finish-{revision}"


def content_key(stage: str, body: bytes) -> str:
    """Return the key of a message that is known by nothing but its bytes."""
    return f"{stage}-{hashlib.sha256(body).hexdigest()[:32]}"


#: What to do instead, where the reason itself does not say it.
INSTEAD: Final = MappingProxyType(
    {
        "unreadable": "send the message as docs/formats.md describes it, or discard it",
        "unknown_workload": "deploy the workload and name it in SLUICE_WORKLOADS, then replay",
        "unnamed": "look whether its job is there: then discard it, else replay it with `--as JOB`",
        "killed_its_worker": "find out by its transactions why the process died (memory, an exit), then replay",
        "delivered_too_often": "look in the log for what stopped it, then replay",
        "dead_lettered": "look in the log for why the bus gave it up, then replay",
    }
)
OTHERWISE: Final = "correct the workload or what it depends on, deploy, then replay"
