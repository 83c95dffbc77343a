"""Results that come in their messages, several in one: each is credited, refused or parked by itself, and kept."""

import base64
import hashlib
import json
from dataclasses import replace

import msgspec
import pytest
import zstandard

from shared.ledger import ChunkState, JobState
from shared.ledger.settlement import row_of
from shared.messages import Result, Results, decode, encode
from shared.parked import Stages, park_dead_result
from shared.parked.parking import Parking
from shared.pipeline.results import assemble
from shared.pipeline.settle import LONGEST_BODY, Settled, settle_stage
from shared.telemetry import events
from tests.ledger.builders import NOON, brought, job, parked, result
from tests.ledger.stage import MemoryParked, Stage
from tests.ledger.test_settle import OutagesLedger, check


@pytest.fixture
def stage(ledger):
    """A settler over an accepted job of three chunks."""
    ledger.insert(job())
    return Stage(ledger)


def bundle(*results):
    """Return the message that brings these results together."""
    return encode(Results(results=list(results)))


def kept(stage, name="nightly"):
    """Return what each done row of a job leads to, unpacked, after checking it against the row."""
    found = {}
    for row in stage.ledger.rows(name):
        if row.state is ChunkState.DONE:
            content = zstandard.decompress(stage.groups.blobs[row.blob][row.offset : row.offset + row.length])
            assert hashlib.sha256(content).hexdigest() == row.hash
            found[row.chunk] = content
    return found


def test_a_message_with_results_of_two_jobs_leaves_a_blob_for_each(ledger, stage):
    """In the order of the chunks' numbers, under the hash of what is in it: `zstd -d` reads the whole."""
    ledger.insert(job(job="weekly"))
    assert stage.settle(bundle(brought(2), brought(0, job="weekly"), brought(1))) == Settled(credited=3)
    assert kept(stage) == {1: b"a result of chunk 1", 2: b"a result of chunk 2"}
    assert kept(stage, "weekly") == {0: b"a result of chunk 0"}
    (name,) = {row.blob for row in ledger.rows("nightly")}
    content = stage.groups.blobs[name]
    assert name == f"nightly/groups/{hashlib.sha256(content).hexdigest()}"
    whole = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read()
    assert whole == b"a result of chunk 1a result of chunk 2"


def test_a_result_alone_and_one_in_a_blob_of_its_own_are_credited_beside_them(stage):
    """Large results lie in blobs of their own, also those of earlier versions; a parked one has none."""
    assert stage.settle(brought(0), bundle(result(1), parked(2))) == Settled(credited=3)
    rows = stage.ledger.rows_of("nightly", range(3))
    assert (rows[1].blob, rows[1].offset) == ("nightly/1/1", None)
    assert (rows[2].state, rows[2].blob) == (ChunkState.PARKED, None)
    assert rows[0].blob in stage.groups.blobs


def test_results_without_content_leave_no_blob(stage):
    """Nobody pays for a blob of nothing."""
    stage.settle(bundle(result(0), parked(1)))
    assert stage.groups.blobs == {}


@pytest.mark.parametrize(
    "bad",
    [
        brought(1, hash="0" * 64),
        brought(1, content="not Base64"),
        brought(1, content=base64.b64encode(b"no frame").decode()),
        brought(1, content=base64.b64encode(zstandard.compress(b"a result of chunk 1")[:-1]).decode()),
        brought(1, b"x" * (5 * 1024 * 1024)),
        brought(1, content=base64.b64encode(b"\x28\xb5\x2f\xfd" + b"0" * 49_152).decode()),
        brought(1, blob="nightly/1/1"),
        brought(7),
    ],
    ids=[
        "other hash",
        "no Base64",
        "no frame",
        "cut off",
        "too large unpacked",
        "too large",
        "also a blob",
        "no such chunk",
    ],
)
def test_one_bad_result_in_a_message_is_parked_alone(stage, bad):
    """Under its own key, as a message of its own: it has nothing of the others."""
    assert stage.settle(bundle(brought(0), bad, brought(2))) == Settled(credited=2, parked=1)
    ((entry, body),) = stage.parked.entries.values()
    assert (entry.reason, entry.chunk, decode(body)) == ("result_refused", bad.chunk, bad)
    assert sorted(kept(stage)) == [0, 2]


def test_a_result_that_nobody_may_read_is_parked_alone(stage):
    """A name that no job can have."""
    bad = brought(1, job="../other")
    assert stage.settle(bundle(brought(0), bad)) == Settled(credited=1, parked=1)
    ((entry, body),) = stage.parked.entries.values()
    assert (entry.reason, decode(body)) == ("result_unreadable", bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "finish", "job": "nightly", "v": 1},
        {"kind": "finish"},
        {"kind": "result", "job": "nightly", "chunk": -1},
    ],
    ids=["another stage's kind", "half a message", "a bad number"],
)
def test_what_is_no_result_in_a_message_is_parked_alone(stage, bad):
    """The results around it are as good as they would be without it."""
    whole = json.loads(bundle(brought(0), brought(1), brought(2)))
    whole["sluice"]["results"][1] = bad
    assert stage.settle(json.dumps(whole).encode()) == Settled(credited=2, parked=1)
    ((entry, body),) = stage.parked.entries.values()
    assert (entry.reason, json.loads(body)) == ("result_unreadable", {"sluice": bad})
    assert sorted(kept(stage)) == [0, 2]


