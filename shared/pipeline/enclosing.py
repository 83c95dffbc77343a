"""Encloses the bytes of chunks in their work messages where they fit: one read for a hundred chunks, not one for each.

A thousand transactions are some 30 KiB as they are stored and a message takes 64, so that a worker has nothing left to
fetch. Whatever stands in the way is no reason to stop: a message that names the payload does as well, and its worker
finds out what is wrong and parks the chunk for it. Damaged bytes are never enclosed, or a chunk that is parked for them
could not be replayed once the payload was repaired: what is parked is the message.
"""

import base64
import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from shared.errors import RefusedError, StorageUnavailableError
from shared.payload.form import Form, choose
from shared.payload.limits import Limits
from shared.payload.store import ANY_VERSION, StoredBlob
from shared.payload.stores import PayloadStores
from shared.pipeline.messages import Chunk, encode


class Enclosing:
    """Reads payloads for the messages of their chunks."""

    def __init__(self, stores: PayloadStores, limits: Limits) -> None:
        self._stores, self._limits = stores, limits

    def __call__(self, messages: Sequence[Chunk], /) -> list[Chunk]:
        """Return the messages of chunks that follow each other in one payload, with their bytes if all of them fit."""
        if not messages or not all(map(self._fits, messages)):
            return list(messages)
        start, end = _begin(messages[0]), _end(messages[-1])
        try:
            store = self._stores.holding(messages[0].job, is_kept=messages[0].is_kept)
            stored = store.read_touched(StoredBlob(messages[0].blob or "", ANY_VERSION, end), start, end - start)
        except (RefusedError, StorageUnavailableError):
            return list(messages)
        return [_with(one, memoryview(stored)[_begin(one) - start : _end(one) - start]) for one in messages]

    def _fits(self, message: Chunk) -> bool:
        if message.blob is None:
            return False
        # With the mark that it has when it is put once more.
        around = len(encode(replace(message, blob=None, is_kept=False, inline="", again=True)))
        return choose(_end(message) - _begin(message), around, self._limits) is Form.INLINE


def _begin(message: Chunk) -> int:
    return message.frames[0][0]


def _end(message: Chunk) -> int:
    offset, length, _, _ = message.frames[-1]
    return offset + length


def _with(message: Chunk, stored: memoryview) -> Chunk:
    start = _begin(message)
    frames = [(offset - start, length, items, sha256) for offset, length, items, sha256 in message.frames]
    if any(hashlib.sha256(stored[at : at + length]).hexdigest() != sha256 for at, length, _, sha256 in frames):
        return message
    return replace(message, blob=None, is_kept=False, frames=frames, inline=base64.b64encode(stored).decode())
