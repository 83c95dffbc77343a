"""What arrives on `submissions`, as the app logs it."""

import ast
import itertools
import logging

from local.paths import ROOT
from shared.pipeline.arrivals import Arrivals
from shared.pipeline.deliveries import Deliveries, Delivery

#: What a record of the log has by itself: naming one of these in `extra` raises, where the level is on.
TAKEN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def test_an_accepted_submission_is_done_with_where_its_acceptance_is_logged(world, process, caplog):
    """The line in the log says which message it was, and does not have it delivered again until it is parked."""
    made, parked = process(), []
    arrivals = Arrivals(made.acceptance, made.dispatcher, world.queues.send, parked, Deliveries(None))
    with caplog.at_level(logging.INFO, "shared.pipeline"):
        arrivals.handle(Delivery(queue="submissions", message_id="m-1", body=world.submission(), count=1))
    assert [record.message_id for record in caplog.records if record.message == "submission accepted"] == ["m-1"]


def test_no_line_of_the_log_takes_a_name_that_records_have():
    """Such a line raises only where its level is on: in production, and in few tests."""
    files = itertools.chain(*((ROOT / folder).rglob("*.py") for folder in ("shared", "functions", "cli")))
    named = [(file.name, name) for file in files for name in _extras(ast.parse(file.read_text()))]
    assert len(named) > 10
    assert [found for found in named if found[1] in TAKEN] == []


def _extras(tree):
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    values = (keyword.value for call in calls for keyword in call.keywords if keyword.arg == "extra")
    dicts = (value for value in values if isinstance(value, ast.Dict))
    return [key.value for found in dicts for key in found.keys if isinstance(key, ast.Constant)]
