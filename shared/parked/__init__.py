"""Messages that failed for good: kept with reason and bytes until a person replays or discards them.

Reading order:

- `poison_policy`: notes of deliveries, the cause of a failure, and when a message is poison, with every limit
- `entry`: one parked message, and its key
- `parking`: the one way in, with messages that are not believed or that the host and the bus gave up on
- `parked_table`: the store
"""

from shared.parked.entry import (
    ACCEPT,
    DOOR,
    INSTEAD,
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
    add_job_id,
    at_the_door,
    door_key,
    drain_poison,
    identify_message,
    is_nameless,
    park_dead_result,
    read_claimed_job,
    read_message,
    split_bundle,
)
from shared.parked.poison_policy import (
    DEFAULT_POLICY,
    Attempts,
    Deliveries,
    FailedAttempt,
    FailureCause,
    Nature,
    PoisonPolicy,
    nature_of,
    note_item,
)

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
