"""The grammars of names. An accepted name cannot leave its container, however a client normalises paths."""

import hashlib
import re
from typing import Final

from shared.payload.reasons import Reason, refuse

#: A publisher's name for a job, and the names of workloads and gates.
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
#: A segment neither begins nor ends with a dot: `..` never gets through, and Azure drops dots at the end of a path.
_SEGMENT: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.=+@,-]*[A-Za-z0-9_=+@,-])?"
BLOB: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}")
SHA256: Final = re.compile(r"[0-9a-f]{64}")
LONGEST_BLOB: Final = 512
_ROOM: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: With `submissions-` and `-poison` around it, a queue's name stays below the 63 characters of storage.
LONGEST_ROOM: Final = 40
#: Characters of a message's id, subject and correlation id on Service Bus.
LONGEST_ON_BUS: Final = 128
#: Between a room and a job: no publisher can say it, so no message claims a job of another room.
_JOIN: Final = "~"


def is_room(text: str) -> bool:
    """Check a room's name: `submissions-poison` is the host's, and so is every queue of that ending."""
    reserved = text == "poison" or text.endswith("-poison")
    return len(text) <= LONGEST_ROOM and _ROOM.fullmatch(text) is not None and not reserved


def room_job(room: str, job: str) -> str:
    """Return the internal id of the job that a room's publishers call `job`. The common room is the empty text."""
    return f"{room}{_JOIN}{job}" if room else job


def room_of(job: str) -> str:
    """Return the room of a job from its internal id. Its queue gave the room, the common room is empty."""
    return job.rpartition(_JOIN)[0]


def is_job(text: str) -> bool:
    """Check a job's internal id: a publisher's name, after its room if it has one."""
    room, join, job = text.rpartition(_JOIN)
    return NAME.fullmatch(job) is not None and (not join or is_room(room))


def bus_name(text: str) -> str:
    """Return a job's short name for the bus, which limits its length. Two jobs never share it."""
    if len(text) <= LONGEST_ON_BUS:
        return text
    return f"{text[: LONGEST_ON_BUS - 65]}~{hashlib.sha256(text.encode()).hexdigest()}"


def check_job(job: str) -> str:
    """Return a publisher's name for its job, or refuse it. Internal ids are for `is_job`."""
    if not NAME.fullmatch(job):
        raise refuse(Reason.BAD_JOB, f"the job is called {job[:120]!r}")
    return job


def check_name(kind: str, name: str) -> str:
    """Return the name of a workload or a gate, or refuse it."""
    if not NAME.fullmatch(name):
        raise refuse(Reason.BAD_NAME, f"the {kind} is called {name[:120]!r}")
    return name


def check_blob(name: str) -> str:
    """Return the name of a blob inside the payload container, or refuse it."""
    if len(name) > LONGEST_BLOB or not BLOB.fullmatch(name):
        raise refuse(Reason.BAD_BLOB_NAME, f"the blob is called {name[:120]!r}")
    return name


def check_kept(name: str) -> str:
    """Return the name of a blob that the app keeps for a job, or refuse it."""
    if owner_of(name) is None:
        raise refuse(Reason.BAD_BLOB_NAME, f"the blob is called {name[:160]!r}")
    return name


def owner_of(name: str) -> str | None:
    """Return the only job that may own a blob of this name, or None if any job may."""
    job, _, sha256 = name.partition("/")
    return job if SHA256.fullmatch(sha256) and is_job(job) else None


def payload_name(job: str, sha256: str) -> str:
    """Return the name of the blob of a job's payload. No other job writes it, and it never has other content."""
    return f"{job}/{sha256}"
