"""A chunk run in parts: whatever its parts are, the same comes out, and what is kept of it is bounded."""

import json

import msgspec
import pytest
import zstandard

from shared.errors import RefusedError, ResultRefusedError
from shared.messages import PortionMessage
from shared.payload import Limits
from shared.pipeline.outputs import NOT_KEPT, run_in_parts
from shared.pipeline.results import ChunkResult, read_result, unpack_result, write_result
from shared.refusals import Reason
from shared.workloads.billing import Billing

GOOD = [b'{"account":"a%d","plan":"basic","quantity":"%d.5"}' % (n % 3, n) for n in range(1, 9)]
BAD = [b"not json", b'{"account":"b","plan":"none","quantity":"2"}', b'{"account":"","plan":"basic","quantity":"0"}']
LINES = [*GOOD[:4], BAD[0], *GOOD[4:6], *BAD[1:], *GOOD[6:]]


def ran(*parts, limits=None):
    """Return what the parts come to."""
    return run_in_parts(Billing(), parts, 100, limits or Limits())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("lines", [GOOD, LINES], ids=["good", "mixed"])
def test_parts_come_to_the_same_as_the_whole(lines, size):
    """Items, sums, invoices and rejections with their ids do not tell how the lines were cut."""
    whole = ran(lines)
    assert ran(*(lines[at : at + size] for at in range(0, len(lines), size))) == whole
    assert whole.accepted.items + whole.rejected.items == len(lines)
    numbers = [json.loads(line)["number"] for line in whole.rejections.splitlines()]
    assert numbers == [100 + lines.index(line) for line in BAD if line in lines]


def test_unknown_sums_stay_unknown():
    """A line of one part that nobody can read leaves the sums of all rejected ones unknown."""
    assert ran([BAD[0]], [BAD[1]]).rejected.sums is None
    assert ran(GOOD, [BAD[1]]).rejected.sums == {"quantity": "2"}
    assert ran([BAD[2]], [BAD[2]]).rejected.sums == {"quantity": "0"}


def test_each_rejection_is_kept_and_its_text_as_long_as_there_is_room():
    """Number and reason of every one, however much text they bring."""
    lines = [b'{"plan": "%s"}' % (b"x" * 500)] * 100 + [b"{}"]
    found = [json.loads(line) for line in ran(lines, limits=Limits(rejected_text_most=10_000)).rejections.splitlines()]
    assert [one["number"] for one in found] == list(range(100, 201))
    assert len({one["reason"] for one in found} - {""}) >= 1
    whole = [one for one in found if one["line"]]
    assert 10 < len(whole) < 20
    assert {one["found"] for one in found if not one["line"]} == {NOT_KEPT}
    # What is short still has room where what is long has none.
    assert found[-1]["line"] == "{}"


def result(**changes):
    """Return a result with a small partial."""
    fields = {
        "job": "j",
        "chunk": 1,
        "revision": 1,
        "workload": "w",
        "accepted": PortionMessage(),
        "rejected": PortionMessage(),
    }
    return ChunkResult(**fields, **{"partial": msgspec.Raw(b'{"a":1}'), **changes})


def test_a_result_larger_than_it_may_be_is_refused_for_ever():
    """The chunk is parked with a reason, before anything of it is stored."""
    with pytest.raises(RefusedError) as refused:
        write_result(result(), b"x" * 1000, Limits(result_most=1000))
    assert refused.value.reason == Reason.RESULT_TOO_LARGE


def test_rejections_lie_behind_the_first_line_whatever_the_partial_holds():
    """A workload's own raw text may have line feeds; what is merged is the same."""
    content = write_result(result(partial=msgspec.Raw(b'{"a":\n1}')), b'{"number":1}\n{"number":2}\n', Limits())
    found, lines = read_result(content)
    assert (json.loads(bytes(found.partial)), list(lines)) == ({"a": 1}, [b'{"number":1}\n', b'{"number":2}\n'])


def test_a_result_of_the_version_before_is_still_read():
    """It has its rejections within the document."""
    content = msgspec.json.encode(result(rejections=[{"number": 1}, {"number": 2}]))
    found, lines = read_result(content)
    assert (json.loads(bytes(found.partial)), list(lines)) == ({"a": 1}, [b'{"number":1}\n', b'{"number":2}\n'])


def test_a_result_is_unpacked_within_its_bound_and_one_of_the_version_before_is_taken_as_it_is():
    """Another program's blob must not fill the memory of the finisher."""
    assert unpack_result("j/1/0", zstandard.compress(b"{}")) == (b"{}", b"")
    assert unpack_result("j/1/0", b'{"job":"j"}') == (b'{"job":"j"}', b"")
    bomb = zstandard.compress(b" " * (Limits().result_most + 1))
    whole = zstandard.compress(b"{}")
    for broken in (bomb, whole[:-1]):
        with pytest.raises(ResultRefusedError, match="j/1/0"):
            unpack_result("j/1/0", broken)


@pytest.mark.parametrize("content", [b"", b"\xc3(", b'{"job":"\xc3("}', b"[" * 100_000, b'{"job":1}'])
def test_what_is_no_result_is_refused_as_one(content):
    """Whatever it holds, it is told as a result that cannot be read."""
    with pytest.raises(ResultRefusedError):
        read_result(content)
