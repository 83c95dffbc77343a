"""Reads the frames of a chunk back as lines.

A chunk is one ranged read. Each frame is verified when its turn comes: its hash, its expansion, its number of lines. Of a
frame that chunks share, each takes its own lines.

The functions `of_...` are upper bounds of the memory that work takes, by its sizes known beforehand. They are pure, and
measured with the built-in workloads. Memory that a workload keeps beside its partial is not in them.

Turns a payload of any form into an index and stored frames. A file is cut into lines within bounds, for any content.

A payload that has an index is not expanded here: each chunk is verified when it is processed.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final, Protocol

import msgspec

from shared.errors import RefusedError
from shared.grammar import payload_name, room_job
from shared.memory import Memory
from shared.messages import ChunkMessage
from shared.payload.frames import (
    Codec,
    Frame,
    FrameIndex,
    Framing,
    expand_at_most,
    expand_exactly,
    expand_file,
    expand_frame,
    frame_file,
    parse_index,
    sniff,
    spool_for,
    write_frames,
)
from shared.payload.payload_store import ANY_VERSION, KIB, MIB, Limits, PayloadStores, StoredBlob
from shared.payload.ranges import Ranges, read_range
from shared.payload.stretches import StretchStore, check_size, stretch_name
from shared.payload.submission import (
    Content,
    FileBlob,
    FramedBlob,
    FromJobs,
    Inline,
    Items,
    Stretched,
    Submission,
    check_count,
)
from shared.refusals import Reason, refuse


def read_frame(stored: bytes, frame: Frame, codec: Codec, limits: Limits) -> bytes:
    """Return the lines of one frame, or refuse it."""
    where = f"the frame at {frame.offset}"
    if len(stored) != frame.length:
        raise refuse(Reason.LENGTH_MISMATCH, f"{where} has {len(stored)} bytes, its index says {frame.length}")
    if hashlib.sha256(stored).hexdigest() != frame.sha256:
        raise refuse(Reason.HASH_MISMATCH, f"{where} does not have the hash {frame.sha256!r} of its index")
    text = expand_frame(stored, codec, limits)
    if not text.endswith(b"\n"):
        raise refuse(Reason.LAST_LINE_OPEN, f"{where} ends with {text[-1:]!r}")
    if (lines := text.count(b"\n")) != frame.items:
        raise refuse(Reason.LINE_COUNT, f"{where} has {lines} lines, its index says {frame.items}")
    return text


#: Memory of one process for chunks and submissions together, for finishes of small jobs, and for those of large jobs.
WORK, SMALL_FINISHES, LARGE_FINISHES = 224 * MIB, 48 * MIB, 160 * MIB
#: The memory from which a finish counts as large.
LARGE: Final = 8 * MIB
#: Any message, with the buffers of the storage clients for it.
_ANY: Final = 256 * KIB
#: Per expanded byte: the text, its lines, and strings of up to four bytes per character.
_OF_A_BYTE: Final = 6
#: Per transaction: its objects while its part runs, and those that remain until the result is stored.
_OF_AN_ITEM, _LEFT_OF_AN_ITEM = 700, 500
#: A block of the file, its expanded bytes, the frame made from them, and the window of its compression.
_OF_A_FILE: Final = 40 * MIB
#: Per byte of an index, per byte of a message, per frame in both index and plan, and per byte of a merged partial.
_OF_AN_INDEX, _OF_A_MESSAGE, _OF_A_FRAME, _OF_A_MERGED_BYTE = 4, 64, KIB, 10
#: Per row of a plan. A chunk that begins inside a frame lists it once more.
_OF_A_ROW: Final = 600


def of_chunk(stored: int, expanded: int, items: int, limits: Limits) -> int:
    """Return the memory of a chunk: its stored bytes, the objects of one part, and its result."""
    part = min(expanded, limits.part_bytes + limits.frame_expanded_most)
    run = part * _OF_A_BYTE + min(items, limits.part_items) * _OF_AN_ITEM
    return _ANY + 2 * stored + run + items * _LEFT_OF_AN_ITEM


def of_submission(content: Content, chunk_items: int, limits: Limits) -> int:
    """Return the memory of a submission, from taking in its payload until its plan is stored."""
    if isinstance(content, Items):
        return limits.message_bytes * _OF_A_MESSAGE
    index = None if isinstance(content, FileBlob | FromJobs | Stretched) else content.index
    rows = min((limits.items_most if index is None else index.items) // chunk_items, limits.chunks_most) * _OF_A_ROW
    if index is not None:
        return limits.message_bytes * _OF_A_MESSAGE + rows
    return rows + (_OF_A_FILE if isinstance(content, FileBlob) else limits.index_bytes * _OF_AN_INDEX)


def of_sources(items: int, chunk_items: int, part: int, limits: Limits) -> int:
    """Return the memory of a job from others: the file that is framed, a part of an output, and the plan."""
    return _OF_A_FILE + part + min(items // chunk_items, limits.chunks_most) * _OF_A_ROW


def of_range() -> int:
    """Return the memory of cutting a range."""
    return _ANY + _OF_A_FILE


def of_plan(frames: int, items: int, chunk_items: int, limits: Limits) -> int:
    """Return the memory of an index and its plan."""
    return _ANY + frames * _OF_A_FRAME + min(items // chunk_items, limits.chunks_most) * _OF_A_ROW


def of_dispatch(chunks: int, rows: int) -> int:
    """Return the memory of a dispatch: the job's plan, and a hundred messages with their bytes."""
    return _ANY + rows * _OF_A_ROW + min(chunks, 100) * 2 * 64 * KIB


