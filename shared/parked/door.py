"""Entries at the door: refused submissions, and any other message that a publisher put on their queue.

Nothing in such a message is believed. It lies in a partition of its own, and its key is the hash of its bytes. The job
that it claims is only a column, by which it is listed.
"""

from typing import Final

import msgspec

from shared.decoding import make_decoder
from shared.errors import RefusedError
from shared.grammar import NAME, room_job, room_of
from shared.messages import unwrap
from shared.parked.entry import ACCEPT, DOOR, NO_JOB, content_key
from shared.parked.parking import Claim
from shared.payload import SUBMISSION, WRAPPER, Limits, read_json
from shared.topology import room_of_queue

#: Keeps every value byte for byte: with other blanks or digits, it would be another job than a killed worker began.
_AS_WRITTEN: Final = make_decoder(dict[str, dict[str, msgspec.Raw]])
_NULL: Final = b"null"
_SUBMISSION: Final = msgspec.json.encode(SUBMISSION)


def read_claimed_job(queue: str, body: bytes, message_id: str = "") -> str:
    """Return the job that a message claims, or NO_JOB. A nameless submission claims the id of its message.

    The room is always the queue's: no message can claim a job of another room.
    """
    if is_nameless(body):
        name: object = message_id.lower()
    else:
        try:
            name = msgspec.json.decode(unwrap(body))[WRAPPER]["job"]
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError, KeyError, IndexError):
            return NO_JOB
    if isinstance(name, str) and NAME.fullmatch(name):
        return room_job(room_of_queue(queue), name)
    return NO_JOB


def is_nameless(body: bytes) -> bool:
    """Return whether the body is a submission without a job id: its job takes the id of the message."""
    return _read_nameless(body) is not None


def add_job_id(body: bytes, job: str) -> bytes:
    """Return a nameless submission with its job id added, for a replay has a new message id. Others stay unchanged."""
    fields = None if job == NO_JOB else _read_nameless(body)
    # Without the room: the queue names it, and a replay goes to the queue that the submission came from.
    name = job.removeprefix(room_job(room_of(job), ""))
    return body if fields is None else msgspec.json.encode({WRAPPER: {**fields, "job": name}})


def door_key(queue: str, body: bytes, job: str) -> str:
    """Return the key of a message that claims a job: the hash of the bytes that a replay sends.

    So a replayed message that fails again finds its entry. The same bytes in another room are another message: its
    replay goes to another queue.
    """
    room = room_of_queue(queue)
    return content_key(ACCEPT, (f"{room}|".encode() if room else b"") + add_job_id(body, job))


def at_the_door(queue: str, body: bytes, message_id: str, claimed: str) -> Claim:
    """Return the claim of a message from a queue of submissions: it lies at the door, listed by the job it claims."""
    is_unnamed = claimed == NO_JOB and is_nameless(body)
    # Two submissions without any known id may be two jobs of the same content: each has its own entry.
    unnamed_key = content_key(ACCEPT, body + b"|" + message_id.encode())
    return Claim(key=unnamed_key if is_unnamed else door_key(queue, body, claimed), job=claimed, partition=DOOR)


def _read_nameless(body: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a submission without a job id. None: it has one, or accept would refuse it."""
    text = unwrap(body)
    try:
        # Two readers could read some JSON differently, such as a key that stands twice. One must not decide for both.
        read_json(text, Limits().depth)
        wrapper = _AS_WRITTEN.decode(text)
    except (RefusedError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    fields = wrapper.get(WRAPPER, {})
    is_submission = wrapper.keys() == {WRAPPER} and bytes(fields.get("kind", _SUBMISSION)) == _SUBMISSION
    return fields if is_submission and bytes(fields.get("job", _NULL)) == _NULL else None
