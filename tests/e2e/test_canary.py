"""No payload and no secret in anything that a run writes beside its storage: marked ones go in, none comes out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED
from shared.publish import Publisher
from tests.waiting import until
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

#: In every transaction, good or bad; no other word of the run has it.
PAYLOAD = "canary-payload-5c0ffee"
#: In a setting that only a workload would read.
SECRET = "canary-secret-5c0ffee"
SLUICE = Path(sys.executable).parent / "sluice"
#: What fails or waits by the payload: each has its line, which must not say more.
FAILURES = ('"error":"ValueError","at":"quoting.py', '"kind":"ConnectionError","place":"quoting.py')


def drop_everything(connections):
    """Drop good, bad, refused and failing work; each of it is marked."""
    queue = connections.queues.get_queue_client("submissions")
    publisher = Publisher(queue, connections.blobs.get_container_client("payloads"))
    usage = {"account": PAYLOAD, "plan": "basic", "quantity": "1"}
    rejected = {**usage, "plan": PAYLOAD}
    publisher.submit(job="good", workload="billing", transactions=[usage] * 2000 + [rejected] * 20)
    for error in ("unknown", "transient"):
        publisher.submit(job=error, workload="quoting", transactions=[{"account": PAYLOAD, "error": error}])
    for body in (
        PAYLOAD,
        f'{{"sluice": {{"{PAYLOAD}": 1, "items": [1]}}}}',
        f'{{"sluice": {{"items": ["{PAYLOAD}"], "workload": "{PAYLOAD}"}}}}',
        f'{{"sluice": {{"items": ["{PAYLOAD}"], "declared": {{"sums": {{"quantity": "{PAYLOAD}"}}}}}}}}',
    ):
        queue.send_message(body)
    connections.queues.get_queue_client("work-00").send_message(PAYLOAD)


def typed(settings, *words):
    """Return everything that a command printed."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    done = subprocess.run([SLUICE, *words], env=kept | settings, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(worker):
    """Everything that a run of the stack wrote, by who wrote it, and the secrets that it knew."""
    settings = {
        "SLUICE_TELEMETRY": "print",
        "SLUICE_WORKLOADS": "shared.workloads.billing:Billing,tests.e2e.quoting:Quoting",
        "CANARY_TOKEN": SECRET,
        "PYTHONPATH": str(ROOT),
    }
    with (
        running(StackOptions(worker=worker, instances=1, settings=settings)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        drop_everything(connections)
        stores = Stores(connections)
        ledger, parked = stores.ledger, stores.parked_table
        until(lambda: (job := ledger.read("good")) and job.state in FINISHED)
        until(lambda: len(list(parked.entries())) >= 5)
        until(lambda: all(failure in stack.host.log.read_text() for failure in FAILURES))
        commands = [typed(stack.settings, *words) for words in (["doctor"], ["jobs", "list"], ["jobs", "show", "good"])]
        logs = {log.name: log.read_text() for log in (stack.host.log, stack.azurite.log)}
        secrets = [SECRET, stack.azurite.account.key]
        audit = [dict(row) for row in connections.tables.get_table_client("audit").list_entities()]
    return {**logs, "commands": "".join(commands), "audit": json.dumps(audit, default=str)}, secrets


def test_the_run_wrote_something_about_each_stage(written):
    """The silence below means something: spans, events and failures were written."""
    texts, _ = written
    everything = "".join(texts.values())
    for part in ("sluice.process", "sluice.finish", "sluice.job.finished", "sluice.message.parked", *FAILURES):
        assert part in everything


def test_no_payload_is_in_what_a_run_writes(written):
    """Whatever a publisher sent or a workload quoted stays in storage."""
    found = {name: lines_with(PAYLOAD, text) for name, text in written[0].items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_secret_is_in_what_a_run_writes(written):
    """Neither the account's key nor a setting's value."""
    texts, secrets = written
    found = {name: lines for name, text in texts.items() for secret in secrets if (lines := lines_with(secret, text))}
    assert found == {}


def lines_with(word, text):
    """Return the lines that hold a word."""
    return [line for line in text.splitlines() if word in line]
