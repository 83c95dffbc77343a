"""Messages that failed for good: kept with reason and bytes until a person replays or discards them.

Reading order:

- `attempts`: notes of deliveries, and how the last one failed
- `poison_policy`: when a message is poison, with every limit
- `entry`: one parked message, and its key
- `cause`: the reason and the fingerprint of a failure
- `parking`: the one way in, and the registry of stages
- `parked_table`: the store
- `door`: messages that are not believed
- `poison_queues`: messages that the host and the bus gave up on
"""

from shared.parked.attempts import Attempts, FailedAttempt
from shared.parked.cause import FailureCause, note_item
from shared.parked.door import add_job_id, at_the_door, door_key, is_nameless, read_claimed_job
from shared.parked.entry import (
    ACCEPT,
    DOOR,
    NO_JOB,
    SETTLED,
    Entry,
    EntryState,
    chunk_key,
    chunk_of_key,
    content_key,
    finish_key,
    job_note,
    segment_key,
    shard_key,
    submission_note,
)
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import (
    Claim,
    Parking,
    PutOnQueue,
    QueuesPut,
    Stage,
    Stages,
    identify_message,
    read_message,
    split_bundle,
)
from shared.parked.poison_policy import DEFAULT_POLICY, Deliveries, Nature, PoisonPolicy, nature_of
from shared.parked.poison_queues import drain_poison, park_dead_result

__all__ = [
    "ACCEPT",
    "DEFAULT_POLICY",
    "DOOR",
    "NO_JOB",
    "SETTLED",
    "Attempts",
    "Claim",
    "Deliveries",
    "Entry",
    "EntryState",
    "FailedAttempt",
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
    "chunk_of_key",
    "content_key",
    "door_key",
    "drain_poison",
    "finish_key",
    "identify_message",
    "is_nameless",
    "job_note",
    "nature_of",
    "note_item",
    "park_dead_result",
    "read_claimed_job",
    "read_message",
    "segment_key",
    "shard_key",
    "split_bundle",
    "submission_note",
]
