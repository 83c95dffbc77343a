"""Lines of transactions, from the workers' results to the parts: each once, in order, in parts of bounded size, still packed."""

import base64
import json
import os
from dataclasses import replace

import msgspec
import pytest
import zstandard

from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import ChunkRow, ChunkState, JobState, Portion, Totals
from shared.messages import STREAMS_VERSION, ChunkMessage, Result
from shared.payload import Limits
from shared.pipeline import line_parts, results, streams
from shared.pipeline.outputs import Outputs, run_in_parts
from shared.pipeline.results import ResultStore, pack_result
from shared.pipeline.segments import SEGMENT_BYTES, SEGMENT_LINES, SegmentBlobs, cut, weigh
from shared.telemetry import events
from shared.workloads import Line, Rejected, Workloads
from tests.ledger.builders import NOON
from tests.ledger.world import PER_CHUNK

#: Lines of a chunk: two of each transaction but the rejected one.
OF_A_CHUNK = 2 * (PER_CHUNK - 1)


class Reading(msgspec.Struct):
    """One transaction."""

    name: str
    text: str = ""


class Lined:
    """Makes two lines of a transaction, or one with its text, and nothing else."""

    name, transaction, sums = "lined", Reading, ()

    def map(self, reading, number):
        """Reject by name."""
        return Rejected("bad") if reading.name == "bad" else reading.name.upper()

    def lines(self, reading, number, value):
        """Yield lines with number and value."""
        yield Line({"number": number, "value": value, "text": reading.text})
        if not reading.text:
            yield Line({"number": number, "again": True})


class Counted(Lined):
    """Has totals beside its lines, split by name."""

    name, partial = "lined", dict[str, int]

    def combine(self, mapped):
        """Count the names."""
        return {name: mapped.count(name) for name in sorted(set(mapped))}

    def merge(self, left, right):
        """Add the counts."""
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}

    def finish(self, partial):
        """Yield a line for each name."""
        for name, count in sorted(partial.items()):
            yield Line({"name": name, "count": count})


LINED = Workloads([Lined()]).find("lined")


def readings(texts):
    """Return the transactions of a chunk; the third one is rejected."""
    return [json.dumps({"name": "bad" if n == 2 else f"n{n}", "text": text}).encode() for n, text in enumerate(texts)]


def accepted(chunks):
    """Return the numbers of the accepted transactions."""
    return [chunk * PER_CHUNK + n for chunk in chunks for n in range(PER_CHUNK) if n != 2]


def processed(world, number, *, texts=("",) * PER_CHUNK, revision=1, workload=LINED):
    """Run a chunk as a Processor does, and return its message. Long lines lie in its blob."""
    chunk = ChunkMessage(
        job="nightly", chunk=number, revision=revision, workload="lined", codec="plain", frames=[],
        first_id=number * PER_CHUNK, lines=True, v=3,
    )  # fmt: skip
    ran = run_in_parts(workload, [readings(texts)], chunk.first_id, Limits(), makes_lines=True)
    packed = pack_result(chunk, ran, Limits())
    if not packed.travels:
        ResultStore(world.container("results")).put(packed)
    return Result(
        job=chunk.job,
        chunk=number,
        revision=revision,
        blob=None if packed.travels else packed.stored.name,
        content=packed.text if packed.travels else None,
        hash=packed.stored.hash,
        length=packed.stored.length,
        lines=packed.stored.lines,
        accepted=ran.accepted,
        rejected=ran.rejected,
        v=STREAMS_VERSION,
    )


@pytest.fixture
def lined(make_world):
    """Make a world whose job has lines, of so many chunks."""

    def make(chunks, workload=None, **options):
        world = make_world(chunks=chunks, workload=workload or Lined(), **options)
        job = world.job()
        assert world.checked_ledger.commit(replace(job, lines=True, declared={}, items=chunks * PER_CHUNK), [])
        return world

    return make


def parts(world, revision=1):
    """Return the names of the parts with lines, and the lines of each."""
    return {
        part["name"]: part["items"] for part in world.manifest(revision)["parts"] if part["name"].startswith("lines")
    }