def most_rows(chunks: int, items: int, limits: Limits) -> int:
    """Return the upper bound of the rows of a plan: each chunk lists its frames."""
    return min(chunks * limits.chunk_frames_most, limits.frames_most + chunks, items + chunks)


def of_finish(partial: int) -> int:
    """Return the memory of merging partials of so many bytes of JSON, and of a part that is written."""
    return MIB + partial * _OF_A_MERGED_BYTE


class ReadChunk(Protocol):
    """Reads the lines of a chunk. Raises RefusedError if its bytes are wrong, which no retry changes."""

    def __call__(self, chunk: ChunkMessage, /) -> AbstractContextManager[Iterator[list[bytes]]]:
        """Read them part by part, and hold memory for them and their result until the end."""
        ...


class PayloadReader:
    """ReadChunk over the containers of payloads, or over the bytes in the message."""

    def __init__(self, stores: PayloadStores, memory: Memory, limits: Limits | None = None) -> None:
        self._stores, self._memory, self._limits = stores, memory, limits or Limits()

    @contextmanager
    def __call__(self, chunk: ChunkMessage, /) -> Iterator[Iterator[list[bytes]]]:
        """Yield one line for each transaction, without its line feed, in parts of bounded size."""
        frames, codec = [Frame(*frame) for frame in chunk.frames], _codec(chunk.codec)
        offset, length = _range(frames, self._limits)
        skip, items = _lines_taken(chunk, frames)
        most = sum(expand_at_most(frame.length, codec, self._limits) for frame in frames)
        with self._memory.hold(of_chunk(length, most, items, self._limits)) as held:
            stored = self._fetch(chunk, offset, length)
            pieces = [stored[at : at + frame.length] for frame in frames for at in (frame.offset - offset,)]
            expanded = sum(expand_exactly(piece, codec, self._limits) for piece in pieces)
            # Nearly all frames claim their expanded size, and are refused if they are larger.
            held.keep(of_chunk(length, expanded, items, self._limits))
            texts: Iterable[bytes] = (
                read_frame(piece, frame, codec, self._limits) for piece, frame in zip(pieces, frames, strict=True)
            )
            yield _parts_of(texts if chunk.part is None else _take(texts, skip, items), self._limits)

    def _fetch(self, chunk: ChunkMessage, offset: int, length: int) -> bytes:
        if chunk.inline is not None:
            return _inline(chunk.inline)[offset : offset + length]
        if chunk.blob is None:
            raise refuse(Reason.PAYLOAD_FORM, "it has neither a blob nor inline bytes")
        # A publisher that drops the same payload again gives its blob another ETag and the same bytes. Any version may
        # be read, for each frame is verified by its hash.
        blob = StoredBlob(chunk.blob, chunk.etag or ANY_VERSION, offset + length)
        return self._stores.holding(chunk.job, is_kept=chunk.is_kept).read_touched(blob, offset, length)


def _take(texts: Iterable[bytes], skip: int, items: int) -> Iterator[bytes]:
    """Yield so many lines, without the first `skip`."""
    for text in texts:
        begin = _behind(text, skip)
        taken = text[begin : _behind(text, skip + items)]
        yield taken
        skip, items = 0, items - taken.count(b"\n")


