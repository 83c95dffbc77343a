"""Turns a payload of any form into an index and stored frames.

A payload that has an index is not expanded here: each chunk is verified when it is processed.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from shared.errors import RefusedError
from shared.grammar import payload_name, room_job
from shared.payload.compression import Codec, expand_file, sniff
from shared.payload.envelope import Content, FileBlob, FramedBlob, Inline, Items
from shared.payload.frames import FrameIndex, Framing, parse_index, spool_for, write_frames
from shared.payload.limits import Limits
from shared.payload.payload_store import PayloadStores, StoredBlob
from shared.payload.reading import split_lines
from shared.payload.submission import Submission, check_count
from shared.refusals import Reason, refuse


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload ready for planning: its index, the place of its frames, and the hash of its content."""

    index: FrameIndex
    codec: Codec
    #: Exactly one of the two: a blob, or the stored bytes of a payload that came in the message.
    blob: StoredBlob | None
    inline: bytes | None
    #: The same each time that the same content is dropped in the same form.
    content_sha256: str
    #: True if the app framed it itself, and keeps it in its own container, where no publisher writes.
    is_kept: bool = False
    #: How its bytes are read: codec and index. A corrected submission may change both for the same bytes.
    form: tuple[str, str] = ("", "")


def fingerprint(submission: Submission, payload: Payload) -> str:
    """Return the hash that two submissions of one job id share if they are the same submission."""
    return _hash((*_content(submission, payload), payload.form))


def fingerprint_before(submission: Submission, payload: Payload) -> str:
    """Return the hash that the previous version stored for the same submission: without codec and index."""
    return _hash(_content(submission, payload))


def _content(submission: Submission, payload: Payload) -> tuple[object, ...]:
    declared = {name: str(amount) for name, amount in sorted(submission.declared.sums.items())}
    return submission.workload, submission.gate, submission.declared.items, declared, payload.content_sha256


def _hash(content: tuple[object, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


class Intake:
    """Takes in the payloads of one room.

    A blob that a publisher names is read from its room alone. New frames go to the app's container, where no publisher
    writes.
    """

    def __init__(self, room: str, stores: PayloadStores, limits: Limits | None = None) -> None:
        self._room, self._stores, self._limits = room, stores, limits or Limits()
        self._store = stores.of_room(room)

    def take(self, submission: Submission) -> Payload:
        """Return the payload, after framing and storing a file. Refuse one that differs from its index or declaration."""
        payload = self._take(submission.job, submission.content)
        check_count(submission.declared, payload.index)
        return payload

    def _take(self, job: str, content: Content) -> Payload:
        if isinstance(content, Items):
            lines = list(enumerate(content.lines, 1))
            return self._in_message(lines, hashlib.sha256(b"\n".join(content.lines)).hexdigest())
        if isinstance(content, Inline):
            return self._inline(content, job)
        if isinstance(content, FramedBlob):
            return self._frame(content, job)
        return self._file(content, job)

    def _in_message(self, lines: Iterable[tuple[int, bytes]], content_sha256: str) -> Payload:
        with spool_for(self._limits) as spool:
            framed = write_frames(lines, spool, Framing(limits=self._limits))
            spool.seek(0)
            return Payload(framed.index, framed.codec, None, spool.read(), content_sha256)

    def _inline(self, content: Inline, job: str) -> Payload:
        content_sha256 = hashlib.sha256(content.stored).hexdigest()
        if content.index is not None:
            codec = content.codec or Codec.ZSTD
            form = codec.value, content.index.sha256
            return Payload(content.index, codec, None, content.stored, content_sha256, form=form)
        codec = content.codec or sniff(content.stored)
        # It may expand to far more than a message holds, so it is stored like any file.
        return replace(self._frame_again([content.stored], codec, job), content_sha256=content_sha256)

    def _frame(self, content: FramedBlob, job: str) -> Payload:
        blob = self._store.find(content.name)
        index = content.index or self._read_index(job, content)
        if blob.size != index.stored:
            raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} has {blob.size} bytes, its index says {index.stored}")
        form = content.codec.value, content.index_sha256
        return Payload(index, content.codec, blob, None, content.index_sha256, form=form)

    def _read_index(self, job: str, content: FramedBlob) -> FrameIndex:
        sha256 = content.index_sha256
        try:
            blob = self._store.find(payload_name(job, sha256))
        except RefusedError as missing:
            raise refuse(Reason.INDEX_MISSING, missing.found) from missing
        if blob.size > self._limits.index_bytes:
            raise refuse(
                Reason.TOO_MANY_ITEMS, f"its index has {blob.size} bytes, the limit is {self._limits.index_bytes}"
            )
        text = self._store.read(blob, 0, blob.size) if blob.size else b""
        if hashlib.sha256(text).hexdigest() != sha256:
            raise refuse(Reason.INDEX_MISMATCH, f"blob {blob.name!r} does not have the hash in its name")
        return parse_index(text, content.codec, self._limits)

    def _file(self, content: FileBlob, job: str) -> Payload:
        blob = self._store.find(content.name)
        if blob.size > self._limits.stored_most:
            most = self._limits.stored_most
            raise refuse(Reason.PAYLOAD_TOO_LARGE, f"{blob.name!r} has {blob.size} bytes, the limit is {most}")
        digest = hashlib.sha256()
        pieces = _hash_stream(self._store.stream(blob), digest.update)
        head = next(pieces, b"")
        payload = self._frame_again(chain([head], pieces), content.codec or sniff(head), job)
        # Only now is every piece hashed.
        return replace(payload, content_sha256=digest.hexdigest())

    def _frame_again(self, pieces: Iterable[bytes], codec: Codec, job: str) -> Payload:
        with spool_for(self._limits) as spool:
            lines = split_lines(expand_file(pieces, codec, self._limits), self._limits)
            framed = write_frames(lines, spool, Framing(limits=self._limits))
            kept = self._stores.store_of_done().put(
                room_job(self._room, job), spool, framed.index.stored, framed.sha256
            )
        return Payload(framed.index, framed.codec, kept, None, framed.sha256, is_kept=True, form=(codec.value, ""))


def _hash_stream(pieces: Iterable[bytes], update: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece
