"""A hostile case: what somebody drops, and what the documents say comes of it."""

import base64
import json
from dataclasses import dataclass, field

#: Stands for the case's own job, in messages and in names of payloads.
JOB = "@job"
USAGE = {"account": "a-1", "plan": "basic", "quantity": "2.50"}
LINE = json.dumps(USAGE).encode() + b"\n"


@dataclass(frozen=True)
class Parked:
    """It is parked under this reason: the message, or a chunk of the job."""

    reason: str


@dataclass(frozen=True)
class Ends:
    """The job ends so, and these are the reasons of its rejected transactions, by their places."""

    accepted: int
    rejected: dict[int, str] = field(default_factory=dict)
    state: str = "complete"


@dataclass(frozen=True)
class Waits:
    """It is parked under this reason, and the job of `before` waits for its gate as it did."""

    reason: str


@dataclass(frozen=True)
class Case:
    """Something that is dropped: a message as text, after payloads and an honest message that came before it."""

    family: str
    name: str
    message: str
    end: Parked | Ends | Waits
    blobs: dict[str, bytes] = field(default_factory=dict)
    before: str | None = None
    #: Sent as Base64, as some tools do.
    is_coded: bool = False

    def dropped(self, job):
        """Return the message with the job's id in it."""
        text = told(self.message, job)
        return base64.b64encode(text.encode()).decode() if self.is_coded else text


def told(text, job):
    """Return a text of a case with the job's id in it."""
    return text.replace(JOB, job)


def wrap(**fields):
    """Return a message."""
    return json.dumps({"sluice": fields})


def with_items(**fields):
    """Return a message with one good transaction."""
    return wrap(**{"job": JOB, "items": [USAGE], **fields})
