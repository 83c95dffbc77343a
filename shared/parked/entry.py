"""A parked message as plain data: its row, its states, its key and the remedies."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

#: The job of an entry whose message names no job. No job can have this name.
NO_JOB: Final = "~none"
#: The partition of messages refused at the door, for any job they claim. Only the app's own messages lie under a job.
DOOR: Final = "~door"
#: The stage at the door; nothing in its entries is believed. Each other stage brings its own name.
ACCEPT: Final = "accept"
#: The partition beside the entries in which deliveries are noted. No job can have this name either.
NOT_ENTRIES: Final = "~attempts"


class EntryState(StrEnum):
    """How far the handling of an entry is."""

    #: Nothing yet, or it came back after a replay.
    OPEN = "open"
    #: A replayer is putting it back on its queue, or died while doing so.
    REPLAYING = "replaying"
    #: It is back on its queue; its effect is not known yet.
    REPLAYED = "replayed"
    #: It was replayed and has had its effect.
    DONE = "done"
    #: A person decided that it is not needed.
    DISCARDED = "discarded"


#: The bytes of an entry in these states are not needed any more.
CLOSED: Final = frozenset({EntryState.DONE, EntryState.DISCARDED})
#: A late delivery of the same message does not change an entry in these states.
SETTLED: Final = CLOSED | {EntryState.OPEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parked message. Its bytes are in a blob of their own."""

    job: str
    key: str
    #: The name of the stage that it failed in.
    stage: str
    #: The queue that a replay puts it on.
    queue: str
    #: The reason code, the facts, and the remedy.
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
    #: The number of the chunk's first transaction, and of the one that failed where that is known. Rows of earlier
    #: versions have neither, nor a place.
    first_item: int | None = None
    failed_item: int | None = None
    #: The number of transactions that are parked one by one. None: the message is parked as a whole.
    items: int | None = None
    #: The functions that the error passed through, the innermost first.
    place: str = ""
    #: The job that a message at the door claims. Its sender says so, so the entry is only listed by it.
    claimed: str = ""
    state: EntryState = EntryState.OPEN
    #: How often it was put back, and how often it came back.
    replays: int = 0
    returns: int = 0
    #: Who discarded it, and why.
    note: str = ""
    #: How the fingerprint was made; None in rows of version aa6d1e7 and older, whose fingerprints name files.
    scheme: int | None = None
    #: Identifies the write of this row: after a lost reply, a writer recognises its own row.
    nonce: str = ""
    etag: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether a replay may still need it."""
        return self.state not in CLOSED

    @property
    def about(self) -> str:
        """Return the job that it is about. Rows of the previous version have no claim and lie under their job."""
        return self.claimed or (NO_JOB if self.job == DOOR else self.job)

    @property
    def bytes_name(self) -> str:
        """Return the name of the blob with its bytes."""
        return f"{self.job}/{self.sha256}"

    def again(self, later: "Entry") -> "Entry":
        """Return the entry after one more failure of the same message."""
        if self.stage == ACCEPT and later.stage != ACCEPT:
            # The previous version believed a publisher's message that claimed to be this chunk. The key is the chunk's.
            return later
        noted = replace(self, last_at=later.last_at, message_id=later.message_id)
        if self.state is EntryState.OPEN:
            # Another delivery of the message that is parked already: its own count includes the earlier ones.
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
            place=later.place,
            failed_item=later.failed_item,
            items=self.items if later.items is None else later.items,
            scheme=later.scheme,
        )

    def is_same_cause(self, other: "Entry") -> bool:
        """Return whether both failed for one cause: by fingerprint if both have a scheme, else by reason."""
        if self.scheme is None or other.scheme is None:
            return self.reason == other.reason
        return self.fingerprint == other.fingerprint


_ASIDE: Final = "transactions"


def chunk_key(chunk: int, revision: int) -> str:
    """Return the key of a chunk: it has one entry, however often and by whichever stage it is parked."""
    return f"chunk-{chunk:09}-{revision}"


def transactions_key(chunk: int, revision: int) -> str:
    """Return the key of the transactions of a chunk that are parked one by one."""
    return f"{_ASIDE}-{chunk:09}-{revision}"


def is_aside_key(key: str) -> bool:
    """Check whether it is the key of transactions that are parked one by one."""
    return key.startswith(f"{_ASIDE}-")


def chunk_of_key(key: str) -> int | None:
    """Return the number of the chunk that a key is about, as a whole or in part. None: it is of another message."""
    kind, _, rest = key.partition("-")
    return int(rest.partition("-")[0]) if kind in {"chunk", _ASIDE} else None


def result_key(chunk: int, revision: int) -> str:
    """Return the key of a message about a chunk."""
    return f"result-{chunk:09}-{revision}"


def finish_key(revision: int) -> str:
    """Return the key of a finish message."""
    return f"finish-{revision}"


def segment_key(segment: int, revision: int) -> str:
    """Return the key of a message about a segment."""
    return f"segment-{segment:06}-{revision}"


def shard_key(shard: int, revision: int) -> str:
    """Return the key of a message about a shard."""
    return f"shard-{shard:02}-{revision}"


def range_key(stretch: int) -> str:
    """Return the key of a message about a range."""
    return f"range-{stretch:06}"


def range_of_key(key: str) -> int | None:
    """Return the number of the range that a key is about. None: it is of another message."""
    kind, _, stretch = key.partition("-")
    return int(stretch) if kind == "range" and stretch.isdecimal() else None


def content_key(stage: str, body: bytes) -> str:
    """Return the key of a message that only its bytes identify."""
    return f"{stage}-{hashlib.sha256(body).hexdigest()[:32]}"


def submission_note(queue: str, body: bytes, message_id: str) -> str:
    """Return the key of a submission's notes. The host's poison copy has another id and the same body."""
    return f"{content_prefix(queue, body)}{message_id}"


def job_note(job: str, key: str) -> str:
    """Return the key of the notes of the app's own message."""
    return f"{job}|{key}"


def content_prefix(queue: str, body: bytes) -> str:
    """Return the beginning of the keys of the notes of all submissions with this body."""
    return f"{queue}|{hashlib.sha256(body).hexdigest()}|"


#: The remedy for errors that bring none.
OTHERWISE: Final = "correct the workload or what it depends on, deploy, then replay"