def test_a_bundle_of_a_newer_version_that_cannot_be_read_waits_whole(stage):
    """What its results mean is known to the newer version alone."""
    whole = json.loads(bundle(brought(0), brought(1)))
    whole["sluice"] |= {"v": 2}
    whole["sluice"]["results"][1] |= {"chunk": "b"}
    body = json.dumps(whole).encode()
    assert stage.settle(body) == Settled()
    (later,) = stage.later
    assert later.body == body


@pytest.mark.parametrize(
    "body",
    [
        bundle(brought(0)).replace(b'"chunk":0', b'"chunk":-1'),
        bundle(brought(0))[:-2],
        bundle(brought(0)) + b" " * LONGEST_BODY,
    ],
    ids=["a bad number", "cut off", "too long"],
)
def test_a_bundle_that_cannot_be_read_is_parked_as_it_came(stage, body):
    """Nobody knows what is in it."""
    assert stage.settle(body, brought(1)) == Settled(credited=1, parked=1)
    ((entry, parked_body),) = stage.parked.entries.values()
    assert (entry.reason, parked_body) == ("result_unreadable", body)


def test_the_dead_letter_of_a_bundle_is_parked_result_by_result():
    """Each under its own key, so that each can be replayed and seen to have landed."""
    entries = MemoryParked()
    parking = Parking(entries, Stage(None).clock, Stages(settle_stage(None, None)))
    park_dead_result(parking, bundle(brought(0), brought(1, job="weekly")), "m1", "too many")
    assert [(one.job, one.chunk, one.reason) for one, _ in entries.entries.values()] == [
        ("nightly", 0, "dead_lettered"),
        ("weekly", 1, "dead_lettered"),
    ]
    assert [decode(body).chunk for _, body in entries.entries.values()] == [0, 1]


def test_a_bundle_that_an_earlier_version_parked_is_put_back_result_by_result():
    """It could not read it; the settlers of today can."""
    sent = []
    settle_stage(None, sent.append).put_back(None, bundle(brought(0), brought(1)))
    assert sent == [brought(0), brought(1)]


def test_two_runs_with_different_results_are_told_and_not_parked(stage, told):
    """The first that was credited stays, in one message or in two: it is no forgery."""
    other = brought(0, b"another result")
    first, second = stage.settle(bundle(brought(0), other)), stage.settle(other)
    assert [(made.credited, made.duplicates, made.parked) for made in (first, second)] == [(1, 1, 0), (0, 1, 0)]
    assert kept(stage) == {0: b"a result of chunk 0"}
    assert stage.parked.entries == {}
    assert told(events.RESULT_DIFFERS) == [{"job": "nightly", "chunk": 0, "revision": 1}] * 2


class Watched(OutagesLedger):
    """A ledger that another settler is quicker at, once, and that notes which blobs there are at each write."""

    def __init__(self, ledger, first=()):
        super().__init__(ledger, [])
        self._real, self._first, self.blobs, self.stage = ledger, first, [], None

    def commit(self, job, rows=(), messages=()):
        """Write, unless the other one was first."""
        self.blobs.append(set(self.stage.groups.blobs))
        first, self._first = self._first, ()
        if first:
            Stage(self._real).settle(*first)
        return self._real.commit(job, rows, messages)


def watched(ledger, *first):
    """Return a settler over such a ledger."""
    ledger.insert(job())
    made = Watched(ledger, first)
    made.stage = Stage(made)
    return made, made.stage


def test_the_blob_is_there_before_the_rows_that_name_it(ledger):
    """A row must not lead to what may never be written."""
    writes, stage = watched(ledger)
    stage.settle(bundle(brought(0), brought(1)))
    assert writes.blobs == [set(stage.groups.blobs)]


def test_a_settler_that_lost_a_race_names_the_blob_that_it_has_written(ledger):
    """Another one credited a part of the same results: the rest is credited from the same blob."""
    writes, stage = watched(ledger, brought(1))
    assert stage.settle(bundle(brought(0), brought(1), brought(2))) == Settled(credited=2, duplicates=1, races=1)
    assert len(writes.blobs) == 2
    (name,) = stage.groups.blobs
    rows = ledger.rows_of("nightly", range(3))
    assert [rows[chunk].blob == name for chunk in range(3)] == [True, False, True]
    assert check(ledger).state is JobState.FINISHING


def test_a_blob_places_the_results_that_are_in_it_and_no_other_run():
    """A settler that has to credit one more writes another blob."""
    rows = [row_of(brought(chunk), NOON) for chunk in (0, 1)]
    blob = assemble("nightly", [(rows[0], b"zero")])
    assert (blob.holds(rows[:1]), blob.holds(rows)) == (True, False)
    assert blob.place(rows[0]) == replace(rows[0], blob=blob.name, offset=0, length=4)
    assert blob.place(rows[1]) == rows[1]
    assert blob.place(replace(rows[0], hash="f" * 64)).offset is None


def test_a_bundle_is_plain_json():
    """Other programs read it as it is described: each entry is a result, under one wrapper."""
    written = json.loads(bundle(brought(0), result(1)))["sluice"]
    assert written["kind"] == "results"
    assert [sorted(one) for one in written["results"]] == [
        sorted(json.loads(encode(one))["sluice"]) for one in (brought(0), result(1))
    ]
    assert msgspec.json.decode(json.dumps(written["results"][0]), type=Result) == brought(0)
