import pytest
from functions_local_host.message_encoding import decoded, encoded
from functions_local_host.queue_outcome import Admission, PoisonRule, Settlement, poison_queue_of

WITH_POISON, WITHOUT = PoisonRule(5, "work-poison"), PoisonRule(5, None)


@pytest.mark.parametrize(
    ("rule", "count", "is_decodable", "expected"),
    [
        (WITH_POISON, 5, True, Admission.RUN),
        (WITH_POISON, 6, True, Admission.POISON),
        (WITH_POISON, 1, False, Admission.POISON),
        (WITHOUT, 6, True, Admission.LEAVE),
        (WITHOUT, 1, False, Admission.LEAVE),
    ],
)
def test_a_message_is_run_only_within_its_count_and_encoding(rule, count, is_decodable, expected):
    """One delivery too many, or another encoding, goes to poison before any run."""
    assert rule.admit(count, is_decodable=is_decodable) is expected


@pytest.mark.parametrize(
    ("rule", "count", "is_ok", "expected"),
    [
        (WITH_POISON, 5, True, Settlement.DELETE),
        (WITH_POISON, 4, False, Settlement.RELEASE),
        (WITH_POISON, 5, False, Settlement.POISON),
        (WITHOUT, 1, False, Settlement.LEAVE),
        (WITHOUT, 9, True, Settlement.DELETE),
    ],
)
def test_a_failure_is_poison_at_the_last_count_and_released_before(rule, count, is_ok, expected):
    """So a message runs exactly as often as maxDequeueCount says."""
    assert rule.settle(count, is_ok=is_ok) is expected


@pytest.mark.parametrize(
    ("name", "poison"),
    [("work", "work-poison"), ("work-poison", None), ("w" * 56, "w" * 56 + "-poison"), ("w" * 57, None)],
)
def test_poison_queues_have_no_poison_queue_and_long_names_neither(name, poison):
    """A queue name has at most 63 characters."""
    assert poison_queue_of(name) == poison


@pytest.mark.parametrize("encoding", ["base64", "none"])
def test_a_body_written_in_an_encoding_is_read_back(encoding):
    """What an output binding writes, a trigger reads."""
    assert decoded(encoded("grüße", encoding), encoding) == "grüße".encode()


@pytest.mark.parametrize("text", ["{}", "abc", "ab==c", "gr\xfc\xdfe"])
def test_text_that_is_not_base64_is_told_apart(text):
    """Such a message must not reach the function as garbage."""
    assert decoded(text, "base64") is None


def test_white_space_in_base64_is_skipped():
    """As .NET skips it."""
    assert decoded("aG\r\n k=", "base64") == b"hi"