def _behind(text: bytes, lines: int) -> int:
    """Return the position behind so many lines, or the end. Halving makes no object per line."""
    low, high = 0, len(text)
    while lines and high - low > 1:
        middle = (low + high) // 2
        found = text.count(b"\n", low, middle)
        low, high, lines = (middle, high, lines - found) if found < lines else (low, middle, lines)
    return high if lines else low


def _parts_of(texts: Iterable[bytes], limits: Limits) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for text in texts:
        lines = text.split(b"\n")[:-1]
        if part and (len(part) + len(lines) > limits.part_items or size + len(text) > limits.part_bytes):
            yield part
            part, size = [], 0
        part, size = part + lines if part else lines, size + len(text)
        while len(part) > limits.part_items:
            yield part[: limits.part_items]
            part = part[limits.part_items :]
    if part:
        yield part


def _range(frames: list[Frame], limits: Limits) -> tuple[int, int]:
    """Return offset and length of the chunk's bytes, or refuse frames with a gap between them."""
    if not frames:
        raise refuse(Reason.EMPTY, "the chunk has no frames")
    end = frames[0].offset
    for frame in frames:
        if frame.offset != end or frame.length < 1:
            raise refuse(Reason.BAD_INDEX, f"a frame begins at {frame.offset}, the one before it ends at {end}")
        end += frame.length
    if (items := max(frame.items for frame in frames)) > limits.frame_items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"a frame has {items} transactions, the limit is {limits.frame_items_most}")
    length = end - frames[0].offset
    if length > limits.chunk_stored_most:
        raise refuse(Reason.FRAME_TOO_LARGE, f"the chunk has {length} bytes, the limit is {limits.chunk_stored_most}")
    return frames[0].offset, length


def _lines_taken(chunk: ChunkMessage, frames: list[Frame]) -> tuple[int, int]:
    """Return the lines to skip and to take, or refuse a part that its frames do not have or need."""
    lines = sum(frame.items for frame in frames)
    skip, items = chunk.part or (0, lines)
    if skip >= frames[0].items or not lines - frames[-1].items < skip + items <= lines or not items:
        found = f"the chunk takes {items} lines behind {skip} of frames that have {lines}"
        raise refuse(Reason.BAD_INDEX, found)
    return skip, items


def _codec(name: str) -> Codec:
    try:
        return Codec(name)
    except ValueError as error:
        raise refuse(Reason.UNKNOWN_CODEC, f"the codec is {name[:50]!r}") from error


