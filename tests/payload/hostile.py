"""Hostile submissions, each with the reason under which it must end; made anew at each run, none of them larger than it must be.

A case is a message and the blobs that lie there when it is taken; `stage` says where the reason must show: the message
is refused at once, or one chunk of it, or one transaction of it.
"""

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import zstandard

MESSAGE_ID = "5f0e6b1c-0000-4000-8000-000000000001"
LINE = b'{"id":1,"amount":"1.50"}\n'
MIB = 1024 * 1024


class Stage(StrEnum):
    """Where a case must end."""

    ACCEPT = "accept"
    CHUNK = "chunk"
    TRANSACTION = "transaction"


@dataclass(frozen=True)
class Case:
    """One hostile submission."""

    name: str
    reason: str
    message: bytes
    blobs: dict[str, bytes] = field(default_factory=dict)
    stage: Stage = Stage.ACCEPT


def sha(data: bytes) -> str:
    """Return the hash as it stands in an index."""
    return hashlib.sha256(data).hexdigest()


def wrap(**fields: object) -> bytes:
    """Return a message."""
    return json.dumps({"sluice": fields}).encode()


def index_of(*frames: tuple[bytes, int]) -> list[list[object]]:
    """Return the rows for stored frames and their numbers of items."""
    rows, offset = [], 0
    for stored, items in frames:
        rows.append([offset, len(stored), items, sha(stored)])
        offset += len(stored)
    return rows


def inline(rows: list[list[object]], stored: bytes, codec: str = "zstd", **more: object) -> bytes:
    """Return a message that holds frames."""
    text = base64.b64encode(stored).decode()
    return wrap(payload={"inline": text, "codec": codec, "frames": rows}, **more)


def framed_blob(name: str, rows: object, job: str = "job-1", **payload: object) -> bytes:
    """Return a message that points to frames."""
    return wrap(job=job, payload={"blob": name, "codec": "zstd", "frames": rows, **payload})


def zstd(text: bytes, **options: object) -> bytes:
    """Compress as one zstd frame that says its size."""
    return zstandard.ZstdCompressor(level=1, **options).compress(text)


def zstd_unsized(text: bytes, window_log: int = 19) -> bytes:
    """Compress as one zstd frame that does not say its size."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(text) + packer.flush()


def zeros(codec: str, size: int) -> bytes:
    """Return a bomb without ever holding what it expands to."""
    packer = zstandard.ZstdCompressor(level=1).compressobj() if codec == "zstd" else zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()


def flipped(data: bytes, at: int) -> bytes:
    """Return the data with one bit changed."""
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


GOOD = zstd(LINE)
GOOD_NAME = f"job-1/{sha(GOOD)}"


def cases() -> Iterator[Case]:
    """Yield every case."""
    yield from _messages()
    yield from _fields()
    yield from _waits()
    yield from _names()
    yield from _indexes()
    yield from _blobs()
    yield from _frames()
    yield from _files()
    yield from _transactions()


def _messages() -> Iterator[Case]:
    yield Case("nothing", "not_json", b"")
    yield Case("words", "not_json", b"hello")
    yield Case("half-a-document", "not_json", b'{"sluice": {"items": [')
    yield Case("two-documents", "not_json", b'{"sluice": {"items": [{}]}} {}')
    yield Case("xml", "not_json", b"<QueueMessage/>")
    yield Case("single-quotes", "not_json", b"{'sluice': {}}")
    yield Case("control-character", "not_json", b'{"sluice": {"job": "a\x00b", "items": [{}]}}')
    yield Case("latin-1", "not_utf8", '{"sluice": {"items": [{"name": "Käse"}]}}'.encode("latin-1"))
    yield Case("surrogate-as-utf8", "not_utf8", b'{"sluice": {"items": [{"a": "\xed\xa0\x80"}]}}')
    yield Case("utf16", "not_utf8", '{"sluice": {"items": [{}]}}'.encode("utf-16"))
    yield Case("base64-of-words", "not_json", base64.b64encode(b"not json at all"))
    yield Case("base64-of-wrong-version", "unsupported_version", base64.b64encode(wrap(v=2, items=[{}])))
    yield Case("nan", "not_a_number", b'{"sluice": {"items": [{"a": NaN}]}}')
    yield Case("infinity", "not_a_number", b'{"sluice": {"items": [{"a": -Infinity}]}}')
    yield Case("exponent", "number_out_of_range", b'{"sluice": {"items": [{"a": 1e999999999}]}}')
    yield Case("tiny-exponent", "number_out_of_range", b'{"sluice": {"items": [{"a": 1e-999999999}]}}')
    yield Case("huge-integer", "number_out_of_range", b'{"sluice": {"items": [{"a": ' + b"9" * 50_000 + b"}]}}")
    yield Case("lone-surrogate", "lone_surrogate", rb'{"sluice": {"items": [{"a": "\ud800"}]}}')
    yield Case("lone-surrogate-in-key", "lone_surrogate", rb'{"sluice": {"items": [{"\udfff": 1}]}}')
    yield Case("key-twice", "duplicate_key", b'{"sluice": {"gate": "a", "gate": "b", "items": [{}]}}')
    yield Case("key-twice-escaped", "duplicate_key", rb'{"sluice": {"gate": "a", "\u0067ate": "b", "items": [{}]}}')
    yield Case("wrapper-twice", "duplicate_key", b'{"sluice": {"items": [{}]}, "sluice": {"items": [{"a": 1}]}}')
    yield Case("deep-lists", "too_deep", b'{"sluice": {"items": ' + b"[" * 30_000 + b"]" * 30_000 + b"}}")
    yield Case("deep-open", "too_deep", b"[" * 60_000)
    yield Case("deep-objects", "too_deep", b'{"sluice":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001)
    yield Case("too-large", "message_too_large", wrap(items=[{"a": "x" * 66_000}]))


def _fields() -> Iterator[Case]:
    yield Case("no-wrapper", "no_envelope", b'{"items": [{}]}')
    yield Case("list-at-the-top", "no_envelope", b"[{}]")
    yield Case("wrapper-is-a-list", "no_envelope", b'{"sluice": [{}]}')
    yield Case("field-beside-the-wrapper", "unknown_field", b'{"sluice": {"items": [{}]}, "gate": "nightly"}')
    yield Case("newer-version", "unsupported_version", wrap(v=2, items=[{}]))
    yield Case("version-zero", "unsupported_version", wrap(v=0, items=[{}]))
    yield Case("version-of-many-digits", "unsupported_version", b'{"sluice": {"v": ' + b"9" * 4000 + b"}}")
    yield Case("version-as-text", "wrong_type", wrap(v="1", items=[{}]))
    yield Case("version-true", "wrong_type", wrap(v=True, items=[{}]))
    yield Case("newer-version-with-new-fields", "unsupported_version", wrap(v=3, rows=[], gates=["a"]))
    yield Case("unknown-kind", "unknown_kind", wrap(kind="shutdown", items=[{}]))
    yield Case("misspelt-gate", "unknown_field", wrap(gates="nightly", items=[{}]))
    yield Case("unknown-field-in-payload", "unknown_field", wrap(payload={"url": "https://example.org/x"}))
    yield Case("items-is-an-object", "wrong_type", wrap(items={"a": 1}))
    yield Case("job-is-a-number", "wrong_type", wrap(job=7, items=[{}]))
    yield Case("items-as-count", "wrong_type", wrap(declared={"items": "one"}, items=[{}]))
    yield Case("count-true", "wrong_type", wrap(declared={"items": True}, items=[{}]))
    yield Case("no-payload", "payload_form", wrap(job="a"))
    yield Case("empty-payload", "payload_form", wrap(payload={}))
    yield Case("two-payloads", "payload_form", wrap(items=[{}], payload={"blob": "a.ndjson"}))
    yield Case("items-beside-a-codec", "payload_form", wrap(items=[{}], payload={"codec": "gzip"}))
    yield Case("inline-and-blob", "payload_form", wrap(payload={"inline": "e30K", "blob": "a.ndjson"}))
    yield Case("no-items", "empty", wrap(items=[]))
    yield Case("empty-inline", "empty", wrap(payload={"inline": ""}))
    yield Case("lying-count", "count_mismatch", wrap(declared={"items": 2}, items=[{}]))
    yield Case("negative-count", "count_mismatch", wrap(declared={"items": -1}, items=[{}]))
    yield Case("sum-in-words", "bad_sum", wrap(declared={"sums": {"amount": "a lot"}}, items=[{}]))
    yield Case("sum-with-exponent", "bad_sum", wrap(declared={"sums": {"amount": "1e400"}}, items=[{}]))
    yield Case("sum-as-number", "wrong_type", wrap(declared={"sums": {"amount": 1.5}}, items=[{}]))
    yield Case("deadline-in-words", "bad_deadline", wrap(deadline="tomorrow", items=[{}]))
    yield Case("deadline-without-zone", "bad_deadline", wrap(deadline="2026-11-21T06:00:00", items=[{}]))
    yield Case("deadline-of-no-day", "bad_deadline", wrap(deadline="2026-02-30T06:00:00Z", items=[{}]))
    yield Case("deadline-before-time", "bad_deadline", wrap(deadline="0001-01-01T00:00:00+23:59", items=[{}]))
    yield Case("deadline-as-number", "wrong_type", wrap(deadline=1795240800, items=[{}]))
    yield Case("bound-in-words", "bad_bound", wrap(most_rejected="some", items=[{}]))
    yield Case("bound-below-zero", "bad_bound", wrap(most_rejected="-1", items=[{}]))
    yield Case("bound-above-all", "bad_bound", wrap(most_rejected="100.5%", items=[{}]))
    yield Case("bound-as-number", "wrong_type", wrap(most_rejected=5, items=[{}]))
    yield Case("not-base64", "bad_base64", wrap(payload={"inline": "e30K=e30K"}))
    yield Case("surplus-padding", "bad_base64", wrap(payload={"inline": "e30K="}))
    yield Case("url-safe-base64", "bad_base64", wrap(payload={"inline": "e30_-w=="}))
    yield Case("unknown-codec", "unknown_codec", wrap(payload={"inline": "e30K", "codec": "lzma"}))


def _waits() -> Iterator[Case]:
    yield Case("after-101", "bad_after", wrap(after=[f"job-{n}" for n in range(101)], items=[{}]))
    yield Case("after-none", "bad_after", wrap(after=[], items=[{}]))
    yield Case("after-twice", "bad_after", wrap(after=["a", "a"], items=[{}]))
    yield Case("after-another-room", "bad_after", wrap(after=["team-b~rate"], items=[{}]))
    yield Case("after-itself", "bad_after", wrap(job="a", after=["a"], items=[{}]))
    yield Case("after-parked-alone", "bad_after", wrap(after_parked=True, items=[{}]))
    yield Case("after-no-name", "bad_job", wrap(after=["../a"], items=[{}]))
    yield Case("after-as-text", "wrong_type", wrap(after="rate", items=[{}]))
    yield Case("night-in-words", "bad_name", wrap(night="last night", items=[{}]))
    yield Case("jobs-and-items", "payload_form", wrap(items=[{}], payload={"jobs": ["a"]}))
    yield Case("jobs-none", "bad_after", wrap(payload={"jobs": []}))
    yield Case("jobs-of-another-room", "bad_after", wrap(payload={"jobs": ["team-b~rate"]}))
    yield Case("jobs-with-a-codec", "payload_form", wrap(payload={"jobs": ["a"], "codec": "zstd"}))
    yield Case("jobs-other-files", "wrong_type", wrap(payload={"jobs": ["a"], "files": "rejected"}))
    yield Case("jobs-sum-of-no-name", "bad_name", wrap(payload={"jobs": ["a"], "sums": {"amount": "A B"}}))
    yield Case("sums-without-jobs", "payload_form", wrap(payload={"inline": "e30K", "sums": {"amount": "amount"}}))


def _names() -> Iterator[Case]:
    for number, job in enumerate(("", "A", "-a", "../a", "a/b", "a" * 101, "jöb", "a b", "a\n", ".a")):
        yield Case(f"job-{number}", "bad_job", wrap(job=job, items=[{}]))
    yield Case("gate-in-capitals", "bad_name", wrap(gate="Nightly", items=[{}]))
    yield Case("gate-with-slash", "bad_name", wrap(gate="a/../b", items=[{}]))
    yield Case("workload-path", "bad_name", wrap(workload="../../etc/passwd", items=[{}]))
    tricks = [
        "../results/secret",
        "job-1/../../results/secret",
        "job-1/./x",
        "/payloads/x",
        "job-1//x",
        "job-1/..",
        "%2e%2e/results/x",
        "job-1\\..\\x",
        "https://attacker.example/payloads/x",
        "job-1/x?sv=2020&sig=abc",
        "job-1/x#a",
        "job-1/x\x00.ndjson",
        "job-1/x\n",
        "job-1/\u202egpj.ndjson",
        "job-1/x.",
        "a" * 600,
        "",
    ]
    for number, name in enumerate(tricks):
        yield Case(f"blob-{number}", "bad_blob_name", wrap(job="job-1", payload={"blob": name}))


def _indexes() -> Iterator[Case]:
    good = [[0, len(GOOD), 1, sha(GOOD)]]
    there = {GOOD_NAME: GOOD}
    rows = {
        "gap": [[1, len(GOOD), 1, sha(GOOD)]],
        "overlap": [*good, [0, len(GOOD), 1, sha(GOOD)]],
        "negative-offset": [[-1, len(GOOD), 1, sha(GOOD)]],
        "negative-length": [[0, -5, 1, sha(GOOD)]],
        "no-length": [[0, 0, 1, sha(GOOD)]],
        "no-items": [[0, len(GOOD), 0, sha(GOOD)]],
        "short-hash": [[0, len(GOOD), 1, "abc"]],
        "capital-hash": [[0, len(GOOD), 1, sha(GOOD).upper()]],
    }
    for name, row in rows.items():
        yield Case(f"index-{name}", "bad_index", framed_blob(GOOD_NAME, row), there)
    yield Case("index-short-row", "wrong_type", framed_blob(GOOD_NAME, [[0, len(GOOD)]]), there)
    yield Case("index-long-row", "wrong_type", framed_blob(GOOD_NAME, [[*good[0], 1]]), there)
    yield Case("index-no-rows", "empty", framed_blob(GOOD_NAME, []), there)
    yield Case("index-huge-frame", "frame_too_large", framed_blob(GOOD_NAME, [[0, 5 * MIB, 1, sha(GOOD)]]), there)
    yield Case("index-many-items", "too_many_items", framed_blob(GOOD_NAME, [[0, 9, 10**9, sha(GOOD)]]), there)
    claim = [[0, len(GOOD), 100_000, sha(GOOD)]]
    yield Case("index-claims-too-much", "line_count", framed_blob(GOOD_NAME, claim), there)
    yield Case("inline-claims-too-much", "line_count", inline([[0, len(GOOD), 12, sha(GOOD)]], GOOD, "plain"))
    yield Case("index-other-hash", "index_mismatch", framed_blob(GOOD_NAME, good, index="0" * 64), there)
    yield Case("index-no-hash", "wrong_type", framed_blob(GOOD_NAME, None, index="latest"), there)
    yield Case("index-missing", "index_missing", framed_blob(GOOD_NAME, None, index="0" * 64), there)
    apart = b"[[0,9]]"
    yield Case(
        "index-apart-is-nonsense",
        "bad_index",
        framed_blob(GOOD_NAME, None, index=sha(apart)),
        {**there, f"job-1/{sha(apart)}": apart},
    )
    yield Case(
        "index-apart-under-another-hash",
        "index_mismatch",
        framed_blob(GOOD_NAME, None, index="1" * 64),
        {**there, "job-1/" + "1" * 64: json.dumps(good).encode()},
    )
    whole = json.dumps([[n * 4 * MIB, 4 * MIB, 1, "a" * 64] for n in range(600)]).encode()
    yield Case(
        "index-of-2400-mib",
        "payload_too_large",
        framed_blob(GOOD_NAME, None, index=sha(whole)),
        {**there, f"job-1/{sha(whole)}": whole},
    )
    yield Case("inline-with-half-an-index", "missing_field", wrap(payload={"inline": "e30K", "index": "0" * 64}))
    yield Case("inline-shorter-than-index", "length_mismatch", inline(good, GOOD[:-1]))
    yield Case("inline-longer-than-index", "length_mismatch", inline(good, GOOD + b"x"))


def _blobs() -> Iterator[Case]:
    good = [[0, len(GOOD), 1, sha(GOOD)]]
    yield Case("blob-missing", "payload_missing", framed_blob("job-1/" + "2" * 64, good))
    yield Case("file-missing", "payload_missing", wrap(payload={"blob": "uploads/none.ndjson"}))
    yield Case("others-folder", "others_folder", framed_blob(GOOD_NAME, good, job="job-2"), {GOOD_NAME: GOOD})
    yield Case("blob-too-short", "length_mismatch", framed_blob("job-1/short", good), {"job-1/short": GOOD[:-3]})
    yield Case("blob-too-long", "length_mismatch", framed_blob("job-1/long", good), {"job-1/long": GOOD + b"evil"})
    flip = flipped(GOOD, len(GOOD) // 2)
    yield Case("bit-flip", "hash_mismatch", framed_blob("job-1/flip", good), {"job-1/flip": flip}, Stage.CHUNK)
    other = zstd(b'{"id":2}\n')
    padded = other + b"x" * (len(GOOD) - len(other))
    yield Case("swapped", "hash_mismatch", framed_blob("job-1/swap", good), {"job-1/swap": padded}, Stage.CHUNK)


def _frames() -> Iterator[Case]:
    def chunk(name: str, reason: str, stored: bytes, items: int = 1, codec: str = "zstd") -> Case:
        blob = f"job-1/{name}"
        rows = index_of((stored, items))
        message = wrap(job="job-1", payload={"blob": blob, "codec": codec, "frames": rows})
        return Case(name, reason, message, {blob: stored}, Stage.CHUNK)

    packed = gzip.compress(LINE * 50)
    yield chunk("lying-lines", "line_count", zstd(LINE * 3), items=2)
    yield chunk("lying-lines-more", "line_count", zstd(LINE), items=1000)
    yield chunk("open-line", "last_line_open", zstd(LINE + LINE[:-1]), items=2)
    yield chunk("nothing-inside", "last_line_open", zstd(b""))
    yield chunk("damaged-zstd", "corrupt", flipped(zstd_unsized(LINE * 50), 1))
    yield chunk("damaged-gzip", "corrupt", flipped(packed, len(packed) - 6), codec="gzip")
    yield chunk("gzip-said-to-be-zstd", "corrupt", packed)
    yield chunk("zstd-said-to-be-gzip", "corrupt", GOOD, codec="gzip")
    yield chunk("random-bytes", "corrupt", hashlib.sha512(b"x").digest() * 8)
    yield chunk("truncated-zstd", "truncated", zstd(LINE * 50)[:-4])
    yield chunk("truncated-gzip", "truncated", packed[:-9], codec="gzip")
    yield chunk("gzip-without-its-end", "truncated", packed[:-8], codec="gzip")
    yield chunk("trailing-zstd", "trailing_bytes", GOOD + b"evil")
    yield chunk("trailing-gzip", "trailing_bytes", packed + b"evil", codec="gzip")
    yield chunk("trailing-zeros", "trailing_bytes", packed + bytes(512), codec="gzip")
    yield chunk("two-members-gzip", "several_members", packed + packed, 100, codec="gzip")
    yield chunk("two-members-zstd", "several_members", GOOD + GOOD, 2)
    yield chunk("wide-window", "window_too_large", zstd_unsized(LINE * 50, window_log=27))
    yield chunk("bomb-zstd-sized", "expands_too_far", zstd(bytes(64 * MIB)))
    yield chunk("bomb-zstd", "expands_too_far", zeros("zstd", 512 * MIB))
    yield chunk("bomb-gzip", "expands_too_far", zeros("gzip", 64 * MIB), codec="gzip")
    yield chunk("bomb-in-bomb", "expands_too_far", zstd_unsized(zeros("gzip", 64 * MIB) + bytes(32 * MIB)))
    wide = b'{"a":"' + hashlib.shake_256(b"x").hexdigest(3 * MIB).encode() + b'"}\n'
    yield chunk("frame-of-6-mib", "frame_too_large", zstd(wide))


def _files() -> Iterator[Case]:
    def file(name: str, reason: str, content: bytes, **payload: object) -> Case:
        return Case(f"file-{name}", reason, wrap(job="job-1", payload={"blob": name, **payload}), {name: content})

    long = b'{"a": "' + b"x" * (10 * MIB) + b'"}\n'
    packed = gzip.compress(LINE * 50)
    yield file("empty.ndjson", "empty", b"")
    yield file("blank.ndjson", "empty", b"\n \n\r\n\n")
    yield file("long-line.ndjson", "line_too_long", LINE + long)
    yield file("long-line.ndjson.zst", "expands_too_far", zstd(LINE + long))
    yield file("no-line-feed-at-all.ndjson", "line_too_long", b"x" * (2 * MIB))
    yield file("bomb.ndjson.gz", "expands_too_far", zeros("gzip", 128 * MIB))
    yield file("bomb.ndjson.zst", "expands_too_far", zeros("zstd", 512 * MIB))
    yield file("bomb-behind-a-member.gz", "expands_too_far", packed + zeros("gzip", 64 * MIB))
    yield file("truncated.ndjson.gz", "truncated", packed[:-3])
    yield file("truncated.ndjson.zst", "truncated", zstd(LINE * 50)[:-3])
    yield file("rest-behind.ndjson.gz", "corrupt", packed + b"evil and more of it")
    yield file("not-gzip.ndjson.gz", "corrupt", LINE)
    yield file("members.zst", "too_many_items", zstd(b"") * 20_001)
    yield file("utf16.ndjson", "not_utf8", '{"a": 1}\n'.encode("utf-16"))
    yield file("lying-count.ndjson", "payload_form", LINE, inline="e30K")
    yield Case(
        "file-lying-count",
        "count_mismatch",
        wrap(job="job-1", declared={"items": 3}, payload={"blob": "count.ndjson"}),
        {"count.ndjson": LINE * 2},
    )
    bomb = zeros("zstd", 512 * MIB)
    text = base64.b64encode(bomb[: 40 * 1024]).decode()
    yield Case("inline-bomb", "expands_too_far", wrap(payload={"inline": text}))


def _transactions() -> Iterator[Case]:
    def one(name: str, reason: str, line: bytes, codec: str = "zstd") -> Case:
        stored = zstd(LINE + line + b"\n" + LINE)
        more = {"declared": {"sums": {"amount": "3.00"}}}
        return Case(f"line-{name}", reason, inline(index_of((stored, 3)), stored, codec, **more), {}, Stage.TRANSACTION)

    yield one("blank", "not_json", b"")
    yield one("words", "not_json", b"hello")
    yield one("two-objects", "not_json", b'{"a": 1}{"a": 2}')
    yield one("half", "not_json", b'{"a": ')
    yield one("comment", "not_json", b'{"a": 1} // one')
    yield one("list", "not_an_object", b"[1, 2]")
    yield one("number", "not_an_object", b"17")
    yield one("null", "not_an_object", b"null")
    yield one("nan", "not_a_number", b'{"a": NaN}')
    yield one("exponent", "number_out_of_range", b'{"a": 1E+400000000}')
    yield one("integer", "number_out_of_range", b'{"a": ' + b"7" * 5_000 + b"}")
    yield one("digits", "number_out_of_range", b'{"a": 0.' + b"7" * 5_000 + b"}")
    yield one("surrogate", "lone_surrogate", rb'{"a": "\udc00"}')
    yield one("latin-1", "not_utf8", b'{"a": "\xe4"}')
    yield one("key-twice", "duplicate_key", b'{"amount": "1", "amount": "1000"}')
    many = b",".join(b'"%d":1' % number for number in range(20_000))
    yield one("key-twice-among-many", "duplicate_key", b"{" + many + b',"a":1,"a":2}')
    yield one("key-twice-below", "duplicate_key", b'{"a": [{"b": 1, "b": 2}]}')
    yield one("key-twice-spaced", "duplicate_key", b'{"a" :1, "a"\t: 2}')
    for name, space in (("space", b" "), ("tab", b"\t"), ("return", b"\r")):
        yield one(f"key-twice-once-with-{name}", "duplicate_key", b'{"a":1,"a"' + space + b":2}")
    yield one("key-twice-escaped", "duplicate_key", rb'{"a": 1, "\u0061": 2}')
    yield one("key-twice-behind-a-look-alike", "duplicate_key", rb'{"a": "\":", "a"  : 2}')
    yield one("id-in-words", "does_not_fit", b'{"id": "one"}')
    yield one("deep", "too_deep", b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}")
    yield one("very-deep", "too_deep", b'{"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}")
    yield one("amount-in-words", "bad_amount", b'{"amount": "twelve"}')
    yield one("amount-as-list", "bad_amount", b'{"amount": [1]}')
    yield one("amount-true", "bad_amount", b'{"amount": true}')
    yield one("amount-of-21-digits", "bad_amount", b'{"amount": ' + b"1" * 21 + b"}")
    yield one("amount-null", "does_not_fit", b'{"amount": null}')
    yield one("too-long", "line_too_long", b'{"a": "' + b"x" * 300_000 + b'"}')
