"""The worker passes on what the root logger takes: the app's lines, and of the libraries' lines only warnings."""

import json
import os
import subprocess
import sys

from tests.waiting import LIMIT
from tools.local.paths import ROOT

#: Sets the root logger up as the worker does, loads the app, makes a request, and prints what would be passed on.
#: A workload's module is loaded after the levels are set, and what it sets stays.
APP = """
import json, logging
lines = []
class Passed(logging.Handler):
    def emit(self, record):
        lines.append([record.name, record.levelname])
logging.getLogger().addHandler(Passed())
logging.getLogger().setLevel(logging.INFO)
import function_app
{after}
function_app.connections.blobs.get_container_client("payloads").exists()
logging.getLogger("of.a.workload").info("heard")
logging.getLogger("azure.storage").warning("heard")
print(json.dumps(lines))
"""


def passed_on(settings, after=""):
    """Return the loggers and levels of what reaches the host."""
    done = subprocess.run(
        [sys.executable, "-c", APP.format(after=after)],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_storage_request_writes_no_trace(stack_settings):
    """Each would be two traces on the bill; warnings and the app's own lines are heard."""
    assert passed_on(stack_settings) == [["of.a.workload", "INFO"], ["azure.storage", "WARNING"]]


def test_whoever_wants_to_see_the_requests_can(stack_settings):
    """A level that a workload's module chooses is the one that counts."""
    lines = passed_on(stack_settings, 'logging.getLogger("azure").setLevel(logging.INFO)')
    assert ["azure.core.pipeline.policies.http_logging_policy", "INFO"] in lines
