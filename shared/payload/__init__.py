"""Payloads: what publishers send, read so that nothing hostile passes and nothing good is refused.

Reading order: `reasons` (why something is refused), `limits`, `envelope` and `submission` (the message), `frames` (the
index), `framing` and `reading` (lines to frames and back), `compression`, `transactions` (lines to typed values),
`store` and `stores` (the blobs), `intake` (any form of payload to one), `form` (in the message or in a blob).
"""

from shared.payload.compression import Codec
from shared.payload.envelope import Envelope, Header, open_envelope, seal
from shared.payload.form import Form
from shared.payload.frames import Chunk, Frame, FrameIndex, parse_index
from shared.payload.intake import Intake, Payload, fingerprint, fingerprint_before
from shared.payload.limits import Limits
from shared.payload.reading import read_frame
from shared.payload.reasons import Reason, refuse
from shared.payload.store import PayloadStore, StoredBlob
from shared.payload.stores import PayloadStores
from shared.payload.submission import Declared, Submission, read_submission

__all__ = [
    "Chunk",
    "Codec",
    "Declared",
    "Envelope",
    "Form",
    "Frame",
    "FrameIndex",
    "Header",
    "Intake",
    "Limits",
    "Payload",
    "PayloadStore",
    "PayloadStores",
    "Reason",
    "StoredBlob",
    "Submission",
    "fingerprint",
    "fingerprint_before",
    "open_envelope",
    "parse_index",
    "read_frame",
    "read_submission",
    "refuse",
    "seal",
]
