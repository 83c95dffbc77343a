"""Hostile payloads: files, indexes, codecs and bombs, each refused as a whole or by the chunk."""

import base64
import gzip
import hashlib
import json
import lzma
import random

from tests.outside.case import JOB, LINE, Case, Ends, Parked, wrap
from tests.payload.hostile import MIB, flipped, index_of, sha, zeros, zstd, zstd_unsized

PACKED = gzip.compress(LINE * 50)
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00evil"


def cases():
    """Yield every case."""
    yield from _files()
    yield from _bombs()
    yield from _indexes()
    yield from _indexes_apart()
    yield from _frames()


def _file(name, end, content, family="files", **payload):
    blob = f"hostile/{JOB}/{name}"
    return Case(family, f"{family}-{name}", wrap(job=JOB, payload={"blob": blob, **payload}), end, {blob: content})


def _files():
    def refused(name, reason, content, **payload):
        return _file(name, Parked(reason), content, **payload)

    yield refused("no-bytes", "empty", b"")
    yield refused("only-a-mark", "empty", b"\xef\xbb\xbf")
    yield refused("only-returns", "empty", b"\r\n" * 5_000)
    yield refused("blanks.gz", "empty", gzip.compress(b" \t\n" * 5_000))
    yield refused("nothing.gz", "empty", gzip.compress(b""))
    yield refused("nothing.zst", "empty", zstd(b""))
    yield refused("skipped.zst", "empty", SKIPPABLE)
    yield refused("utf16-be", "not_utf8", "\ufeff{}\n".encode("utf-16-be"))
    yield refused("utf32", "not_utf8", "{}\n".encode("utf-32"))
    yield refused("three-bytes.gz", "truncated", PACKED[:3])
    yield refused("half.gz", "truncated", PACKED[: len(PACKED) // 2])
    yield refused("half-of-the-second.gz", "truncated", PACKED + PACKED[:-9])
    yield refused("half.zst", "truncated", zstd_unsized(LINE * 500)[:-7])
    yield refused("other-sum.gz", "corrupt", flipped(PACKED, len(PACKED) - 6))
    yield refused("other-length.gz", "corrupt", flipped(PACKED, len(PACKED) - 2))
    yield refused("other-method.gz", "corrupt", flipped(PACKED, 2))
    yield refused("flipped.zst", "corrupt", flipped(zstd_unsized(LINE * 500), 9))
    yield refused("zeros-behind.gz", "corrupt", PACKED + bytes(512))
    yield refused("text-behind.zst", "corrupt", zstd_unsized(LINE * 50) + b"and more of it")
    yield refused("xz.zst", "corrupt", lzma.compress(LINE * 50))
    yield refused("zstd-as-gzip", "corrupt", zstd(LINE), codec="gzip")
    yield refused("gzip-as-zstd", "corrupt", PACKED, codec="zstd")
    yield refused("plain-as-zstd", "corrupt", LINE * 50, codec="zstd")
    yield refused("wide.zst", "window_too_large", zstd_unsized(LINE * 50, window_log=27))
    yield _file("members.gz", Ends(150), PACKED * 3)
    yield _file("skipped-first.zst", Ends(50), SKIPPABLE + zstd(LINE * 50))
    yield _file("returns-and-mark", Ends(2), b"\xef\xbb\xbf" + LINE.replace(b"\n", b"\r\n") + b"\r\n\n" + LINE.strip())
    yield _file("named.txt", Ends(50), PACKED)
    noise = random.Random(5).randbytes(150_000).hex().encode()
    yield refused("long-line.gz", "line_too_long", gzip.compress(LINE + b'{"x":"' + noise + b'"}\n'))
    yield refused("no-feed", "line_too_long", b"x" * 300_000)
    short = wrap(job=JOB, declared={"items": 4}, payload={"blob": f"hostile/{JOB}/short"})
    yield Case("files", "file-other-count", short, Parked("count_mismatch"), {f"hostile/{JOB}/short": LINE * 3})
    for name in ("~door/x", "plans", "results/x/1", f"outputs/{JOB}/1/manifest.json", "a..b"):
        reason = "bad_blob_name" if "~" in name else "payload_missing"
        yield Case("files", f"not-there-{name[:9]}", wrap(job=JOB, payload={"blob": name}), Parked(reason))


def _bombs():
    def bomb(name, reason, content, **payload):
        return _file(name, Parked(reason), content, family="bombs", **payload)

    yield bomb("zeros.gz", "expands_too_far", zeros("gzip", 64 * MIB))
    yield bomb("zeros.zst", "expands_too_far", zeros("zstd", 256 * MIB))
    yield bomb("hidden", "expands_too_far", zeros("zstd", 128 * MIB), codec="zstd")
    yield bomb("feeds.gz", "expands_too_far", gzip.compress(b"\n" * (16 * MIB)))
    yield bomb("behind-a-good-one.gz", "expands_too_far", PACKED + zeros("gzip", 16 * MIB))
    yield bomb("of-many.zst", "expands_too_far", zeros("zstd", 64 * MIB) * 8)
    yield bomb("members.gz", "too_many_items", gzip.compress(b"", 1) * 20_001)
    yield bomb("lines.zst", "expands_too_far", zstd(LINE * 1_000_000))
    # Six thousand bytes that claim to be four million transactions.
    empties = [(zstd(b"{}\n" * 100_000), 100_000)] * 40
    yield _framed("empties-by-index", Parked("line_count"), empties, codec="zstd", family="bombs")
    yield bomb("empties.zst", "expands_too_far", b"".join(stored for stored, _ in empties))
    inline = base64.b64encode(zeros("zstd", 128 * MIB)[:45_000]).decode()
    yield Case("bombs", "bomb-in-the-message", wrap(job=JOB, payload={"inline": inline}), Parked("expands_too_far"))
    for codec, most in (("zstd", 256), ("gzip", 32)):
        stored = zeros(codec, most * MIB)[: 4 * MIB]
        yield _framed(f"bomb-{codec}", Parked("expands_too_far"), [(stored, 1)], codec=codec, family="bombs")


def _framed(name, end, frames, family="frames", codec="gzip", **more):
    """Return a case of stored frames, each with its number of lines by the index."""
    blob, rows = f"{JOB}/{name}", more.pop("rows", index_of(*frames))
    payload = {"blob": blob, "codec": codec, "frames": rows}
    stored = b"".join(stored for stored, _ in frames)
    return Case(family, name, wrap(job=JOB, payload={**payload, **more}), end, {blob: stored})


def _indexes():
    whole = index_of((PACKED, 50), (PACKED, 50))

    def refused(name, reason, rows, **more):
        frames = [(PACKED, 50), (PACKED, 50)]
        return _framed(f"index-{name}", Parked(reason), frames, family="indexes", rows=rows, **more)

    yield refused("backwards", "bad_index", whole[::-1])
    yield refused("twice-the-same", "bad_index", [whole[0], whole[0]])
    yield refused("not-from-0", "bad_index", whole[1:])
    yield refused("no-bytes", "bad_index", [*whole, [whole[1][0] + len(PACKED), 0, 1, sha(b"")]])
    yield refused("no-lines", "bad_index", [[0, len(PACKED), 0, sha(PACKED)]])
    yield refused("less-than-no-lines", "bad_index", [[0, len(PACKED), -(2**31), sha(PACKED)]])
    yield refused("hash-in-words", "bad_index", [[0, len(PACKED), 50, "z" * 64]])
    yield refused("hash-with-more", "bad_index", [[0, len(PACKED), 50, sha(PACKED) + "0"]])
    yield refused("hash-of-nothing", "bad_index", [[0, len(PACKED), 50, ""]])
    yield refused("offset-of-64-bits", "bad_index", [[2**63, len(PACKED), 50, sha(PACKED)]])
    yield refused("half-a-number", "wrong_type", [[0.5, len(PACKED), 50, sha(PACKED)]])
    yield refused("null", "wrong_type", [[0, None, 50, sha(PACKED)]])
    yield refused("text", "wrong_type", [["0", len(PACKED), 50, sha(PACKED)]])
    yield refused("five-in-a-row", "wrong_type", [[*whole[0], 1]])
    yield refused("huge-frame", "frame_too_large", [[0, 2**40, 50, sha(PACKED)]])
    yield refused("millions", "too_many_items", [[0, len(PACKED), 10**7, sha(PACKED)]])
    yield refused("more-than-bytes-can-hold", "line_count", [[0, len(PACKED), 99_999, sha(PACKED)]])
    yield refused("one-frame-less", "length_mismatch", whole[:1])
    yield refused("one-frame-more", "length_mismatch", index_of((PACKED, 50), (PACKED, 50), (PACKED, 50)))
    yield refused("other-hash", "index_mismatch", whole, index=sha(b"other"))
    yield refused("capitals", "index_mismatch", whole, index=sha(json.dumps(whole).encode()).upper())
    yield refused("with-blanks", "index_mismatch", whole, index=sha(json.dumps(whole).encode()))
    for number, folder in enumerate((f"{JOB}x/a", f"x{JOB}/a", "others/a", "a")):
        message = wrap(job=JOB, payload={"blob": folder, "codec": "gzip", "frames": whole})
        yield Case("indexes", f"others-folder-{number}", message, Parked("others_folder"), {folder: PACKED * 2})


def _indexes_apart():
    def apart(name, reason, text, said=None):
        blob, index = f"{JOB}/apart-{name}", said or sha(text)
        message = wrap(job=JOB, payload={"blob": blob, "codec": "gzip", "index": index})
        return Case("indexes", f"apart-{name}", message, Parked(reason), {blob: PACKED, f"{JOB}/{index}": text})

    row = json.dumps(index_of((PACKED, 50)), separators=(",", ":")).encode()
    yield apart("nothing", "bad_index", b"")
    yield apart("words", "bad_index", b"not an index")
    yield apart("object", "bad_index", b'{"frames": ' + row + b"}")
    yield apart("half", "bad_index", row[:-1])
    yield apart("two", "bad_index", row + row)
    yield apart("no-text", "bad_index", b"\xff\xfe")
    yield apart("no-rows", "empty", b"[]")
    yield apart("other-bytes", "index_mismatch", row, said=sha(b"something else"))
    yield apart("of-another-file", "length_mismatch", json.dumps(index_of((PACKED * 2, 50))).encode())
    yield apart("a-million-frames", "too_many_items", b"[" + b",".join([b'[0,1,1,""]'] * 1_000_000) + b"]")
    missing = wrap(job=JOB, payload={"blob": f"{JOB}/x", "codec": "gzip", "index": sha(b"nobody wrote this")})
    yield Case("indexes", "apart-missing", missing, Parked("index_missing"), {f"{JOB}/x": PACKED})


def _frames():
    def chunk(name, reason, stored, items=50, codec="gzip"):
        return _framed(name, Parked(reason), [(stored, items)], codec=codec)

    good, other = index_of((PACKED, 50)), gzip.compress(LINE * 50, 1)
    yield _framed("other-bytes", Parked("hash_mismatch"), [(flipped(PACKED, 5), 50)], rows=good)
    padded = other + bytes(max(0, len(PACKED) - len(other)))
    yield _framed("padded", Parked("hash_mismatch"), [(padded[: len(PACKED)], 50)], rows=good)
    yield chunk("empty-member", "last_line_open", gzip.compress(b""), items=1)
    yield chunk("a-line-less", "line_count", PACKED, items=51)
    yield chunk("a-line-more", "line_count", PACKED, items=49)
    yield chunk("open", "last_line_open", gzip.compress(LINE * 49 + LINE[:-1]))
    yield chunk("plain-open", "last_line_open", LINE * 2 + b"{}", items=3, codec="plain")
    yield chunk("plain-fewer", "line_count", LINE * 2, items=3, codec="plain")
    yield chunk("gzip-as-plain", "last_line_open", PACKED + b"x", items=1, codec="plain")
    yield chunk("plain-as-gzip", "corrupt", LINE * 50)
    yield chunk("plain-as-zstd", "corrupt", LINE * 50, codec="zstd")
    yield chunk("xz-as-zstd", "corrupt", lzma.compress(LINE * 50), codec="zstd")
    yield chunk("skipped-behind", "trailing_bytes", zstd(LINE * 50) + SKIPPABLE, codec="zstd")
    yield chunk("zstd-behind-gzip", "trailing_bytes", PACKED + zstd(LINE), items=51)
    yield chunk("two-members", "several_members", PACKED + other, items=100)
    yield chunk("half-a-member-behind", "several_members", PACKED + other[:-4], items=100)
    yield chunk("half", "truncated", PACKED[:-12])
    yield chunk("wide", "window_too_large", zstd_unsized(LINE * 50, window_log=30), codec="zstd")
    wide = b'{"x":"' + hashlib.shake_256(b"y").hexdigest(2_500_000).encode() + b'"}\n'
    yield chunk("five-mib", "frame_too_large", gzip.compress(wide, 1), items=1)
    blob = f"{JOB}/taken-away"
    message = wrap(job=JOB, payload={"blob": blob, "codec": "gzip", "frames": good})
    yield Case("frames", "never-written", message, Parked("payload_missing"))
    inline = {"inline": base64.b64encode(PACKED).decode(), "codec": "gzip"}
    shorter = {**inline, "inline": base64.b64encode(PACKED[:-1]).decode(), "frames": good}
    yield Case("frames", "inline-shorter", wrap(job=JOB, payload=shorter), Parked("length_mismatch"))
    other_hash = {**inline, "frames": [[0, len(PACKED), 50, sha(other)]]}
    yield Case("frames", "inline-other-hash", wrap(job=JOB, payload=other_hash), Parked("hash_mismatch"))
    half = {**inline, "index": sha(b"x")}
    yield Case("frames", "inline-half-an-index", wrap(job=JOB, payload=half), Parked("missing_field"))
