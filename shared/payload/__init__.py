"""Payloads of submissions: read, verified, framed and stored. Nothing hostile passes, nothing valid is refused.

Reading order:

- `submission`: the message and its fields
- `frames`: lines to frames, and the index
- `payload_store`: the blobs, and every bound
- `reading`: any form of payload to an index and stored frames; the frames of a chunk back to lines
- `transactions`: lines to typed values
"""

from shared.payload.frames import (
    Codec as Codec,
    Frame as Frame,
    Framed as Framed,
    FrameIndex as FrameIndex,
    Framing as Framing,
    expand_file as expand_file,
    parse_index as parse_index,
    sniff as sniff,
    spool_for as spool_for,
    write_frames as write_frames,
)
from shared.payload.payload_store import (
    ANY_VERSION as ANY_VERSION,
    MIB as MIB,
    Limits as Limits,
    PayloadStore as PayloadStore,
    PayloadStores as PayloadStores,
    StoredBlob as StoredBlob,
)
from shared.payload.reading import (
    LARGE as LARGE,
    LARGE_FINISHES as LARGE_FINISHES,
    SMALL_FINISHES as SMALL_FINISHES,
    WORK as WORK,
    Intake as Intake,
    Payload as Payload,
    PayloadReader as PayloadReader,
    ReadChunk as ReadChunk,
    fingerprint as fingerprint,
    fingerprint_before as fingerprint_before,
    fingerprints_of as fingerprints_of,
    most_rows as most_rows,
    of_chunk as of_chunk,
    of_dispatch as of_dispatch,
    of_finish as of_finish,
    of_plan as of_plan,
    of_submission as of_submission,
    split_lines as split_lines,
)
from shared.payload.submission import (
    DEFAULT_WORKLOAD as DEFAULT_WORKLOAD,
    OPTIONS as OPTIONS,
    SUBMISSION as SUBMISSION,
    WRAPPER as WRAPPER,
    DeclaredFields as DeclaredFields,
    Envelope as Envelope,
    Form as Form,
    MessageHeader as MessageHeader,
    PayloadFields as PayloadFields,
    Submission as Submission,
    SubmissionFields as SubmissionFields,
    SubmissionOptions as SubmissionOptions,
    choose as choose,
    open_envelope as open_envelope,
    read_bare as read_bare,
    read_submission as read_submission,
    seal as seal,
    wait_for_newer as wait_for_newer,
    write_submission as write_submission,
)
from shared.payload.transactions import (
    Read as Read,
    UnreadableTransaction as UnreadableTransaction,
    read_json as read_json,
    reader_of as reader_of,
)