def test_each_accepted_transaction_has_its_lines_once_in_the_order_of_the_chunks(lined):
    """Whatever order the results came in. They travelled in their messages, and lie in one blob."""
    world = lined(3)
    world.settle(*(processed(world, n) for n in (2, 0, 1)))
    assert world.finish_all()
    assert (world.job().state, world.job().problem) == (JobState.COMPLETE, None)
    found = world.lines("lines")
    assert [line["number"] for line in found] == [number for number in accepted(range(3)) for _ in range(2)]
    assert [line["value"] for line in found[::2]] == [f"N{number % PER_CHUNK}" for number in accepted(range(3))]
    assert parts(world) == {"lines-000000-000000.ndjson.zst": 3 * OF_A_CHUNK}
    assert world.lines("output") == []
    assert len(world.lines("rejected")) == 3


def test_rows_name_the_packed_bytes_of_their_lines(lined):
    """By them a finisher knows where the lines begin, and cuts segments."""
    world = lined(1)
    message = processed(world, 0)
    world.settle(message)
    (row,) = world.checked_ledger.rows("nightly")
    assert (row.lines, row.length) == (message.lines, message.length)
    assert 0 < row.lines < row.length


@pytest.mark.parametrize("workload", [Lined, Counted])
def test_segments_copy_the_lines_and_the_end_counts_them(lined, workload):
    """Each segment has parts of its own; the note of each says how many lines."""
    world = lined(5, workload(), segment_chunks=2)
    made = Workloads([workload()]).find("lined")
    world.settle(*(processed(world, n, workload=made) for n in range(5)))
    world.finish_all()
    assert world.job().state is JobState.COMPLETE
    assert parts(world) == {
        "lines-000000-000000.ndjson.zst": 2 * OF_A_CHUNK,
        "lines-000001-000000.ndjson.zst": 2 * OF_A_CHUNK,
        "lines-000002-000000.ndjson.zst": OF_A_CHUNK,
    }
    assert [line["number"] for line in world.lines("lines")][::2] == accepted(range(5))
    expected = [{"name": f"N{n}", "count": 5} for n in range(PER_CHUNK) if n != 2] if workload is Counted else []
    assert world.lines("output") == expected


def long_texts():
    """Return texts that hardly pack."""
    return [base64.b64encode(os.urandom(45_000)).decode() for _ in range(PER_CHUNK)]


