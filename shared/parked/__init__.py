"""Messages that failed for good: kept with reason and bytes until a person replays or discards them.

Reading order:

- `poison_policy`: when a message is poison, with every limit
- `entry`: one parked message, and its key
- `cause`: the reason and the fingerprint of a failure
- `parking`: the one way in, and the registry of stages
- `parked_table`: the store
- `door`: messages that are not believed
- `poison_queues`: messages that the host and the bus gave up on
"""

from shared.parked.cause import FailureCause
from shared.parked.door import add_job_id, at_the_door, door_key, is_nameless, read_claimed_job
from shared.parked.entry import (
    ACCEPT,
    DOOR,
    INSTEAD,
    NO_JOB,
    SETTLED,
    Entry,
    EntryState,
    chunk_key,
    content_key,
    finish_key,
)
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import Claim, Parking, PutOnQueue, QueuesPut, Stage, Stages, identify_message, read_message
from shared.parked.poison_policy import (
    DEFAULT_POLICY,
    Attempts,
    Deliveries,
    Nature,
    PoisonPolicy,
    nature_of,
    submission_note,
)
from shared.parked.poison_queues import drain_poison, park_dead_result

__all__ = [
    "ACCEPT",
    "DEFAULT_POLICY",
    "DOOR",
    "INSTEAD",
    "NO_JOB",
    "SETTLED",
    "Attempts",
    "Claim",
    "Deliveries",
    "Entry",
    "EntryState",
    "FailureCause",
    "Nature",
    "ParkedTable",
    "Parking",
    "PoisonPolicy",
    "PutOnQueue",
    "QueuesPut",
    "Stage",
    "Stages",
    "add_job_id",
    "at_the_door",
    "chunk_key",
    "content_key",
    "door_key",
    "drain_poison",
    "finish_key",
    "identify_message",
    "is_nameless",
    "nature_of",
    "park_dead_result",
    "read_claimed_job",
    "read_message",
    "submission_note",
]
