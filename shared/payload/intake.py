"""Turns a submission, whatever form its payload has, into an index and something to read frames from.

Nothing is expanded that has an index already: each chunk is verified where it is worked on.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from shared.errors import RefusedError
from shared.payload.compression import Codec, expand_file, sniff
from shared.payload.frames import Chunk, FrameIndex, parse_index
from shared.payload.framing import Framing, spool_for, write_frames
from shared.payload.limits import Limits
from shared.payload.lines import split_lines
from shared.payload.names import payload_name
from shared.payload.reading import read_frames
from shared.payload.reasons import Reason, refuse
from shared.payload.store import PayloadStore, StoredBlob
from shared.payload.submission import Content, FileBlob, FramedBlob, Inline, Items, Submission, check_count


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload ready for planning: where its frames are, and what stands for its content."""

    index: FrameIndex
    codec: Codec
    #: Exactly one of both: a blob, or the stored bytes of a payload that came in the message.
    blob: StoredBlob | None
    inline: bytes | None
    #: The same whenever the same content is dropped in the same form.
    content_sha256: str


def fingerprint(submission: Submission, payload: Payload) -> str:
    """Return what two submissions under the same job id must have in common to be the same."""
    declared = {name: str(amount) for name, amount in sorted(submission.declared.sums.items())}
    said = (submission.workload, submission.gate, submission.declared.items, declared, payload.content_sha256)
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


class Intake:
    """Takes payloads in, and reads them back chunk by chunk."""

    def __init__(self, store: PayloadStore, limits: Limits | None = None) -> None:
        self._store, self._limits = store, limits or Limits()

    def take(self, submission: Submission) -> Payload:
        """Return the payload, framed and stored first where it was a file; wrong against its index, it is refused."""
        payload = self._take(submission.job, submission.content)
        check_count(submission.declared, payload.index)
        return payload

    def fetch(self, payload: Payload, chunk: Chunk) -> Iterator[tuple[int, bytes]]:
        """Yield each frame's verified content with the position of its first line; at most one ranged read."""
        if payload.blob is not None:
            stored = self._store.read_touched(payload.blob, chunk.offset, chunk.length)
        else:
            stored = (payload.inline or b"")[chunk.offset : chunk.offset + chunk.length]
        return read_frames(stored, chunk, payload.codec, self._limits)

    def _take(self, job: str, content: Content) -> Payload:
        if isinstance(content, Items):
            lines = list(enumerate(content.lines, 1))
            return self._in_message(lines, hashlib.sha256(b"\n".join(content.lines)).hexdigest())
        if isinstance(content, Inline):
            return self._inline(content, job)
        if isinstance(content, FramedBlob):
            return self._framed(content, job)
        return self._file(content, job)

    def _in_message(self, lines: Iterable[tuple[int, bytes]], content_sha256: str) -> Payload:
        with spool_for(self._limits) as spool:
            framed = write_frames(lines, spool, Framing(limits=self._limits))
            spool.seek(0)
            return Payload(framed.index, framed.codec, None, spool.read(), content_sha256)

    def _inline(self, content: Inline, job: str) -> Payload:
        content_sha256 = hashlib.sha256(content.stored).hexdigest()
        if content.index is not None:
            return Payload(content.index, content.codec or Codec.ZSTD, None, content.stored, content_sha256)
        codec = content.codec or sniff(content.stored)
        # It may expand to far more than a message holds, so it is stored like any file.
        return replace(self._framed_anew([content.stored], codec, job), content_sha256=content_sha256)

    def _framed(self, content: FramedBlob, job: str) -> Payload:
        blob = self._store.find(content.name)
        index = content.index or self._read_index(job, content.index_sha256)
        if blob.size != index.stored:
            raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} has {blob.size} bytes, its index has {index.stored}")
        return Payload(index, content.codec, blob, None, content.index_sha256)

    def _read_index(self, job: str, sha256: str) -> FrameIndex:
        try:
            blob = self._store.find(payload_name(job, sha256))
        except RefusedError as missing:
            raise refuse(Reason.INDEX_MISSING, missing.found) from missing
        if blob.size > self._limits.index_bytes:
            raise refuse(Reason.TOO_MANY_ITEMS, f"its index has {blob.size} bytes, {self._limits.index_bytes} may be")
        text = self._store.read(blob, 0, blob.size) if blob.size else b""
        if hashlib.sha256(text).hexdigest() != sha256:
            raise refuse(Reason.INDEX_MISMATCH, f"blob {blob.name!r} does not have the hash in its name")
        return parse_index(text, self._limits)

    def _file(self, content: FileBlob, job: str) -> Payload:
        blob = self._store.find(content.name)
        if blob.size > self._limits.stored_most:
            raise refuse(Reason.PAYLOAD_TOO_LARGE, f"{blob.name!r} has {blob.size} bytes")
        digest = hashlib.sha256()
        pieces = _hashed(self._store.stream(blob), digest.update)
        head = next(pieces, b"")
        payload = self._framed_anew(chain([head], pieces), content.codec or sniff(head), job)
        return replace(payload, content_sha256=digest.hexdigest())

    def _framed_anew(self, pieces: Iterable[bytes], codec: Codec, job: str) -> Payload:
        with spool_for(self._limits) as spool:
            lines = split_lines(expand_file(pieces, codec, self._limits), self._limits)
            framed = write_frames(lines, spool, Framing(limits=self._limits))
            blob = self._store.put(job, spool, framed.index.stored, framed.sha256)
        return Payload(framed.index, framed.codec, blob, None, framed.sha256)


def _hashed(pieces: Iterable[bytes], update: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece
