"""Each form of payload, taken in and read back; and files from any tool, framed on the way."""

import base64
import gzip
import hashlib
import json
import time
import tracemalloc

import pytest
import zstandard

from shared.errors import RefusedError
from shared.payload import Codec, Form, Intake, Limits, fingerprint, open_envelope, parse_index, read_submission
from shared.payload.submission import choose
from shared.payload.text_lines import split_lines
from shared.payload.transactions import Reader
from shared.refusals import Reason
from tests.payload.fetching import fetch
from tests.payload.hostile import MESSAGE_ID, MIB, framed_blob, index_of, inline, sha, wrap

LIMITS = Limits(frame_items=10)
OBJECTS = [{"id": number, "name": f"n{number}"} for number in range(35)]
TEXT = "".join(json.dumps(one) + "\n" for one in OBJECTS).encode()
FRAMES = [TEXT.splitlines(keepends=True)[at : at + 10] for at in range(0, 35, 10)]
PACKED = [(gzip.compress(b"".join(lines), mtime=0), len(lines)) for lines in FRAMES]
STORED, ROWS = b"".join(stored for stored, _ in PACKED), index_of(*PACKED)
INDEX = json.dumps(ROWS, separators=(",", ":")).encode()
TOUCHED_BY_WINDOWS = b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n").removesuffix(b"\r\n")


def submitted(message):
    """Return the submission of a message."""
    return read_submission(open_envelope(message, LIMITS), MESSAGE_ID, LIMITS)


def take(message, stores):
    """Return the payload of a message."""
    return Intake("", stores, LIMITS).take(submitted(message))


def everything(payload, stores):
    """Return all transactions, each read from its own frame."""
    found = []
    for first, text in fetch(Intake("", stores, LIMITS), payload):
        assert first == len(found)
        read = Reader(dict, ()).read(text.split(b"\n")[:-1])
        assert not read.refused
        found += read.transactions
    return found


FORMS = {
    "items": (wrap(items=OBJECTS), {}),
    "inline frames": (inline(ROWS, STORED, "gzip"), {}),
    "inline file": (wrap(payload={"inline": base64.b64encode(gzip.compress(TEXT)).decode()}), {}),
    "framed blob": (framed_blob(f"job-1/{sha(STORED)}", ROWS, codec="gzip"), {f"job-1/{sha(STORED)}": STORED}),
    "framed blob, index apart": (
        framed_blob(f"job-1/{sha(STORED)}", None, codec="gzip", index=sha(INDEX)),
        {f"job-1/{sha(STORED)}": STORED, f"job-1/{sha(INDEX)}": INDEX},
    ),
    "ndjson": (wrap(payload={"blob": "up/a.ndjson"}), {"up/a.ndjson": TEXT}),
    "from Windows": (wrap(payload={"blob": "up/a.jsonl"}), {"up/a.jsonl": TOUCHED_BY_WINDOWS}),
    "gz": (wrap(payload={"blob": "up/a.ndjson.gz"}), {"up/a.ndjson.gz": gzip.compress(TEXT)}),
    "two gz in one": (wrap(payload={"blob": "up/b.gz"}), {"up/b.gz": b"".join(one for one, _ in PACKED)}),
    "zst": (wrap(payload={"blob": "up/a.zst"}), {"up/a.zst": zstandard.compress(TEXT)}),
    "zst of a parallel tool": (
        wrap(payload={"blob": "up/d"}),
        {"up/d": b"\x50\x2a\x4d\x18\x04\0\0\0size" + zstandard.compress(TEXT)},
    ),
    "no suffix": (wrap(payload={"blob": "up/a"}), {"up/a": gzip.compress(TEXT)}),
    "blank lines": (wrap(payload={"blob": "up/c"}), {"up/c": b"\n" + TEXT.replace(b"\n", b"\n\n \n")}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_transactions(form, stores, container):
    """Whatever the publisher chose, each transaction comes out once, in order."""
    message, blobs = FORMS[form]
    for name, content in blobs.items():
        container.upload_blob(name, content)
    payload = take(message, stores)
    assert payload.index.items == len(OBJECTS)
    assert (payload.blob is None) != (payload.inline is None)
    assert everything(payload, stores) == OBJECTS
    assert everything(payload, stores) == OBJECTS


@pytest.mark.parametrize("form", FORMS)
def test_the_same_submission_has_the_same_fingerprint(form, stores, container):
    """Dropped twice it is the same; with another gate, workload or content it is not."""
    message, blobs = FORMS[form]
    for name, content in blobs.items():
        container.upload_blob(name, content)
    prints = [fingerprint(submitted(message), take(message, stores)) for _ in range(2)]
    assert prints[0] == prints[1]
    held = json.dumps({"sluice": {**json.loads(message)["sluice"], "gate": "nightly"}}).encode()
    assert fingerprint(submitted(held), take(held, stores)) != prints[0]
    other = wrap(items=[{"id": "another"}])
    assert fingerprint(submitted(other), take(other, stores)) != prints[0]


def test_a_file_is_framed_once_under_its_jobs_folder(stores, container):
    """A file without an index becomes a payload like any other; taken in again, nothing new is written."""
    container.upload_blob("up/a.ndjson.gz", gzip.compress(TEXT))
    message = wrap(job="job-7", payload={"blob": "up/a.ndjson.gz"})
    first, again = take(message, stores), take(message, stores)
    assert first.blob.name == again.blob.name
    assert first.blob.name.startswith("job-7/")
    assert sorted(container.list_blob_names()) == sorted(["up/a.ndjson.gz", first.blob.name])
    assert hashlib.sha256(container.download_blob(first.blob.name).readall()).hexdigest() in first.blob.name


def test_the_least_that_a_person_can_type():
    """No job, no workload, no gate: the message's own id names the job, and nothing holds it."""
    found = submitted(b'{"sluice": {"items": [{"id": 1}, {"id": 2}]}}')
    assert (found.job, found.workload, found.gate) == (MESSAGE_ID, "billing", None)
    assert found.content.lines == (b'{"id": 1}', b'{"id": 2}')


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(items_most=34), Reason.TOO_MANY_ITEMS),
        (Limits(frame_items=10, frames_most=3), Reason.TOO_MANY_ITEMS),
        (Limits(stored_most=100), Reason.PAYLOAD_TOO_LARGE),
    ],
)
def test_a_file_larger_than_a_job_is_refused_while_it_comes(limits, reason, container, stores):
    """Neither its transactions nor its frames nor its bytes pass the bounds, and nothing is written."""
    message = submitted(wrap(payload={"inline": base64.b64encode(gzip.compress(TEXT)).decode()}))
    with pytest.raises(RefusedError) as refused:
        Intake("", stores, limits).take(message)
    assert refused.value.reason == reason
    assert list(container.list_blob_names()) == []


def test_an_endless_line_is_refused_while_it_comes():
    """A line without an end is not collected until there is no memory left."""
    taken = []

    def endless():
        for number in range(10_000):
            taken.append(number)
            yield b"x" * 1000

    with pytest.raises(RefusedError) as refused:
        list(split_lines(endless(), Limits(line_bytes=5000)))
    assert refused.value.reason == Reason.LINE_TOO_LONG
    assert len(taken) == 6


def test_what_windows_adds_is_taken_off():
    """Neither the byte order mark nor the carriage returns become part of a transaction."""
    lines = split_lines([b"\xef\xbb\xbf{}\r", b"\n\r\n{}\r\n{}"], Limits())
    assert list(lines) == [(1, b"{}"), (3, b"{}"), (4, b"{}")]


def test_a_file_of_blank_lines_is_not_read_for_ever(stores, container):
    """Lines that are skipped count as well."""
    container.upload_blob("up/blank", b"\n" * 50 + TEXT)
    intake = Intake("", stores, Limits(lines_most=50))
    with pytest.raises(RefusedError) as refused:
        intake.take(submitted(wrap(payload={"blob": "up/blank"})))
    assert refused.value.reason == Reason.TOO_MANY_ITEMS


def cpu_of_one_line(size):
    """Return the least CPU of five times that it takes to cut one line of so many bytes out of short pieces."""
    piece, limits, seconds = (
        b"x" * 256,
        Limits(line_bytes=size + 1, frame_bytes=size + 1, frame_expanded_most=size + 1),
        [],
    )
    for _ in range(5):
        began = time.process_time()
        assert [len(line) for _, line in split_lines([piece] * (size // len(piece)), limits)] == [size]
        seconds.append(time.process_time() - began)
    return min(seconds)


def test_a_long_line_costs_no_more_for_a_byte_than_a_short_one():
    """Eight times the bytes take about eight times the CPU, however small the pieces that a line comes in are."""
    assert cpu_of_one_line(MIB) < 20 * cpu_of_one_line(MIB // 8)


def test_a_piece_of_many_lines_is_not_cut_at_once():
    """Lines of two bytes are not held as half a million objects, which take 26 MiB: what is held is lines of a small part."""
    lines = MIB // 2
    tracemalloc.start()
    try:
        assert sum(1 for _ in split_lines([b"{}\n" * lines], Limits())) == lines
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 8 * MIB


@pytest.mark.parametrize(
    ("codec", "length", "most"), [("plain", 300, 100), ("zstd", 300, 50_000), ("gzip", 3, 500), ("zstd", 47, 7_833)]
)
def test_an_index_claims_no_more_transactions_than_its_bytes_can_hold(codec, length, most):
    """Ids are reserved by it before anything is read: what a submission claims is in proportion to what it brings."""
    for items in (most, most + 1):
        rows = [[0, length, items, "a" * 64]]
        text = json.dumps(rows).encode()
        for read in (
            lambda rows=rows: submitted(framed_blob("job-1/x", rows, codec=codec)),
            lambda text=text: parse_index(text, Codec(codec), Limits()),
        ):
            if items == most:
                read()
                continue
            with pytest.raises(RefusedError) as refused:
                read()
            assert refused.value.reason == Reason.LINE_COUNT
            assert f"{length} bytes and {items} lines; the limit for its size is {most}" in refused.value.found


@pytest.mark.parametrize(("around", "most"), [(400, 65_536), (0, 65_536), (65_535, 65_536), (1, 1000)])
def test_the_choice_is_made_on_the_encoded_size(around, most):
    """The last payload that fits goes inline, one byte more goes beside it."""
    limits = Limits(message_bytes=most)
    largest = (most - around) // 4 * 3
    assert len(base64.b64encode(bytes(largest))) + around <= most < len(base64.b64encode(bytes(largest + 1))) + around
    assert choose(largest, around, limits) is Form.INLINE
    assert choose(largest + 1, around, limits) is Form.BLOB


CORRECTED = {
    "inline, another codec": (inline(ROWS, STORED, "gzip"), inline(ROWS, STORED, "plain")),
    "inline, another index": (inline(ROWS, STORED, "gzip"), inline([[0, len(STORED), 1, sha(STORED)]], STORED, "gzip")),
    "framed, another codec": tuple(
        framed_blob(f"job-1/{sha(STORED)}", ROWS, codec=codec) for codec in ("gzip", "plain")
    ),
    "a file, another codec": tuple(
        wrap(payload={"blob": "up/a.ndjson.gz", "codec": codec}) for codec in ("gzip", "plain")
    ),
}


@pytest.mark.parametrize("name", CORRECTED)
def test_a_corrected_submission_has_another_fingerprint(name, stores, container):
    """Its bytes are the same and are to be read in another way: taken for a duplicate, it would be swallowed."""
    container.upload_blob(f"job-1/{sha(STORED)}", STORED)
    container.upload_blob("up/a.ndjson.gz", gzip.compress(TEXT))
    prints = [fingerprint(submitted(message), take(message, stores)) for message in CORRECTED[name]]
    assert len(set(prints)) == 2
