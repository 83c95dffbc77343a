"""What is refused at the door: submissions, and whatever else somebody put on their queue.

Nothing in such a message is believed: its place is a partition of its own, its key the hash of its bytes, and the job
that it claims is a column that only lists it.
"""

from typing import Final

import msgspec

from shared.errors import RefusedError
from shared.grammar import NAME, room_job, room_of
from shared.messages import unwrap
from shared.parked.entry import ACCEPT, DOOR, NO_JOB, content_key
from shared.parked.parking import Claim
from shared.payload import SUBMISSION, WRAPPER, Limits, strict_json
from shared.topology import room_of_queue

#: Keeps every value byte for byte: by other blanks or digits, the job that a killed worker began would be another one.
_AS_WRITTEN: Final = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_NULL: Final = b"null"
_SUBMISSION: Final = msgspec.json.encode(SUBMISSION)


def read_claimed_job(queue: str, body: bytes, message_id: str = "") -> str:
    """Return the job that a message is about: what it says, or the id that it was dropped with; else NO_JOB.

    Its room is the queue's: of what another room's jobs are called, a message can say nothing.
    """
    if is_nameless(body):
        said: object = message_id.lower()
    else:
        try:
            said = msgspec.json.decode(unwrap(body))[WRAPPER]["job"]
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError, KeyError, IndexError):
            return NO_JOB
    is_name = isinstance(said, str) and NAME.fullmatch(said)
    return room_job(room_of_queue(queue), str(said)) if is_name else NO_JOB


def is_nameless(body: bytes) -> bool:
    """Whether it is a submission that leaves its job's id to the message that it was dropped with."""
    return _nameless(body) is not None


def add_job_id(body: bytes, job: str) -> bytes:
    """Return the submission with its job's id in it: without one, it is the id of the message, which changes now."""
    said = None if job == NO_JOB else _nameless(body)
    # The room is the queue's to say, which is the one that it came from.
    name = job.removeprefix(room_job(room_of(job), ""))
    return body if said is None else msgspec.json.encode({WRAPPER: {**said, "job": name}})


def door_key(queue: str, body: bytes, job: str) -> str:
    """Return the key of what claims a job: the hash of the bytes that a replay sends, so that it finds its entry.

    The same bytes in another room are another message: its replay goes to another queue.
    """
    room = room_of_queue(queue)
    return content_key(ACCEPT, (f"{room}|".encode() if room else b"") + add_job_id(body, job))


def at_the_door(queue: str, body: bytes, message_id: str, claimed: str) -> Claim:
    """Return the claim of a message of a queue of submissions: it lies at the door, and only lists the job."""
    is_unnamed = claimed == NO_JOB and is_nameless(body)
    # Two that nobody can name may be two jobs of one content: each is an entry.
    unnamed_key = content_key(ACCEPT, body + b"|" + message_id.encode())
    return Claim(key=unnamed_key if is_unnamed else door_key(queue, body, claimed), job=claimed, partition=DOOR)


def _nameless(body: bytes) -> dict[str, msgspec.Raw] | None:
    """Return what a submission without a job's id says; None for what says one, and for what nobody accepts."""
    text = unwrap(body)
    try:
        # What two readers could read differently, a key twice for one, must not become one reader's choice.
        strict_json.read(text, Limits().depth)
        wrapper = _AS_WRITTEN.decode(text)
    except (RefusedError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    said = wrapper.get(WRAPPER, {})
    is_submission = wrapper.keys() == {WRAPPER} and bytes(said.get("kind", _SUBMISSION)) == _SUBMISSION
    return said if is_submission and bytes(said.get("job", _NULL)) == _NULL else None
