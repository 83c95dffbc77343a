"""The publisher's library: what it sends, the pipeline reads; what it cannot send, it refuses by its number."""

import dataclasses
import gzip
import io
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import msgspec
import pytest
from azure.core.exceptions import ServiceRequestError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.queue import LinearRetry, QueueClient
from hypothesis import given, strategies as st

from shared.errors import RefusedError, StorageUnavailableError
from shared.payload import (
    Codec,
    Form,
    Intake,
    Limits,
    PayloadStores,
    fingerprint,
    fingerprint_before,
    fingerprints_of,
    open_envelope,
    read_submission,
)
from shared.publish import Publisher, encode_all, read_file


class Usage(msgspec.Struct):
    """A transaction as a publisher's program holds it."""

    id: str
    amount: Decimal


@dataclasses.dataclass
class Plain:
    """Another one."""

    id: int


def usages(count):
    """Yield so many, of 0.01 each, that do not compress to nothing."""
    return (Usage(f"t-{number * 7919 % 1_000_003}", Decimal("0.01")) for number in range(count))


@pytest.mark.parametrize(
    ("count", "form", "is_index_apart"),
    [(3, Form.INLINE, False), (30_000, Form.BLOB, False), (90_000, Form.BLOB, True)],
)
def test_what_is_submitted_arrives(dropped, count, form, is_index_apart):
    """In the message, beside it, or with the index beside it too: every transaction arrives as it was."""
    small_frames = Limits(frame_items=100) if is_index_apart else Limits()
    publisher = Publisher(dropped.queue, dropped.payloads, limits=small_frames)
    sent = publisher.submit(job="job-1", gate="nightly", transactions=usages(count), sums=["amount"])
    assert (sent.form, sent.items, sent.sums) == (form, count, {"amount": Decimal(count) / 100})
    said = dropped.submission()
    assert (said.job, said.workload, said.gate) == ("job-1", "billing", "nightly")
    assert (said.declared.items, said.declared.sums) == (count, sent.sums)
    assert dropped.transactions(Usage) == list(usages(count))
    assert sent.message_bytes == len(dropped.message().content.encode()) <= 65_536
    assert len(list(dropped.payloads.list_blob_names())) == (form is Form.BLOB) + is_index_apart


@pytest.mark.parametrize(("count", "frame_items"), [(3, 1000), (30_000, 1000), (90_000, 100)])
def test_the_message_alone_says_whether_the_app_will_take_it_for_the_same(dropped, count, frame_items):
    """Both hashes that the app works out from the payload, before anything was stored; an objection leaves nothing."""
    seen = []
    publisher = Publisher(dropped.queue, dropped.payloads, limits=Limits(frame_items=frame_items))

    def object_to(body):
        seen.append(body)
        assert not list(dropped.payloads.list_blob_names())
        if len(seen) == 1:
            raise PermissionError

    publisher.before_send = object_to
    options = {"job": "job-1", "gate": "nightly", "sums": ["amount"]}
    with pytest.raises(PermissionError):
        publisher.submit(**options, transactions=usages(count))
    assert (list(dropped.payloads.list_blob_names()), dropped.queue.peek_messages()) == ([], [])
    publisher.submit(**options, transactions=usages(count))
    submission = dropped.submission()
    payload = Intake("", PayloadStores(lambda _name: dropped.payloads), Limits()).take(submission)
    own = read_submission(open_envelope(seen[0], Limits()), "", Limits())
    assert fingerprints_of(own) == (fingerprint(submission, payload), fingerprint_before(submission, payload))


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_arrives(dropped, codec):
    """What a publisher compresses with is its own choice."""
    Publisher(dropped.queue, dropped.payloads, codec=codec).submit(job="job-1", transactions=usages(5_000))
    assert dropped.transactions(Usage) == list(usages(5_000))


def test_a_message_never_expires(dropped, publisher):
    """What is held for months is still there when its gate opens."""
    publisher.submit(job="job-1", transactions=usages(1))
    assert dropped.message().expires_on > datetime(9000, 1, 1, tzinfo=UTC)


def test_a_deadline_is_told_in_utc_and_needs_a_zone(dropped, publisher):
    """The machine of the publisher has a time zone, the one of the app has another."""
    deadline = datetime(2026, 11, 21, 7, 30, tzinfo=timezone(timedelta(hours=1)))
    publisher.submit(job="job-1", transactions=usages(1), deadline=deadline)
    assert json.loads(dropped.message().content)["sluice"]["deadline"] == "2026-11-21T06:30:00Z"
    assert dropped.submission().deadline == deadline
    with pytest.raises(ValueError, match="no time zone"):
        publisher.submit(job="job-1", transactions=usages(1), deadline=deadline.replace(tzinfo=None))


def test_dicts_dataclasses_and_lines_are_transactions_too(dropped, publisher):
    """A publisher need not know msgspec."""
    publisher.submit(job="job-1", transactions=[{"id": 1}, Plain(2), b'{"id": 3}', b'{\n"id": 4}'])
    assert dropped.transactions() == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]


