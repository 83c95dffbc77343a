"""The options of a submission: one table for the library, the command, the reader of messages and the docs."""

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from shared.payload import Limits
from shared.payload.submission import (
    OPTIONS,
    Submission,
    SubmissionFields,
    SubmissionOptions,
    open_envelope,
    read_submission,
)

GIVEN = {
    "workload": "sales",
    "gate": "nightly",
    "deadline": datetime(2026, 11, 22, 6, tzinfo=UTC),
    "most_rejected": "2.5%",
    "after": ("rate-1", "rate-2"),
    "after_parked": True,
    "night": "n-1124",
}


def test_every_option_is_a_field_of_the_message_and_of_the_submission():
    """Only the trace is none of the publisher's own options: its library knows it."""
    named = {option.name for option in OPTIONS}
    assert named - {"trace"} == set(SubmissionOptions.__annotations__)
    assert named <= set(SubmissionFields.__struct_fields__) & {one.name for one in fields(Submission)}


def test_what_is_given_is_read(dropped, publisher):
    """Each option that the library takes arrives with the value that it was given."""
    publisher.submit(job="job-1", transactions=[{"id": "1"}], **GIVEN)
    (message,) = dropped.queue.peek_messages()
    found = read_submission(open_envelope(message.content.encode(), Limits()), "m", Limits())
    assert {name: getattr(found, name) for name in SubmissionOptions.__annotations__} == GIVEN


def test_an_option_that_is_not_known_is_an_error_of_the_caller(publisher):
    """A misspelt gate must not start a job that was meant to wait."""
    with pytest.raises(TypeError, match="gatte"):
        publisher.submit(job="job-1", transactions=[{"id": "1"}], gatte="nightly")
