"""Payloads of submissions: read, verified, framed and stored. Nothing hostile passes, nothing valid is refused.

Reading order:

- `limits`: every bound
- `envelope`, `submission`: the message and its fields
- `frames`, `compression`: lines to frames, and the index
- `payload_store`: the blobs
- `intake`: any form of payload to an index and stored frames
- `reading`: the frames of a chunk back to lines
- `transactions`, `strict_json`: lines to typed values
"""

from shared.payload.compression import Codec, expand_file, sniff
from shared.payload.envelope import (
    SUBMISSION,
    WRAPPER,
    Envelope,
    Form,
    MessageHeader,
    PayloadFields,
    choose,
    open_envelope,
    read_bare,
    seal,
    wait_for_newer,
)
from shared.payload.frames import Frame, Framed, FrameIndex, Framing, parse_index, spool_for, write_frames
from shared.payload.intake import Intake, Payload, fingerprint, fingerprint_before, fingerprints_of, split_lines
from shared.payload.limits import MIB, Limits
from shared.payload.payload_store import ANY_VERSION, PayloadStore, PayloadStores, StoredBlob
from shared.payload.reading import (
    LARGE,
    LARGE_FINISHES,
    SMALL_FINISHES,
    WORK,
    PayloadReader,
    ReadChunk,
    most_rows,
    of_chunk,
    of_dispatch,
    of_finish,
    of_plan,
    of_submission,
)
from shared.payload.submission import (
    DEFAULT_WORKLOAD,
    OPTIONS,
    DeclaredFields,
    Submission,
    SubmissionFields,
    SubmissionOptions,
    read_submission,
    write_submission,
)
from shared.payload.transactions import Read, UnreadableTransaction, reader_of

__all__ = [
    "ANY_VERSION",
    "DEFAULT_WORKLOAD",
    "LARGE",
    "LARGE_FINISHES",
    "MIB",
    "OPTIONS",
    "SMALL_FINISHES",
    "SUBMISSION",
    "WORK",
    "WRAPPER",
    "Codec",
    "DeclaredFields",
    "Envelope",
    "Form",
    "Frame",
    "FrameIndex",
    "Framed",
    "Framing",
    "Intake",
    "Limits",
    "MessageHeader",
    "Payload",
    "PayloadFields",
    "PayloadReader",
    "PayloadStore",
    "PayloadStores",
    "Read",
    "ReadChunk",
    "StoredBlob",
    "Submission",
    "SubmissionFields",
    "SubmissionOptions",
    "UnreadableTransaction",
    "choose",
    "expand_file",
    "fingerprint",
    "fingerprint_before",
    "fingerprints_of",
    "most_rows",
    "of_chunk",
    "of_dispatch",
    "of_finish",
    "of_plan",
    "of_submission",
    "open_envelope",
    "parse_index",
    "read_bare",
    "read_submission",
    "reader_of",
    "seal",
    "sniff",
    "split_lines",
    "spool_for",
    "wait_for_newer",
    "write_frames",
    "write_submission",
]
