"""Messages that failed for good: kept with reason and bytes until a person replays or discards them.

Reading order:

- `poison_policy`: notes of deliveries, the cause of a failure, and when a message is poison, with every limit
- `entry`: one parked message, and its key
- `parking`: the one way in, the verdict of an attempt, and messages that are not believed or were given up on
- `causes`: how many entries of a cause are open, as plain sums
- `cause_index`: these sums in storage, and a member for each open entry
- `overflow`: files for messages above the bound at the door
- `parked_table`: the store
- `cause_check`: compares the index with the store
"""

from shared.parked.cause_check import CauseCheck as CauseCheck
from shared.parked.cause_index import (
    MOST_TOGETHER as MOST_TOGETHER,
    CauseIndex as CauseIndex,
    Causes as Causes,
    OverFile as OverFile,
    ParkedCount as ParkedCount,
)
from shared.parked.causes import (
    CauseSums as CauseSums,
    count_nothing as count_nothing,
    count_parked as count_parked,
    files_in_words as files_in_words,
    join_by_cause as join_by_cause,
)
from shared.parked.entry import (
    ACCEPT as ACCEPT,
    DOOR as DOOR,
    NO_JOB as NO_JOB,
    OTHERWISE as OTHERWISE,
    SETTLED as SETTLED,
    Entry as Entry,
    EntryState as EntryState,
    chunk_key as chunk_key,
    chunk_of_key as chunk_of_key,
    content_key as content_key,
    finish_key as finish_key,
    is_aside_key as is_aside_key,
    job_note as job_note,
    range_key as range_key,
    range_of_key as range_of_key,
    segment_key as segment_key,
    shard_key as shard_key,
    submission_note as submission_note,
    transactions_key as transactions_key,
)
from shared.parked.overflow import (
    MOST_OF_CAUSE as MOST_OF_CAUSE,
    MOST_OF_ROOM as MOST_OF_ROOM,
    Overflow as Overflow,
    OverLine as OverLine,
    name_room as name_room,
)
from shared.parked.parked_table import ParkedTable as ParkedTable
from shared.parked.parking import (
    Attempt as Attempt,
    Claim as Claim,
    Deliveries as Deliveries,
    Done as Done,
    Park as Park,
    Parking as Parking,
    PutOnQueue as PutOnQueue,
    QueuesPut as QueuesPut,
    Stage as Stage,
    Stages as Stages,
    add_job_id as add_job_id,
    at_the_door as at_the_door,
    door_key as door_key,
    drain_poison as drain_poison,
    identify_message as identify_message,
    is_nameless as is_nameless,
    mark_again as mark_again,
    mark_aside as mark_aside,
    park_dead_result as park_dead_result,
    park_spent as park_spent,
    read_claimed_job as read_claimed_job,
    read_message as read_message,
    split_bundle as split_bundle,
    strip_payload as strip_payload,
)
from shared.parked.poison_policy import (
    DEFAULT_POLICY as DEFAULT_POLICY,
    Attempts as Attempts,
    FailedAlone as FailedAlone,
    FailedAloneError as FailedAloneError,
    FailedAttempt as FailedAttempt,
    FailureCause as FailureCause,
    KillerError as KillerError,
    Nature as Nature,
    PoisonPolicy as PoisonPolicy,
    StandstillError as StandstillError,
    cause_of as cause_of,
    count_left as count_left,
    item_of as item_of,
    kind_of as kind_of,
    nature_of as nature_of,
    note_item as note_item,
    note_left as note_left,
    notes_of as notes_of,
    place_of as place_of,
)
