"""What holds for any bytes: what was put in comes out, and anything else ends under a name."""

import base64
import gzip
import io
import json

import zstandard
from hypothesis import given, strategies as st

from shared.errors import RefusedError
from shared.payload import Codec, Limits, open_envelope, read_submission
from shared.payload.frames import Framing, compress, expand_file, expand_frame, write_frames
from shared.payload.submission import Items
from shared.payload.text_lines import split_lines
from shared.refusals import BY_CODE, Reason
from tests.payload.fetching import read_frames
from tests.payload.hostile import MESSAGE_ID

#: Small frames and lines, so that every edge is met within a few bytes.
SMALL = Limits(frame_items=3, frame_items_least=2, frame_bytes=64, line_bytes=32, ratio_from=64, frame_items_most=100)
LIMITS = Limits()
CODES = {reason.value for reason in Reason}
LINE = st.binary(min_size=1, max_size=32).filter(lambda line: b"\n" not in line)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(max_size=6), JSON, max_size=5)
CODEC = st.sampled_from(Codec)


def framed(lines, codec, limits, chunk_items=None):
    """Return the stored bytes and what describes them."""
    spool = io.BytesIO()
    made = write_frames(enumerate(lines, 1), spool, Framing(limits=limits, codec=codec, chunk_items=chunk_items))
    return spool.getvalue(), made


@given(st.lists(LINE, min_size=1, max_size=40), CODEC, st.none() | st.integers(1, 20))
def test_lines_come_out_of_frames_as_they_went_in(lines, codec, chunk_items):
    """Every line is in exactly one frame, in order, and a frame ends where a chunk does."""
    stored, made = framed(lines, codec, SMALL, chunk_items)
    found = []
    ends = set()
    for text in read_frames(stored, made.index, codec, SMALL):
        found += text.split(b"\n")[:-1]
        ends.add(len(found))
    assert found == lines
    if chunk_items is not None:
        # Of the smallest chunks, two share a frame.
        assert ends >= set(range(step := max(2, chunk_items), len(lines), step))
    elif all(len(line) < 21 for line in lines):
        assert ends == {*range(3, len(lines), 3), len(lines)}
    assert made.index.items == len(lines)
    assert made.index.stored == len(stored)


@given(st.lists(LINE, min_size=1, max_size=40), CODEC)
def test_the_same_lines_make_the_same_frames(lines, codec):
    """A restart at any point makes the same payload, under the same name."""
    assert framed(lines, codec, SMALL) == framed(lines, codec, SMALL)


@given(st.lists(LINE, min_size=1, max_size=20))
def test_the_whole_payload_is_a_file_for_any_tool(lines):
    """`zstd -d` and `gzip -d` read a payload without knowing of frames."""
    whole = b"".join(line + b"\n" for line in lines)
    assert gzip.decompress(framed(lines, Codec.GZIP, SMALL)[0]) == whole
    stored, _ = framed(lines, Codec.ZSTD, SMALL)
    assert zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True).read() == whole


@given(st.binary(max_size=400), st.integers(1, 64), CODEC)
def test_a_file_is_cut_into_the_same_lines_however_it_arrives(content, size, codec):
    """Where a read ends makes no difference to the lines."""
    stored = compress(content, codec)
    limits = Limits(line_bytes=400, frame_bytes=400, ratio_from=4000)
    pieces = [stored[at : at + size] for at in range(0, len(stored), size)]
    assert outcome(lambda: lines_of(pieces, codec, limits)) == outcome(lambda: lines_of([stored], codec, limits))


def lines_of(pieces, codec, limits):
    """Return the numbered lines of a file that arrives in pieces."""
    return list(split_lines(expand_file(pieces, codec, limits), limits))


def outcome(act):
    """Return what an act gives, or the reason of its refusal; any other exception passes."""
    try:
        return act()
    except RefusedError as refused:
        return BY_CODE[refused.reason].value


@given(st.binary(max_size=300), CODEC)
def test_any_bytes_as_a_frame_expand_or_are_refused(content, codec):
    """A frame never raises anything but a named refusal."""
    outcome(lambda: expand_frame(content, codec, SMALL))


@given(st.binary(max_size=200), CODEC, st.data())
def test_a_changed_frame_never_expands_to_something_else_unseen(content, codec, data):
    """Cut short or continued, a frame is refused; only the whole one gives its content."""
    stored = compress(content, codec)
    cut = data.draw(st.integers(0, len(stored) - 1)) if stored else 0
    rest = data.draw(st.binary(min_size=1, max_size=8))
    assert expand_frame(stored, codec, LIMITS) == content
    if codec is not Codec.PLAIN:
        assert isinstance(outcome(lambda: expand_frame(stored[:cut], codec, LIMITS)), str)
        assert isinstance(outcome(lambda: expand_frame(stored + rest, codec, LIMITS)), str)


@given(st.binary(max_size=300) | st.text(max_size=200))
def test_any_bytes_as_a_message_are_read_or_refused(body):
    """A message never raises anything but a named refusal."""
    outcome(lambda: read_submission(open_envelope(body, LIMITS), MESSAGE_ID, LIMITS))


@given(OBJECT)
def test_any_fields_in_the_wrapper_are_read_or_refused(fields):
    """JSON of the wrong shape is refused by a name as well."""
    body = json.dumps({"sluice": {"items": [{}], **fields}})
    outcome(lambda: read_submission(open_envelope(body, LIMITS), MESSAGE_ID, LIMITS))


@given(st.lists(OBJECT, min_size=1, max_size=8), st.booleans(), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_items_that_a_person_types_arrive_as_typed(items, is_base64, indent, is_ascii):
    """Indented or not, escaped or not, Base64 or not: each item is one line that says the same."""
    body = json.dumps({"sluice": {"items": items}}, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "replace")
    content = read_submission(
        open_envelope(base64.b64encode(body) if is_base64 else body, LIMITS), MESSAGE_ID, LIMITS
    ).content
    assert isinstance(content, Items)
    assert [json.loads(line) for line in content.lines] == json.loads(body)["sluice"]["items"]
    assert not any(b"\n" in line for line in content.lines)
