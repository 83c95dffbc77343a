"""Reads frames back and verifies each: its hash, its expansion, its lines; what is yielded is what was indexed."""

import hashlib

from shared.payload.compression import Codec, expand_frame
from shared.payload.frames import Frame
from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse


def read_frame(stored: bytes, frame: Frame, codec: Codec, limits: Limits) -> bytes:
    """Return the lines of one frame, or refuse it."""
    where = f"the frame at {frame.offset}"
    if len(stored) != frame.length:
        raise refuse(Reason.LENGTH_MISMATCH, f"{where} has {len(stored)} bytes, its index says {frame.length}")
    if hashlib.sha256(stored).hexdigest() != frame.sha256:
        raise refuse(Reason.HASH_MISMATCH, f"{where} is not the one with the hash {frame.sha256!r}")
    text = expand_frame(stored, codec, limits)
    if not text.endswith(b"\n"):
        raise refuse(Reason.LAST_LINE_OPEN, f"{where} ends with {text[-1:]!r}")
    if (lines := text.count(b"\n")) != frame.items:
        raise refuse(Reason.LINE_COUNT, f"{where} has {lines} lines, its index says {frame.items}")
    return text
