"""Streams of a result: packed behind its first frame, carried by message or blob, and never unpacked on their way."""

import base64
import hashlib
import os
from dataclasses import replace
from io import BytesIO

import msgspec
import pytest

from shared.errors import RefusedError, ResultRefusedError
from shared.ledger import result_blob
from shared.messages import ChunkMessage, PortionMessage
from shared.payload import Limits
from shared.pipeline import streams
from shared.pipeline.outputs import Ran
from shared.pipeline.results import (
    CONTENT_MOST,
    ChunkResult,
    ResultStore,
    open_content,
    pack_result,
    read_result,
    unpack_result,
)
from shared.pipeline.streams import FRAME_BYTES, StreamFrame, StreamWriter, split_streams
from shared.refusals import Reason
from shared.zstd import ZstdFile

CHUNK = ChunkMessage(job="j", chunk=3, revision=1, workload="w", codec="plain", frames=[], first_id=7)
PLAIN = Ran(PortionMessage(items=2), PortionMessage(items=1), {"a": 1}, b'{"number":8}\n')


def stream_of(*batches):
    """Return the stream of these batches of lines."""
    writer = StreamWriter()
    for batch in batches:
        writer.add(batch, batch.count(b"\n"))
    return writer.close()


def noise(lines, size=1000):
    """Return so many lines that hardly get smaller."""
    return [base64.b64encode(os.urandom(size * 3 // 4)) + b"\n" for _ in range(lines)]


def packed_of(**found):
    """Return the packed result of a run with these streams."""
    return pack_result(CHUNK, replace(PLAIN, streams=found), Limits())


def unpack_all(packed):
    """Return the lines of frames that lie side by side."""
    with ZstdFile(BytesIO(packed)) as file:
        return file.read()


def opened(text):
    """Return the head, and the streams, of a result that a message has."""
    content, rest = unpack_result("r", base64.b64decode(text))
    result, _ = read_result(content)
    return result, split_streams("r", result.streams, rest)


def test_a_result_without_streams_has_the_bytes_of_before():
    """Its head does not name them, and nothing is behind its frame."""
    packed = packed_of()
    head, rejections = unpack_result("r", packed.content)[0].split(b"\n", 1)
    assert rejections == PLAIN.rejections
    assert not {"streams", "v"} & msgspec.json.decode(head).keys()


def test_streams_travel_in_the_message_and_their_lines_come_out_whole():
    """The first one need not be the lines: any stream takes the same road."""
    parked, lines = stream_of(b'{"n":1}\n'), stream_of(b'{"a":1}\n', b'{"a":2}\n{"a":3}\n')
    packed = packed_of(parked=parked, lines=lines)
    assert packed.travels
    assert packed.stored.lines == lines.head.length
    assert packed.stored.length == len(packed.first) + parked.head.length + lines.head.length
    content = open_content("r", packed.text, packed.stored.hash, packed.stored.lines)
    assert len(content) == packed.stored.length
    assert content.endswith(lines.read())
    result, found = opened(packed.text)
    assert (result.v, result.streams["lines"].items, result.streams["lines"].bytes) == (2, 3, 24)
    assert {name: unpack_all(one) for name, one in found.items()} == {
        "parked": b'{"n":1}\n',
        "lines": b'{"a":1}\n{"a":2}\n{"a":3}\n',
    }


def test_the_hash_of_a_result_covers_its_streams():
    """Two runs whose lines differ have different results; the same lines in other batches are the same."""
    one, same, other = (
        packed_of(lines=stream_of(*batches)).stored.hash
        for batches in ([b'{"a":1}\n', b'{"a":2}\n'], [b'{"a":1}\n{"a":2}\n'], [b'{"a":1}\n{"a":3}\n'])
    )
    assert (one == same, one == other) == (True, False)


def test_a_settler_refuses_a_stream_that_is_not_what_the_head_says():
    """A bit of it, its end, bytes behind it, or its length in the message."""
    packed = packed_of(lines=stream_of(b'{"a":1}\n'))
    whole, lines = base64.b64decode(packed.text), packed.stored.lines
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    for broken, said in (
        (flipped, lines),
        (whole[:-1], lines),
        (whole + b"x", lines),
        (packed.first, lines),
        (whole, None),
        (whole, lines - 1),
    ):
        with pytest.raises(ResultRefusedError):
            open_content("r", base64.b64encode(broken).decode(), packed.stored.hash, said)


def test_bytes_behind_a_result_without_streams_are_refused():
    """No version writes them."""
    packed = packed_of()
    text = base64.b64encode(packed.content + b"x").decode()
    with pytest.raises(ResultRefusedError, match="1 bytes follow the first frame"):
        open_content("r", text, packed.stored.hash)


def test_a_long_stream_has_frames_of_bounded_size():
    """A reader takes whole frames, so each bounds its memory; together they are one stream."""
    line = b'{"text":"' + b"x" * 990 + b'"}\n'
    many = 2 * FRAME_BYTES // len(line) + 10
    stream = stream_of(*[line] * many)
    frames = stream.head.list_frames()
    assert len(frames) == 3
    assert sum(frame.items for frame in frames) == stream.head.items == many
    assert sum(frame.bytes for frame in frames) == stream.head.bytes == many * len(line)
    assert sum(frame.length for frame in frames) == stream.head.length
    assert all(frame.bytes < FRAME_BYTES + len(line) for frame in frames)
    packed, place = stream.read(), 0
    for frame in frames:
        assert len(unpack_all(packed[place : place + frame.length])) == frame.bytes
        place += frame.length
    assert stream.head.sha256 == hashlib.sha256(packed).hexdigest()


def test_a_short_stream_names_no_frames():
    """It is one."""
    head = stream_of(b"{}\n").head
    assert head.frames == []
    assert head.list_frames() == [StreamFrame(1, 3, head.length)]
    assert StreamWriter().close() is None


def test_a_stream_beyond_its_bound_refuses_the_result(monkeypatch):
    """So no chunk fills the disk of its worker."""
    monkeypatch.setattr(streams, "STREAM_MOST", 100)
    writer = StreamWriter()
    writer.add(b"x" * 99 + b"\n", 1)
    with pytest.raises(RefusedError) as refused:
        writer.add(b"\n", 1)
    assert refused.value.reason == Reason.RESULT_TOO_LARGE


def test_a_large_result_goes_to_its_blob_once_and_is_found_there(world):
    """It is written from its file, and what is stored has the bytes that its hash covers."""
    lines = noise(2_000)
    packed = packed_of(lines=stream_of(*lines))
    assert packed.stored.length > CONTENT_MOST
    assert not packed.travels
    with world.process() as process:
        store: ResultStore = process.results
        assert store.put(packed) == packed.stored
        # A second time, after a lost reply: the spool is read from its begin again.
        assert store.put(packed) == packed.stored
        assert store.find(CHUNK) == packed.stored
        blob = process.connections.blobs.get_blob_client("results", result_blob("j", 1, 3)).download_blob().readall()
    content, rest = unpack_result("r", blob)
    result = msgspec.json.decode(content.split(b"\n", 1)[0], type=ChunkResult)
    assert unpack_all(split_streams("r", result.streams, rest)["lines"]) == b"".join(lines)
