"""The wrapper that every queue message has, of whatever kind."""

import base64
import json

import pytest

from shared.errors import RefusedError
from shared.payload import Limits, MessageHeader, open_envelope, seal
from shared.refusals import BY_CODE, Reason

LIMITS = Limits()


class Dispatch(MessageHeader, frozen=True):
    """A kind of message that is not a submission."""

    job: str
    cursor: int = 0


@pytest.mark.parametrize("encode", [bytes, bytes.decode, base64.b64encode, lambda body: b" \n" + body + b"\r\n"])
def test_a_kind_of_its_own_is_sealed_and_read(encode):
    """A queue may carry several kinds: the reader sees the kind first, then reads it as that."""
    body = seal(Dispatch(job="job-1", cursor=300), "dispatch")
    assert json.loads(body) == {"sluice": {"v": 1, "kind": "dispatch", "job": "job-1", "cursor": 300}}
    envelope = open_envelope(encode(body), LIMITS)
    assert envelope.kind == "dispatch"
    assert envelope.read(Dispatch) == Dispatch(job="job-1", cursor=300, kind="dispatch")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, Reason.MISSING_FIELD),
        ({"job": 1}, Reason.WRONG_TYPE),
        ({"job": "a", "curser": 1}, Reason.UNKNOWN_FIELD),
        ({"job": "a", "cursor": 1.5}, Reason.WRONG_TYPE),
    ],
)
def test_what_the_decoder_says_has_its_reason(fields, reason):
    """The decoder's wording is what tells these apart, so a new version of it must not change it unseen."""
    body = json.dumps({"sluice": {"kind": "dispatch", **fields}})
    with pytest.raises(RefusedError) as refused:
        open_envelope(body, LIMITS).read(Dispatch)
    assert refused.value.reason == reason


def test_every_reason_says_what_to_do():
    """An error ends with what to send instead, whichever it is."""
    for code, reason in BY_CODE.items():
        assert code == reason.value == str(reason)
        assert reason.means
        assert reason.instead
        assert not reason.means.endswith(".")


@pytest.mark.parametrize(
    "wrong", [{"depth": 0}, {"frame_items": 200_000}, {"frame_bytes": 2**30}, {"line_bytes": 2 * 2**20}]
)
def test_bounds_that_contradict_each_other_are_refused(wrong):
    """A writer whose frames its own reader refuses cannot be configured."""
    with pytest.raises(ValueError, match=r"expected 1 or more|larger than|does not fit"):
        Limits(**wrong)
