"""Turns a payload of any form into an index and stored frames. A file is cut into lines within bounds, for any content.

A payload that has an index is not expanded here: each chunk is verified when it is processed.
"""

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import msgspec

from shared.errors import RefusedError
from shared.grammar import payload_name, room_job
from shared.payload.compression import Codec, expand_file, sniff
from shared.payload.envelope import Content, FileBlob, FramedBlob, Inline, Items
from shared.payload.frames import FrameIndex, Framing, parse_index, spool_for, write_frames
from shared.payload.limits import Limits
from shared.payload.payload_store import PayloadStores, StoredBlob
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
    return _hash((*_content(submission, payload.content_sha256), payload.form))


def fingerprint_before(submission: Submission, payload: Payload) -> str:
    """Return the hash that the previous version stored for the same submission: without codec and index."""
    return _hash(_content(submission, payload.content_sha256))


def fingerprints_of(submission: Submission) -> tuple[str, str] | None:
    """Return both hashes of a submission from its message alone. None: its payload has no index, and must be read."""
    match submission.content:
        case FramedBlob() as framed:
            content_sha256, form = _name_blob(framed)
        case Inline(index=FrameIndex() as index) as inline:
            content_sha256, form = _name_inline(inline, index)
        case _:
            return None
    content = _content(submission, content_sha256)
    return _hash((*content, form)), _hash(content)


def _name_blob(content: FramedBlob) -> tuple[str, tuple[str, str]]:
    """Return the hash and the form of a payload beside its message."""
    return content.index_sha256, (content.codec.value, content.index_sha256)


def _name_inline(content: Inline, index: FrameIndex) -> tuple[str, tuple[str, str]]:
    """Return the hash and the form of a payload in its message."""
    return hashlib.sha256(content.stored).hexdigest(), ((content.codec or Codec.ZSTD).value, index.sha256)


def _content(submission: Submission, content_sha256: str) -> tuple[object, ...]:
    declared = {name: str(amount) for name, amount in sorted(submission.declared.sums.items())}
    return submission.workload, submission.gate, submission.declared.items, declared, content_sha256


def _hash(content: tuple[object, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


class Intake:
    """Takes in the payloads of one room.

    A blob that a publisher names is read from its room alone. New frames go to the app's container, where no publisher
    writes.
    """

    def __init__(
        self, room: str, stores: PayloadStores, limits: Limits | None = None, chunk_items: int | None = None
    ) -> None:
        self._room, self._stores, self._limits = room, stores, limits or Limits()
        self._framing = Framing(limits=self._limits, chunk_items=chunk_items)
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
            framed = write_frames(lines, spool, self._framing)
            spool.seek(0)
            return Payload(framed.index, framed.codec, None, spool.read(), content_sha256)

    def _inline(self, content: Inline, job: str) -> Payload:
        if content.index is not None:
            content_sha256, form = _name_inline(content, content.index)
            return Payload(content.index, Codec(form[0]), None, content.stored, content_sha256, form=form)
        content_sha256 = hashlib.sha256(content.stored).hexdigest()
        codec = content.codec or sniff(content.stored)
        # It may expand to far more than a message holds, so it is stored like any file.
        return replace(self._frame_again([content.stored], codec, job), content_sha256=content_sha256)

    def _frame(self, content: FramedBlob, job: str) -> Payload:
        blob = self._store.find(content.name)
        index = content.index or self._read_index(job, content)
        if blob.size != index.stored:
            raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} has {blob.size} bytes, its index says {index.stored}")
        content_sha256, form = _name_blob(content)
        return Payload(index, content.codec, blob, None, content_sha256, form=form)

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
            framed = write_frames(lines, spool, self._framing)
            kept = self._stores.store_of_done().put(
                room_job(self._room, job), spool, framed.index.stored, framed.sha256
            )
        return Payload(framed.index, framed.codec, kept, None, framed.sha256, is_kept=True, form=(codec.value, ""))


def _hash_stream(pieces: Iterable[bytes], update: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece


#: Bytes that are cut into lines at a time.
_PART: Final = 64 * 1024
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def split_lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank: its number, from 1, and its bytes without the line feed."""
    for number, line in enumerate(_lines(pieces, limits), 1):
        content = _without_mark(line) if number == 1 else line
        if content and not content.isspace():
            yield number, content.removesuffix(b"\r")


def _lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    # Each byte is joined once, at the end of its line: a line may arrive in a thousand pieces.
    begun: list[bytes] = []
    size = number = 0
    for part in _parts(pieces):
        first, *others = part.split(b"\n")
        begun.append(first)
        size += len(first)
        _check_length(size, number + 1, limits)
        if not others:
            continue
        whole = [b"".join(begun), *others[:-1]]
        _check(whole, number, limits)
        number += len(whole)
        yield from whole
        begun, size = [others[-1]], len(others[-1])
        _check_length(size, number + 1, limits)
    yield b"".join(begun)


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces, large ones in parts: a piece may hold millions of lines, and each line is an object."""
    for piece in pieces:
        if len(piece) <= _PART:
            yield piece
        else:
            yield from (piece[at : at + _PART] for at in range(0, len(piece), _PART))


def _check(lines: list[bytes], before: int, limits: Limits) -> None:
    # One check for all lines of a part, for each line passes here. One by one only if it fails.
    if before + len(lines) <= limits.lines_most and max(map(len, lines), default=0) <= limits.line_bytes:
        return
    for number, line in enumerate(lines, before + 1):
        if number > limits.lines_most:
            raise refuse(
                Reason.TOO_MANY_ITEMS, f"the file has {number} lines or more, the limit is {limits.lines_most}"
            )
        _check_length(len(line), number, limits)


def _check_length(size: int, number: int, limits: Limits) -> None:
    if size > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"line {number} has {size} bytes or more, the limit is {limits.line_bytes}")


def _without_mark(first: bytes) -> bytes:
    if first.startswith(_UTF16):
        raise refuse(Reason.NOT_UTF8, "the file begins with the byte order mark of UTF-16")
    return first.removeprefix(codecs.BOM_UTF8)