def test_long_lines_are_read_by_themselves_in_bounded_pieces(lined, monkeypatch):
    """Frames that do not fit one read come by several, and the parts end where their bounds are."""
    monkeypatch.setattr(results, "LINES_TOGETHER", 100)
    monkeypatch.setattr(streams, "FRAME_BYTES", 100_000)
    monkeypatch.setattr(streams, "_PACKED_AT_ONCE", 1)
    monkeypatch.setattr(line_parts, "PACKED_MOST", 150_000)
    monkeypatch.setattr("shared.workloads.lines._AT_ONCE", 1)
    world = lined(2)
    texts = [long_texts(), long_texts()]
    messages = [processed(world, n, texts=of_chunk) for n, of_chunk in enumerate(texts)]
    assert all(message.blob for message in messages)
    world.settle(*messages)
    world.finish_all()
    assert world.job().state is JobState.COMPLETE
    assert list(parts(world).values()) == [2, 2, 2, 3] * 2
    found = world.lines("lines")
    assert [line["number"] for line in found] == accepted(range(2))
    assert [line["text"] for line in found] == [
        texts[number // PER_CHUNK][number % PER_CHUNK] for number in accepted(range(2))
    ]


@pytest.mark.parametrize("together", [100, 10**9], ids=["by themselves", "with the result"])
def test_lines_that_were_changed_in_storage_pause_the_job(lined, monkeypatch, together):
    """Nothing of them is published."""
    monkeypatch.setattr(results, "LINES_TOGETHER", together)
    world = lined(1)
    message = processed(world, 0, texts=long_texts())
    blob = world.container("results").get_blob_client(message.blob)
    content = bytearray(blob.download_blob().readall())
    content[-10] ^= 1
    blob.upload_blob(bytes(content), overwrite=True)
    world.settle(message)
    with pytest.raises(ResultRefusedError, match="hash in"):
        world.finish()
    assert world.job().state is JobState.PAUSED


def test_a_part_too_many_pauses_the_job(lined):
    """Another version may have cut the same revision in another way. The next revision takes nothing from it."""
    world = lined(2)
    outputs = Outputs(world.container("outputs"), "nightly", 1)
    outputs.put_part("lines-000007-000000", zstandard.compress(b"{}\n"), 1)
    world.settle(*(processed(world, n) for n in range(2)))
    with pytest.raises(
        FinishRefusedError, match=f"{2 * OF_A_CHUNK + 1} lines in its outputs 'lines', and {2 * OF_A_CHUNK} were made"
    ):
        world.finish()
    assert world.job().state is JobState.PAUSED


def test_a_finish_that_is_repeated_writes_the_same_parts(lined, monkeypatch):
    """It is killed before the manifest, and the next one finds its parts."""
    world = lined(4, segment_chunks=2)
    world.settle(*(processed(world, n) for n in range(4)))
    monkeypatch.setattr(Outputs, "put_manifest", lambda *_: (_ for _ in ()).throw(ConnectionError))
    with pytest.raises(ConnectionError):
        world.finish_all()
    monkeypatch.undo()
    assert world.finish_all() or world.finish()
    assert world.job().state is JobState.COMPLETE
    assert [line["number"] for line in world.lines("lines")][::2] == accepted(range(4))


def test_a_replay_writes_all_lines_under_the_new_revision(lined):
    """The parked chunk had none before."""
    world = lined(2)
    world.settle(processed(world, 0), world.lost(1))
    world.finish_all()
    assert [line["number"] for line in world.lines("lines")][::2] == accepted([0])
    world.settle(processed(world, 1))
    world.finish_all()
    assert world.job().revision == 2
    assert [line["number"] for line in world.lines("lines", 2)][::2] == accepted(range(2))


def test_a_run_with_other_lines_is_told_and_the_first_one_counts(lined, told):
    """Such a workload breaks its promise. No line comes twice."""
    world = lined(1)
    first, second = processed(world, 0), processed(world, 0, texts=("x",) * PER_CHUNK)
    assert first.hash != second.hash
    world.settle(first)
    world.settle(second)
    assert told(events.RESULT_DIFFERS)
    world.finish_all()
    assert len(world.lines("lines")) == OF_A_CHUNK


def test_the_lines_of_a_message_are_no_longer_than_its_result(lined):
    """A finisher reads by these numbers with the app's own rights."""
    world = lined(1)
    message = processed(world, 0)
    wrong = msgspec.structs.replace(message, content=None, blob="nightly/1/0", lines=message.length)
    assert world.settle(wrong).parked == 1
    ((entry, _),) = world.parked.entries.values()
    assert "bytes of lines" in entry.found


def sized(*sizes):
    """Return the weights of chunks with these packed bytes: of all, and of their lines."""
    totals = Totals(Portion(1))
    return [
        weigh(
            ChunkRow(
                job="j",
                chunk=n,
                state=ChunkState.DONE,
                revision=1,
                settled_at=NOON,
                totals=totals,
                length=length,
                lines=lines,
                partial=0,
            )
        )
        for n, (length, lines) in enumerate(sizes)
    ]


def test_segments_are_cut_by_their_lines_too_which_weigh_less():
    """They are copied without being unpacked."""
    head, lines = SEGMENT_BYTES // 4, SEGMENT_LINES // 4
    assert cut(sized(*[(head + 8 * head, 8 * head)] * 4), 512, 1) == cut(sized(*[(head, None)] * 4), 512, 1)
    assert cut(sized(*[(lines + 10, lines)] * 8), 512, 1) == [(0, 3), (4, 7)]
    assert cut(sized((3 * SEGMENT_LINES, 2 * SEGMENT_LINES), (20, 10)), 512, 1)[0] == (0, 0)


def test_the_note_of_a_segment_without_lines_has_the_bytes_of_before(lined):
    """So a job of before ends alike under both versions."""
    world = lined(1)
    blobs = SegmentBlobs(world.container("results"), "nightly", 1)
    blobs.put(0, Totals(), [{}], {})
    blobs.put(1, Totals(), [{}], {}, lines=3)
    stored = [
        json.loads(
            zstandard.decompress(
                world.container("results").download_blob(f"nightly/1/finish/segment-00000{n}").readall()
            )
        )
        for n in range(2)
    ]
    assert stored[1] == stored[0] | {"lines": 3}
    assert "lines" not in stored[0]
