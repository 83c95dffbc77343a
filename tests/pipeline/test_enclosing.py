"""Chunks whose bytes fit travel in their messages: read once for all of them, and worked on without another request."""

import io
import random

import pytest
from msgspec.structs import replace

from shared.memory import Memory
from shared.messages import NEVER_HALTED, ChunkMessage, encode
from shared.payload import Codec, Limits, PayloadStore, PayloadStores
from shared.payload.frames import Framing, write_frames
from shared.payload.reading import WORK, PayloadReader
from shared.payload.submission import base64_bytes
from shared.pipeline.dispatch import Enclosing
from tests.faults.plan import Fault, Plan
from tests.faults.transport import FaultyTransport

#: Of a chunk: two frames of 20 lines; 199 lines are five chunks, the last of which is shorter.
LINES = [(n, b'{"n":%d}' % n) for n in range(199)]
IN_A_FRAME = 20


class Payload:
    """A payload in storage, the messages of its chunks, and the requests that are made for them."""

    def __init__(self, process, world, *, lines=LINES, faults=()):
        self.container = process().connections.blobs.get_container_client("payloads")
        spool = io.BytesIO()
        framed = write_frames(lines, spool, Framing(limits=Limits(frame_items=IN_A_FRAME), codec=Codec.PLAIN))
        self.blob = PayloadStore(self.container).put(world.job, spool, framed.index.stored, framed.sha256).name
        frames = [(one.offset, one.length, one.items, one.sha256) for one in framed.index.frames]
        self.messages = [
            ChunkMessage(
                job=world.job,
                chunk=first // 2,
                revision=1,
                workload="billing",
                codec=Codec.PLAIN.value,
                frames=frames[first : first + 2],
                first_id=first * IN_A_FRAME,
                blob=self.blob,
            )
            for first in range(0, len(frames), 2)
        ]
        #: Of what is requested from here on.
        self.plan = Plan(faults)
        connections = process(lambda: FaultyTransport(self.plan)).connections
        self.stores = PayloadStores(connections.blobs.get_container_client)

    def enclosed(self):
        """Return what goes on the queue."""
        return Enclosing(self.stores, Limits())(self.messages)


@pytest.fixture
def payload(process, world):
    """Make a payload, by default the one of five chunks."""
    return lambda **given: Payload(process, world, **given)


def long_lines(size):
    """Return two lines, each a frame, of so many bytes together that nothing makes smaller."""
    letters = random.Random(7)
    half = "".join(letters.choices("abcdefghijklmnop", k=size // 2 - len('{"n":""}\n')))
    return [(n, b'{"n":"%s"}' % half.encode()) for n in range(2)]


def test_all_chunks_are_read_by_one_request(payload):
    """Five chunks, one read."""
    given = payload()
    assert len(given.enclosed()) == 5
    assert [site.split("/")[0] for site in given.plan.sites] == ["GET payloads"]


def reader(stores):
    """Return what reads the parts of a chunk as a worker does."""

    def read(chunk):
        with PayloadReader(stores, Memory(WORK))(chunk) as parts:
            return list(parts)

    return read


def test_a_worker_reads_from_the_message_what_it_would_have_read_from_the_blob(payload):
    """Each chunk has its own lines and nobody else's, and costs no request any more."""
    given = payload()
    read, enclosed = reader(given.stores), given.enclosed()
    from_blob = [read(one) for one in given.messages]
    given.plan.sites.clear()
    assert [read(one) for one in enclosed] == from_blob
    assert [line for (lines,) in from_blob for line in lines] == [line for _, line in LINES]
    assert not given.plan.sites


def test_chunks_that_share_frames_are_enclosed_too(payload):
    """Each message has the whole frames that its lines are in: 30 of 40, the next 30, and so on."""
    given = payload()
    given.messages = [
        replace(given.messages[0], chunk=0, frames=given.messages[0].frames, part=(0, 30), v=2),
        replace(
            given.messages[0],
            chunk=1,
            frames=[given.messages[0].frames[1], given.messages[1].frames[0]],
            part=(10, 30),
            v=2,
        ),
    ]
    read, enclosed = reader(given.stores), given.enclosed()
    assert all(one.inline is not None for one in enclosed)
    assert [line for one in enclosed for (lines,) in (read(one),) for line in lines] == [line for _, line in LINES[:60]]


def test_nothing_else_of_a_message_changes(payload):
    """Ids, number and workload are those of the plan."""
    given = payload()
    for before, after in zip(given.messages, given.enclosed(), strict=True):
        assert after.blob is None
        assert [frame[1:] for frame in after.frames] == [frame[1:] for frame in before.frames]
        assert replace(after, inline=None, blob=before.blob, frames=before.frames) == before


@pytest.mark.parametrize(("size", "is_in_it"), [(48_000, True), (50_000, False)])
def test_a_chunk_that_does_not_fit_is_named_and_not_read(payload, size, is_in_it):
    """A message takes 64 KiB, with all that is around the bytes and in Base64."""
    given = payload(lines=long_lines(size))
    (message,) = given.enclosed()
    assert (message.inline is not None) == is_in_it
    assert len(given.plan.sites) == is_in_it


def test_the_bound_is_neither_passed_nor_missed(payload):
    """A message that is put once more has a mark and the number of a halt. With both it has 64 KiB at most, and no less."""
    lengths = {True: [], False: []}
    for size in range(48_960, 49_000, 2):
        given = payload(lines=long_lines(size))
        (message,) = given.enclosed()
        whole = replace(
            message, blob=None, inline=message.inline or "x" * base64_bytes(size), again=True, halts=NEVER_HALTED
        )
        lengths[message.inline is not None].append(len(encode(whole)))
    # Base64 comes in fours, and the offsets of a message that names its payload are no shorter.
    assert Limits().message_bytes - 4 < max(lengths[True]) <= Limits().message_bytes < min(lengths[False])


def test_of_chunks_of_which_one_does_not_fit_none_is_read(payload):
    """What is read for them is at most a hundred messages then."""
    given = payload(lines=[*LINES[:20], *LINES[:20], *long_lines(60_000), *LINES[:36]])
    assert given.enclosed() == given.messages
    assert not given.plan.sites


def test_a_payload_that_is_gone_is_left_for_the_workers_to_find(payload):
    """They park each chunk for it, and the dispatch goes on."""
    given = payload()
    given.container.delete_blob(given.blob)
    assert given.enclosed() == given.messages


def test_damaged_bytes_are_not_enclosed(payload):
    """Its worker reads the payload, and after a repair of the payload the parked message is worth replaying."""
    given = payload()
    content = given.container.download_blob(given.blob).readall()
    given.container.upload_blob(given.blob, content[:700].replace(b'"n":45', b'"n":46') + content[700:], overwrite=True)
    enclosed = given.enclosed()
    assert enclosed[1] == given.messages[1]
    assert [one.chunk for one in enclosed if one.inline is None] == [1]


def test_a_storage_that_does_not_answer_stops_nothing(payload):
    """Whoever works on a chunk reads it then."""
    given = payload(faults=[Fault(n, "503_before") for n in range(1, 6)])
    assert given.enclosed() == given.messages
    assert given.plan.fired


def test_what_is_in_the_plan_already_is_in_the_message_already(payload):
    """A small submission has its payload in its own message, and no blob."""
    given = payload()
    given.messages = [replace(one, blob=None, inline="e30K") for one in given.messages]
    assert given.enclosed() == given.messages
    assert not given.plan.sites


def test_no_chunks_are_no_request(payload):
    """A plan without chunks has ended."""
    given = payload()
    given.messages = []
    assert given.enclosed() == []
    assert not given.plan.sites