def _inline(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        # A ValueError: text that is not ASCII raises no binascii.Error.
        raise refuse(Reason.BAD_BASE64, str(error)) from error


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
    #: Of a payload that grows: the hash of the blob of this stretch, which is its first.
    chain: str | None = None
    #: Of a file that is cut by ranges: these, and how many of them were read until one had lines.
    ranges: Ranges | None = None
    stretches: int = 1


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
        case FromJobs(jobs, sums, files):
            content_sha256, form = _hash((jobs, sorted(sums.items()), files)), ("", "")
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
    content = submission.workload, submission.gate, submission.declared.items, declared, content_sha256
    # Only where there is one: the hashes of earlier versions stay.
    return (*content, submission.after) if submission.after else content


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

    def take(self, submission: Submission, *, whole: bool = False) -> Payload:
        """Return the payload, after framing and storing a file. Refuse one that differs from its index or declaration.

        A large plain file is framed as far as its first range with lines, unless it must be taken whole.
        """
        payload = self._take(submission.job, submission.content, whole=whole)
        if payload.chain is None:
            check_count(submission.declared, payload.index)
        return payload

    def look(self, job: str) -> Payload:
        """Return the first stretch of a payload that grows, without its bytes. One request."""
        found = StretchStore(self._stores.container_of(self._room), self._limits).read(job, 0)
        if found is None or found.index is None:
            raise refuse(Reason.PAYLOAD_MISSING, f"blob {stretch_name(job, 0)!r} does not exist")
        if found.previous:
            raise refuse(Reason.INDEX_MISMATCH, f"the first stretch of job {job!r} follows {found.previous[:70]!r}")
        blob = StoredBlob(found.blob, ANY_VERSION, found.index.stored)
        # By its lines, and not by how they are compressed: a publisher that begins anew may have another library.
        return Payload(found.index, found.codec, blob, None, found.text, form=("stretches", ""), chain=found.sha256)

    def _first_stretch(self, job: str) -> Payload:
        payload = self.look(job)
        if payload.blob is not None:
            check_size(payload.blob, self._store.find)
        return payload

    def _take(self, job: str, content: Content, *, whole: bool) -> Payload:
        if isinstance(content, Items):
            lines = list(enumerate(content.lines, 1))
            return self._in_message(lines, hashlib.sha256(b"\n".join(content.lines)).hexdigest())
        if isinstance(content, Inline):
            return self._inline(content, job)
        if isinstance(content, FramedBlob):
            return self._frame(content, job)
        if isinstance(content, Stretched):
            return self._first_stretch(job)
        if isinstance(content, FileBlob):
            return self._file(content, job, whole=whole)
        raise refuse(Reason.PAYLOAD_FORM, "what other jobs make is taken when they have ended")

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
        return replace(self.frame_again([content.stored], codec, job), content_sha256=content_sha256)

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

    def _file(self, content: FileBlob, job: str, *, whole: bool) -> Payload:
        blob = self._store.find(content.name)
        if blob.size > self._limits.whole_bytes and not whole and self._is_plain(blob, content.codec):
            return self._first_range(job, blob)
        if blob.size > self._limits.stored_most:
            most = self._limits.stored_most
            raise refuse(Reason.PAYLOAD_TOO_LARGE, f"{blob.name!r} has {blob.size} bytes, the limit is {most}")
        digest = hashlib.sha256()
        pieces = _hash_stream(self._store.stream(blob), digest.update)
        head = next(pieces, b"")
        payload = self.frame_again(chain([head], pieces), content.codec or sniff(head), job)
        # Only now is every piece hashed.
        return replace(payload, content_sha256=digest.hexdigest())

    def _is_plain(self, blob: StoredBlob, codec: Codec | None) -> bool:
        return (sniff(self._store.read(blob, 0, 4)) if codec is None else codec) is Codec.PLAIN

    def _first_range(self, job: str, blob: StoredBlob) -> Payload:
        if blob.size > (most := self._limits.of_stretches().expanded_most):
            raise refuse(Reason.PAYLOAD_TOO_LARGE, f"{blob.name!r} has {blob.size} bytes, the limit is {most}")
        ranges = Ranges.of(blob, self._limits)
        for number in range(ranges.count):
            cut = self.cut_range(job, blob, *ranges.bytes_of(number))
            if cut is not None:
                # By the file, not by its first range.
                return replace(
                    cut, content_sha256=ranges.content, chain=cut.content_sha256, ranges=ranges, stretches=number + 1
                )
        raise refuse(Reason.EMPTY, "there was no line")

    def cut_range(self, job: str, blob: StoredBlob, start: int, end: int) -> Payload | None:
        """Return the lines that begin in a range of a file as a payload, after framing and storing them. None: it has none."""
        pieces = read_range(partial(self._store.read, blob), blob.size, start, end, self._limits)
        try:
            return self.frame_again(pieces, Codec.PLAIN, job, before=min(1, start))
        except RefusedError as refused:
            if refused.reason == Reason.EMPTY:
                return None
            where = f"bytes {start:,} to {end:,} of {blob.name!r}"
            raise RefusedError(refused.reason, f"{where}: {refused.found}", refused.instead) from refused

    def find_same(self, blob: StoredBlob) -> StoredBlob | None:
        """Return the version of a file that is there, if its content is the same. None: it is another, or not known."""
        found = self._store.find(blob.name)
        return found if blob.md5 and (found.md5, found.size) == (blob.md5, blob.size) else None

    def frame_again(self, pieces: Iterable[bytes], codec: Codec, job: str, before: int = 0) -> Payload:
        """Return the payload of lines in any pieces, after framing and storing them."""
        framing = replace(self._framing, before=before)
        with spool_for(self._limits) as spool:
            framed = frame_file(expand_file(pieces, codec, self._limits), spool, framing)
            kept = self._stores.store_of_done().put(
                room_job(self._room, job), spool, framed.index.stored, framed.sha256
            )
        return Payload(framed.index, framed.codec, kept, None, framed.sha256, is_kept=True, form=(codec.value, ""))


def _hash_stream(pieces: Iterable[bytes], update: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece
