"""What publishers send: submissions, indexes, frames, files and the lines within them."""

import base64
import gzip
import hashlib
import re
import zlib
from decimal import Decimal

import zstandard

from shared.errors import RefusedError
from shared.parked.entry import DOOR
from shared.parked.parking import at_the_door, read_claimed_job
from shared.payload import Limits, open_envelope, read_json, read_submission
from shared.payload.frames import Codec, Framing, compress, expand_file, frame_file, parse_index, spool_for
from shared.payload.submission import DEFAULT_WORKLOAD, Items
from shared.pipeline.plan import cut
from shared.workloads.billing import LONGEST_ACCOUNT, MOST_QUANTITY, PLANS, Billing
from shared.workloads.registry import run_lines
from tests.fuzz.grammar import damaged, encoded, mutated, spelt
from tests.fuzz.target import ACCEPTED, Target
from tests.payload.fetching import read_frames

LIMITS = Limits()
#: So small that a case of a few bytes meets every bound.
SMALL = Limits(frame_items=3, frame_bytes=256, line_bytes=128, ratio_from=1024, frame_items_most=50, members_most=8)
MESSAGE_ID = "5f0e6b1c-0000-4000-8000-000000000001"
BILLING = Billing()
#: What a line of billing may be rejected for beside the catalogue, by the workload itself.
OF_WORKLOAD = {"bad_account", "unknown_plan", "bad_quantity"}
_PLAIN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,18})?")


def usage(rng):
    """Return one transaction as it should be."""
    return {
        "account": rng.choice(["alice", "bob", "cärol", "a" * 30]),
        "plan": rng.choice(["basic", "premium", "standard", "nippon", "gulf"]),
        "quantity": rng.choice([str(rng.randint(0, 10**6)), f"{rng.randint(0, 999)}.{rng.randint(0, 99):02}", 7]),
        **({"note": {"tags": ["x", 1.5, None]}} if rng.random() < 0.3 else {}),
    }


def lines_of(rng, most=6):
    """Return some lines, one after the other as a file has them, most of them good."""
    return [_line(rng) for _ in range(rng.randint(1, most))]


def _line(rng):
    if rng.random() < 0.05:
        return rng.choice([b"", b" ", b"[]", b"null", b"7", b'"a"', b"{}{}", b"{", b"{}", b"\xff{}", b'{"a":"\xe4"}'])
    text = spelt(mutated(usage(rng), rng, 0.35), rng).replace("\n", " ").encode("utf-8", "surrogatepass")
    return damaged(text, rng).replace(b"\n", b" ") if rng.random() < 0.05 else text


def stored_frame(rng, lines, codec):
    """Return what a publisher of any language makes of the lines."""
    text = b"".join(line + b"\n" for line in lines)
    if codec is Codec.GZIP:
        return rng.choice([lambda: gzip.compress(text, mtime=0), lambda: compress(text, codec)])()
    if codec is Codec.PLAIN:
        return text
    unsized = zstandard.ZstdCompressor(level=3, write_content_size=False)
    return rng.choice([lambda: compress(text, codec), lambda: unsized.compress(text)])()


def rows_of(frames):
    """Return the index of (stored bytes, items)."""
    rows, offset = [], 0
    for stored, items in frames:
        rows.append([offset, len(stored), items, hashlib.sha256(stored).hexdigest()])
        offset += len(stored)
    return rows


def submission(rng):
    """Return the fields of a submission as it should be."""
    fields = {"job": rng.choice(["job-1", "a.b_c-d", "x"]), "workload": DEFAULT_WORKLOAD}
    fields |= {"gate": "nightly"} if rng.random() < 0.4 else {}
    fields |= {"deadline": "2026-11-21T06:00:00Z"} if rng.random() < 0.2 else {}
    fields |= {"v": 1, "kind": "submission"} if rng.random() < 0.5 else {}
    fields |= {"trace": f"00-{'a' * 32}-{'b' * 16}-01"} if rng.random() < 0.1 else {}
    fields |= {"declared": {"items": 2, "sums": {"quantity": "12.50"}}} if rng.random() < 0.4 else {}
    return {**fields, **rng.choice([_with_items, _with_inline, _with_blob, _with_file])(rng, fields["job"])}


def _with_items(rng, _job):
    return {"items": [usage(rng) for _ in range(rng.randint(1, 3))]}


def _with_inline(rng, _job):
    codec = rng.choice(list(Codec))
    frames = [(stored_frame(rng, lines, codec), len(lines)) for lines in (lines_of(rng, 3), lines_of(rng, 2))]
    text = base64.b64encode(b"".join(stored for stored, _ in frames)).decode()
    with_index = {"frames": rows_of(frames)} if rng.random() < 0.7 else {}
    return {"payload": {"inline": text, "codec": codec.value, **with_index}}


def _with_blob(rng, job):
    rows = rows_of([(rng.randbytes(5), 1), (rng.randbytes(9), 2)])
    return {"payload": {"blob": f"{job}/{'0' * 64}", "codec": "zstd", "frames": rows}}


def _with_file(_rng, _job):
    return {"payload": {"blob": "uploads/day-1.ndjson.gz"}}


def _submission_case(rng):
    text = spelt(mutated({"sluice": submission(rng)}, rng), rng)
    return (encoded(text, rng, 0.25),)


def _read_submission(body):
    # Whatever it is, it can be parked under a key: the same one at each delivery.
    claimed = read_claimed_job("submissions", body, MESSAGE_ID)
    parked = at_the_door("submissions", body, MESSAGE_ID, claimed)
    assert (parked.partition, parked.chunk, parked.revision) == (DOOR, None, None)
    assert parked.key == at_the_door("submissions", body, MESSAGE_ID, claimed).key
    read = read_submission(open_envelope(body, LIMITS), MESSAGE_ID, LIMITS)
    if isinstance(read.content, Items):
        # What came in through this door is a line that the other one takes as well.
        for line in read.content.lines:
            read_json(line, LIMITS.depth)
    return ACCEPTED


def _index_case(rng):
    rows = rows_of([(rng.randbytes(rng.randint(1, 9)), rng.randint(1, 5)) for _ in range(rng.randint(1, 5))])
    made = mutated(rows, rng)
    if rng.random() < 0.2:
        _shift(made, rng)
    return (encoded(spelt(made, rng), rng, 0.1),)


def _shift(rows, rng):
    """Shift where frames begin, or make them empty, huge or overlapping, the others following."""
    end = 0
    at = rng.randrange(len(rows) or 1)
    for number, row in enumerate(rows):
        if isinstance(row, list) and len(row) == 4:
            if number == at:
                row[rng.randrange(3)] = rng.choice([0, -1, 2**31, 2**63, 10**30, 4 * 1024**2, 4 * 1024**2 + 1, 100_001])
            elif type(row[1]) is int:
                row[0] = end
            end += row[1] if type(row[1]) is int else 0


def _read_index(text):
    index = parse_index(text, Codec.ZSTD, LIMITS)
    chunks = cut(index, 1000, LIMITS)
    assert [chunk.before for chunk in chunks] == [sum(one.items for one in chunks[:n]) for n in range(len(chunks))]
    assert sum(chunk.items for chunk in chunks) == index.items <= LIMITS.items_most
    assert index.stored <= LIMITS.stored_most
    return ACCEPTED


def _frame_case(rng):
    codec, lines = rng.choice(list(Codec)), lines_of(rng)
    stored, items = stored_frame(rng, lines, codec), len(lines)
    said = stored
    if rng.random() < 0.3:
        stored = said = damaged(stored, rng)
    elif rng.random() < 0.2:
        stored = damaged(stored, rng)
    elif rng.random() < 0.15:
        stored = said = rng.choice([stored + stored, bomb(rng, codec), zstandard.compress(stored), b"", stored[:4]])
    [row] = rows_of([(said, items)])
    named = codec.value if rng.random() < 0.9 else rng.choice(list(Codec)).value
    return stored, spelt(mutated([row], rng, 0.15), rng).encode("utf-8", "replace"), named.encode()


def bomb(rng, codec):
    """Return few bytes that want to be many."""
    size = rng.choice([2_000, 70_000, 3_000_000])
    if codec is Codec.GZIP:
        packer = zlib.compressobj(9, wbits=31)
        return packer.compress(b"\n" * size) + packer.flush()
    return zstandard.ZstdCompressor(level=1, write_content_size=rng.random() < 0.5).compress(b"\n" * size)


