"""What arrives on `submissions`, as the app logs it."""

import json
import logging

import pytest

from shared.pipeline.arrivals import Arrivals
from shared.pipeline.deliveries import Deliveries, Delivery
from shared.pipeline.messages import Dispatch, encode


def test_an_accepted_submission_is_done_with_where_its_acceptance_is_logged(world, process, caplog):
    """The line in the log says which message it was, and does not have it delivered again until it is parked."""
    made, parked = process(), []
    arrivals = Arrivals(made.acceptance, made.dispatcher, world.queues.send, parked, Deliveries(None))
    with caplog.at_level(logging.INFO, "sluice"):
        arrivals.handle(Delivery(queue="submissions", message_id="m-1", body=world.submission(), count=1))
    (line,) = (line for line in caplog.messages if line.startswith("sluice.submission.accepted "))
    assert json.loads(line.split(" ", 1)[1])["message_id"] == "m-1"


@pytest.mark.parametrize(("count", "is_marked"), [(1, False), (2, True)])
def test_a_dispatch_message_that_comes_again_says_so_to_the_chunks(world, process, count, is_marked):
    """Whoever had it before may have put them all, so what is computed already is not computed again."""
    made = process()
    made.accept(world.submission(), "m-1")
    arrivals = Arrivals(made.acceptance, made.dispatcher, world.queues.send, None, Deliveries(None))
    body = encode(Dispatch(job=world.job))
    arrivals.handle(Delivery(queue="submissions", message_id="m-2", body=body, count=count))
    assert [message.get("again", False) for message in world.queues.on("work-")] == [is_marked]