def test_the_same_payload_is_stored_once(dropped, publisher):
    """Submitting again after an error costs one look at the blob, not a second one."""
    blobs = {publisher.submit(job="job-1", transactions=usages(30_000)).blob for _ in range(2)}
    assert list(dropped.payloads.list_blob_names()) == list(blobs)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"a": float("nan")}, "not_a_number"),
        ({"a": [{"b": float("-inf")}]}, "not_a_number"),
        ({"a": "\ud800"}, "not_json"),
        ({"a": object()}, "not_json"),
        ({"amount": "twelve"}, "bad_amount"),
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b"{'a': 1}", "not_json"),
        ([1], "not_an_object"),
        ({"a": "x" * 300_000}, "line_too_long"),
    ],
)
def test_what_nobody_could_read_is_not_sent(dropped, publisher, bad, reason):
    """The publisher learns which transaction it is, and nothing is in the queue."""
    with pytest.raises(RefusedError) as refused:
        publisher.submit(job="job-1", transactions=[{"a": None}, *usages(1500), bad, {"a": 1}], sums=["amount"])
    assert refused.value.reason == reason
    assert "1502" in refused.value.found
    assert dropped.queue.peek_messages() == []
    assert list(dropped.payloads.list_blob_names()) == []


@pytest.mark.parametrize("wrong", [{"job": "Job 1"}, {"gate": "a/b"}, {"workload": ""}])
def test_a_wrong_name_is_refused_before_anything_is_read(publisher, wrong):
    """A name that the pipeline would refuse is refused here, where somebody can correct it."""
    with pytest.raises(RefusedError):
        publisher.submit(**{"job": "job-1", "transactions": iter(lambda: pytest.fail("it was read"), None), **wrong})


def test_nothing_is_no_submission(publisher):
    """An empty list is a mistake, not a job that completes at once."""
    with pytest.raises(RefusedError, match="empty"):
        publisher.submit(job="job-1", transactions=[])


class Unreachable(RequestsTransport):
    """A queue service that is down."""

    def send(self, request, **kwargs):
        """Refuse the connection."""
        raise ServiceRequestError("connection refused")


def test_an_outage_says_what_to_do(azurite, dropped):
    """The payload is stored, the message is not: sending again under the same job id is harmless."""
    policy = LinearRetry(backoff=0, retry_total=1, random_jitter_range=0)
    with QueueClient.from_connection_string(
        azurite.connection_string, "down", transport=Unreachable(), retry_policy=policy
    ) as down:
        publisher = Publisher(down, dropped.payloads)
        with pytest.raises(StorageUnavailableError, match=r"job 'job-1'.*send it again"):
            publisher.submit(job="job-1", transactions=usages(3))


def test_a_null_is_no_nan():
    """A transaction that says null is sent as it is."""
    assert list(encode_all([{"a": None, "b": "null"}])) == [(1, b'{"a":null,"b":"null"}')]


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=9)), min_size=1, max_size=9))
def test_a_file_has_the_lines_that_were_written(objects):
    """Plain or packed, with and without a last line feed."""
    lines = [json.dumps(one).encode() for one in objects]
    text = b"\n".join(lines)
    for content in (text, text + b"\n", gzip.compress(text)):
        assert list(read_file(io.BytesIO(content))) == list(enumerate(lines, 1))


@pytest.mark.parametrize("count", [20, 10_000, 10_001, 25_000])
def test_the_first_lines_are_read_strictly_and_the_rest_is_left_to_the_workers(dropped, publisher, count):
    """Whatever is behind them; a small payload is read whole."""
    content = b"{}\n" * (count - 1) + b"{'not': 'JSON'}\n"
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1)]
    for submit in (
        lambda job, **given: publisher.submit_file(job=job, file=io.BytesIO(content), **given),
        lambda job, **given: publisher.submit_lines(job=job, lines=lines, **given),
    ):
        for wish in ({"check": True}, {"sums": ["amount"]}, *([{}] if count <= 10_000 else [])):
            with pytest.raises(RefusedError, match=f"not_json: line {count}: "):
                submit("job-1", **wish)
        if count > 10_000:
            sent = submit("job-1")
            assert (sent.items, sent.checked) == (count, 10_000)
            assert publisher.submit(job="job-2", transactions=[{}] * count, check=True).checked == count


def test_a_declaration_goes_with_the_sums_that_are_added_up(dropped, publisher):
    """Both are proven by the job; a number of transactions that is not that of the payload is refused at once."""
    declare = {"fee": Decimal("1E+2"), "items": 3}
    sent = publisher.submit(job="job-1", transactions=usages(3), sums=["amount"], declare=declare)
    wanted = {"fee": Decimal(100), "amount": Decimal("0.03")}
    assert (dropped.submission().declared.sums, sent.sums) == (wanted, wanted)
    with pytest.raises(RefusedError, match="count_mismatch: 4 transactions are declared, its index has 3"):
        publisher.submit(job="job-2", transactions=usages(3), declare={"items": 4})
    for wrong, error in (
        ({"amount": 1}, "is to be added up"),
        ({"items": "x"}, "whole number"),
        ({"fee": "1e2"}, "bad_sum"),
    ):
        with pytest.raises((ValueError, RefusedError), match=error):
            publisher.submit(job="job-2", transactions=iter([]), sums=["amount"], declare=wrong)