def _read_frame(stored, row, codec):
    index = parse_index(row, Codec(codec.decode()), SMALL)
    for frame, text in zip(index.frames, read_frames(stored, index, Codec(codec.decode()), SMALL), strict=True):
        assert (text.count(b"\n"), text[-1:]) == (frame.items, b"\n")
        assert hashlib.sha256(stored[frame.offset : frame.offset + frame.length]).hexdigest() == frame.sha256
    return ACCEPTED


def _file_case(rng):
    codec = rng.choice(list(Codec))
    members = [stored_frame(rng, lines_of(rng, 4), codec) for _ in range(rng.randint(1, 3))]
    whole = b"".join(members)
    if rng.random() < 0.4:
        whole = rng.choice([damaged, damaged, _marked, _bombed])(whole, rng)
    return whole, (codec if rng.random() < 0.95 else rng.choice(list(Codec))).value.encode(), b"%d" % rng.randint(1, 64)


def _marked(whole, rng):
    return rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b"\n" * 40]) + whole


def _bombed(whole, rng):
    return whole + bomb(rng, rng.choice([Codec.GZIP, Codec.ZSTD]))


def _read_file(whole, codec, step):
    cut = int(step)
    at_once = _framed([whole], codec)
    pieces = _framed([whole[at : at + cut] for at in range(0, len(whole), cut)], codec)
    if isinstance(at_once, str) and isinstance(pieces, str):
        # Of two things that are wrong with it, either may be seen first.
        return at_once
    assert at_once == pieces, f"in pieces of {cut} it is {pieces!r}, at once {at_once!r}"
    return ACCEPTED


def _framed(pieces, codec):
    try:
        with spool_for(SMALL) as spool:
            content = expand_file(pieces, Codec(codec.decode()), SMALL)
            made = frame_file(content, spool, Framing(limits=SMALL, codec=Codec.PLAIN))
            return made.index.items, made.sha256
    except RefusedError as error:
        return str(error.reason)


def _lines_case(rng):
    return tuple(lines_of(rng, 5))


def _run_lines(*lines):
    """Run the lines as a worker does and hold its answer against what the page says of each."""
    done = run_lines(BILLING, list(lines), 1)
    rejected = {one.number: one.reason for one in done.rejections}
    assert done.accepted.items + done.rejected.items == len(lines)
    total = Decimal(0)
    for number, line in enumerate(lines, 1):
        wanted, found = _by_the_page(line), rejected.get(number, ACCEPTED)
        assert found in wanted, f"{found}, the page says {sorted(wanted)}: {line!r}"
        if found == ACCEPTED:
            total += Decimal(str(read_json(line, LIMITS.depth)["quantity"]))
    assert Decimal((done.accepted.sums or {"quantity": "NaN"})["quantity"]) == total
    return ACCEPTED if not rejected else min(rejected.values())


def _by_the_page(line):
    """Return what may become of a line of billing: what docs/formats.md says, by a reader that is slow and exact."""
    try:
        found = read_json(line, LIMITS.depth)
    except RefusedError as error:
        return {str(error.reason)}
    if not isinstance(found, dict):
        return {"not_an_object"}
    amount = _amount(found.get("quantity"))
    if amount is None or not all(isinstance(found.get(name), str) for name in ("account", "plan")):
        return {"does_not_fit", "bad_amount"}
    fits = found["plan"] in PLANS and 0 < len(found["account"]) <= LONGEST_ACCOUNT and 0 < amount <= MOST_QUANTITY
    return {ACCEPTED} if fits else OF_WORKLOAD


def _amount(value):
    """Return a number within the bounds of control sums, or None."""
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return None
    if value is None or isinstance(value, bool | dict | list):
        return None
    number = Decimal(value)
    is_short = abs(number) < Decimal(10) ** 20 and -int(number.as_tuple().exponent) <= 18
    return number if is_short else None


DOORS = (
    Target("submissions", _submission_case, _read_submission, 250_000),
    Target("indexes", _index_case, _read_index, 150_000),
    Target("frames", _frame_case, _read_frame, 100_000),
    Target("files", _file_case, _read_file, 60_000),
    Target("lines", _lines_case, _run_lines, 120_000),
)
