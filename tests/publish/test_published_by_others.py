"""The examples of docs/formats.md, run as they stand there: the page and its two files are all that a publisher needs."""

import base64
import json
import re
import shutil
import sys
import uuid

import pytest
from azure.storage.queue import QueueClient
from msgspec import structs

from shared.azure.connections import Connections
from shared.messages import Completed, PortionMessage, encode
from shared.outbox import JOB_EVENTS, BusAnnouncements, OutgoingMessage
from tests.outside import checker
from tests.publish.conftest import NODE
from tests.publish.without_keys import running
from tests.waiting import until
from tools.local.paths import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text()
FRAMES = (ROOT / "docs" / "examples" / "publish-frames.sh").read_text()
NODES = (ROOT / "docs" / "examples" / "publish.mjs").read_text()
#: One in a hundred is on a plan that nobody sells.
LINES = [
    json.dumps(
        {
            "id": f"u-{number}",
            "account": f"a-{number % 7}",
            "plan": "none" if number % 100 == 3 else "basic",
            "quantity": f"{number % 40 + 1}.05",
        }
    ).encode()
    for number in range(2500)
]
BAD, GOOD = 25, 2475
#: What a person types before the examples, where the publisher has no other way to come by the addresses.
LINE = 'eval "$(.venv/bin/sluice publisher-env)"\n'
SHELL_TOOLS = ("curl", "gzip", "split", "sha256sum")


def examples(language):
    """Return the page's examples in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for text in found if text != LINE]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The running app, for publishers that have a login and no key."""
    with running(tmp_path_factory.mktemp("without-keys")) as started:
        yield started


@pytest.fixture
def folder(tmp_path):
    """A folder with the file that the examples publish."""
    (tmp_path / "usage.ndjson").write_bytes(b"".join(line + b"\n" for line in LINES))
    return tmp_path


def prove(app, job):
    """Open the gate that the examples name, and find the job complete, by sums that the app has no part in."""
    until(lambda: [one for one in app.sluice("jobs", "list")["jobs"] if one["job"] == job and one["chunks"]["all"]])
    app.sluice("gate", "open", "nightly", "--once", "--yes", "--why", "the examples of the page")
    found = app.sluice("jobs", "watch", job, "--timeout", "60")
    assert (found["state"], found["accepted"]["items"], found["rejected"]["items"]) == ("complete", GOOD, BAD)
    assert checker.check(app.storage, job, LINES, first_id=found["first_id"]) == []


needs_shell = pytest.mark.skipif(
    not all(map(shutil.which, SHELL_TOOLS)), reason=f"the shell's examples use {', '.join(SHELL_TOOLS)}"
)


@needs_shell
def test_a_shell_publishes_a_file(app, folder):
    """Gzip, curl and a token are enough for a file as it is."""
    app.run(["sh", "-euc", examples("sh")[0]], folder)
    prove(app, "usage-2026-11-20")


@needs_shell
def test_a_shell_publishes_frames(app, folder):
    """A shell can make frames and their index too, and the hash of the index agrees with ours."""
    app.run(["sh", "-euc", FRAMES], folder)
    prove(app, "usage-2026-11-21")


def test_node_publishes_with_azures_sdk(app, node_sdk, folder):
    """Another language's SDK sends what the app runs; sent twice, it is one job and counted once."""
    (folder / "node_modules").symlink_to(node_sdk / "node_modules")
    (folder / "publish.mjs").write_text(NODES)
    for _ in range(2):
        app.run([NODE / "bin" / "node", "publish.mjs"], folder)
    prove(app, "usage-2026-11-22")


def test_python_publishes_in_the_lines_of_the_page(app, folder):
    """The library is all that the page imports of the project."""
    app.run([sys.executable, "-c", examples("python")[0]], folder)
    prove(app, "usage-2026-11-23")


def test_nobody_needed_a_key(app):
    """All of the above asked for tokens of storage, and for nothing else."""
    assert {one["resource"] for one in app.identity.asked} == {"https://storage.azure.com"}


def test_python_hears_of_a_finished_job_in_the_lines_of_the_page(stack_settings):
    """What the outbox announces is what the page's own function yields, each revision once, however often it is sent."""
    names, job = {}, f"told-{uuid.uuid4().hex[:8]}"
    exec(compile(examples("python")[2], "docs/formats.md", "exec"), names)
    told = Completed(job=job, revision=1, workload="billing", state="complete", accepted=PortionMessage(items=7))
    with Connections.parse(stack_settings) as connections, BusAnnouncements(connections) as announce:
        for revision in (1, 1, 2):
            event = encode(structs.replace(told, revision=revision))
            announce(OutgoingMessage(f"{revision:09}", JOB_EVENTS, event))
    heard = [one for one in names["finished_jobs"](stack_settings["SluiceBus"], 1) if one["job"] == job]
    assert [(one["revision"], one["state"], one["accepted"]["items"]) for one in heard] == [
        (1, "complete", 7),
        (2, "complete", 7),
    ]
    assert not list(names["finished_jobs"](stack_settings["SluiceBus"], 1))


@pytest.mark.parametrize("written", [str, lambda text: base64.b64encode(text.encode()).decode()])
def test_the_least_message_of_the_page_is_a_job(app, written):
    """What the page says a person can type is run as it stands, Base64 or not; it has the message's id."""
    least, *_ = examples("json")
    with QueueClient.from_connection_string(app.storage, "submissions") as queue:
        sent = queue.send_message(written(least), time_to_live=-1)
    found = app.sluice("jobs", "watch", sent.id.lower(), "--timeout", "60")
    assert (found["state"], found["accepted"]["items"]) == ("complete", 1)
