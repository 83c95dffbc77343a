"""What is stored and sent stays as it is, byte for byte, and is read by the code that comes after."""

import json
from datetime import timedelta

import pytest

from tests.golden import messages, parts as p, shelves, values as v
from tests.golden.__main__ import file_of, text_of

LIMITS = p.Limits()


def golden(name):
    """Return a document as it is in the repository."""
    return json.loads(file_of(name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", shelves.SHELVES)
def test_what_is_stored_is_written_as_before(name):
    """Names of rows, columns and blobs, types and contents; a change that is meant needs `python -m tests.golden`."""
    made = shelves.written(name, shelves.SHELVES[name].values)
    assert text_of(made) == file_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", shelves.SHELVES)
def test_what_was_stored_is_read_and_written_again(name):
    """The same values come out, and storing them leaves the same bytes."""
    found = shelves.read_again(name, golden(name))
    assert found == shelves.SHELVES[name].values
    assert shelves.written(name, found) == golden(name)


def test_messages_are_sent_as_before():
    """Bodies, byte for byte."""
    assert text_of(messages.bodies()) == file_of("messages").read_text(encoding="utf-8")
    assert text_of(messages.sounds()) == file_of("sounds").read_text(encoding="utf-8")
    assert text_of(messages.bounds()) == file_of("bounds").read_text(encoding="utf-8")
    assert text_of(messages.waits()) == file_of("waits").read_text(encoding="utf-8")


def test_messages_about_a_job_with_lines_are_sent_as_before():
    """And read as they were sent. An instance of 0.4.0 waits for a newer one by their versions."""
    assert text_of(messages.line_bodies()) == file_of("linemessages").read_text(encoding="utf-8")
    for name, body in golden("linemessages").items():
        assert p.decode(body) == v.LINED_MESSAGES[name]


def test_messages_about_what_is_set_aside_are_sent_as_before():
    """And read as they were sent. An instance of 0.4.0 waits for a newer one by their versions."""
    assert text_of(messages.aside_bodies()) == file_of("asidemessages").read_text(encoding="utf-8")
    for name, body in golden("asidemessages").items():
        assert p.decode(body) == v.ASIDE_MESSAGES[name]


def test_the_bus_gets_what_it_got_before():
    """Bodies, and the properties that subscriptions filter by."""
    assert text_of(messages.on_the_bus()) == file_of("bus").read_text(encoding="utf-8")


def test_words_and_keys_are_those_of_before():
    """They stand in rows, so none goes; one that comes is written down."""
    assert text_of(messages.words()) == file_of("words").read_text(encoding="utf-8")


def test_no_error_is_renamed():
    """Nor does their module move: both stand in parked rows. One that comes is no change."""
    assert p.errors.__name__ == "shared.errors"
    assert set(golden("errors")) <= set(messages.errors())


OWN = {"messages": v.MESSAGES, "sounds": v.SOUNDS}


@pytest.mark.parametrize(("document", "name"), [(document, name) for document in OWN for name in OWN[document]])
def test_messages_of_before_are_read(document, name):
    """And sent again as they were."""
    body = golden(document)[name]
    assert p.decode(body) == OWN[document][name]
    assert p.encode(p.decode(body)).decode() == body


def test_permits_and_hints_of_before_are_read():
    """What is on the bus during a deployment."""
    sent = golden("messages")
    assert p.decode_permit(sent["permit"].encode()) == v.PERMIT
    assert p.decode_permit(sent["permit, as little as can be"].encode()) == v.LEAST_PERMIT
    hints = [p.Hint.of(one["subject"], one["properties"]) for one in golden("bus")[:4]]
    places = [p.Hint("morning", "nightly"), p.Hint("morning", "nightly", slice=7)]
    assert hints == [p.Hint("morning"), *places, p.Hint(job="nightly")]
    # With a subject, which a version before gave it too.
    before = {"kind": "release", "gate": "morning", "epoch": 3, "since": "nightly"}
    assert p.Hint.of("morning", before) == p.Hint("morning", "nightly")


def test_a_bound_of_rejected_transactions_is_read():
    """As it was sent."""
    body = golden("bounds")["submission: bounded"]
    found = p.read_submission(p.open_envelope(body, LIMITS), "m-1", LIMITS)
    assert found.most_rejected == v.BOUNDED_SUBMISSION.most_rejected


def test_jobs_to_wait_for_are_read():
    """As they were sent."""
    after, from_jobs = (
        p.read_submission(p.open_envelope(golden("waits")[f"submission: {name}"], LIMITS), "m-1", LIMITS)
        for name in v.WAITING_SUBMISSIONS
    )
    assert (after.waits, after.after_parked, after.night) == (("rate-1",), True, "n-1124")
    assert (from_jobs.waits, dict(from_jobs.content.sums)) == (("rate-1", "rate-2"), {"quantity": "amount"})
    assert from_jobs.content.files == "lines"


def test_a_payload_in_stretches_is_announced_as_before():
    """And read as it was sent."""
    assert text_of(messages.stretched()) == file_of("stretched").read_text(encoding="utf-8")
    body = golden("stretched")["submission: in stretches"]
    found = p.read_submission(p.open_envelope(body, LIMITS), "m-1", LIMITS)
    assert (found.job, found.content) == ("meters", p.Stretched())


def test_messages_about_a_range_are_as_before():
    """And read as they were sent."""
    assert text_of(messages.ranged()) == file_of("ranges").read_text(encoding="utf-8")
    again = p.decode(golden("ranges")["range that is put again"])
    assert again == p.FileRange(job="team-a~nightly", stretch=17, again=True)


@pytest.mark.parametrize("name", v.SUBMISSIONS)
def test_submissions_of_before_are_read(name):
    """Publishers have no version of ours: what they send is read for good."""
    body, said = golden("messages")[f"submission: {name}"], v.SUBMISSIONS[name]
    found = p.read_submission(p.open_envelope(body, LIMITS), "m-1", LIMITS)
    assert (found.job, found.workload, found.gate) == (said.job or "m-1", said.workload, said.gate)
    assert (found.declared.items, {name: str(value) for name, value in found.declared.sums.items()}) == (
        said.declared.items,
        said.declared.sums,
    )
    content = {field: getattr(found.content, field, None) for field in ("lines", "stored", "name", "index_sha256")}
    assert {field: value for field, value in content.items() if value is not None} == v.CONTENTS[name]
    assert found.trace == said.trace
    assert found.deadline == (v.NOON + timedelta(hours=21) if said.deadline else None)
