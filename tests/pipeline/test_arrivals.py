"""What arrives on `submissions`, as the app logs it."""

import json
import logging

from shared.pipeline.arrivals import Arrivals
from shared.pipeline.deliveries import Deliveries, Delivery


def test_an_accepted_submission_is_done_with_where_its_acceptance_is_logged(world, process, caplog):
    """The line in the log says which message it was, and does not have it delivered again until it is parked."""
    made, parked = process(), []
    arrivals = Arrivals(made.acceptance, made.dispatcher, world.queues.send, parked, Deliveries(None))
    with caplog.at_level(logging.INFO, "sluice"):
        arrivals.handle(Delivery(queue="submissions", message_id="m-1", body=world.submission(), count=1))
    (line,) = (line for line in caplog.messages if line.startswith("sluice.submission.accepted "))
    assert json.loads(line.split(" ", 1)[1])["message_id"] == "m-1"
