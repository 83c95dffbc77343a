"""Every example of docs/formats.md for publishers, on the local stack, after the one line of `sluice publisher-env`."""

import csv
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from ssl import create_default_context

import pytest

from tests.outside import checker
from tests.publish.conftest import NODE
from tests.publish.test_published_by_others import BAD, FRAMES, GOOD, LINE, LINES, NODES, PAGE, needs_shell
from tests.waiting import LIMIT, until
from tools.local.door import Door
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running
from tools.local.up import published

BIN = Path(sys.executable).parent
EXAMPLES = [
    ("sh", FRAMES),
    ("js", NODES),
    *(
        (language, text)
        for language, text in re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        if text != LINE
    ),
]
#: What the page leaves to the reader: the call of a function that waits for events.
CALLS = {
    "def finished_jobs(": '\nimport os\nprint(*(job["job"] for job in finished_jobs(os.environ["SluiceBus"], 10)))\n'
}
JOBS = re.compile(r'\bjob ?= ?"?(usage-\d{4}-\d\d-\d\d)|"job": "(usage-\d{4}-\d\d-\d\d)"')
#: The job of the file of CSV, and its lines: the command writes them without white space.
OF_CSV = "usage-2026-11-25"
CONVERTED = [json.dumps(json.loads(line), separators=(",", ":")).encode() for line in LINES]


class Here:
    """A stack with its door, and a folder where a publisher works."""

    def __init__(self, stack, folder):
        self.stack, self.folder = stack, folder
        #: By the number of an example.
        self.printed = {}

    def types(self, script, *words):
        """Type a script into a shell as a person does, and return what it prints."""
        kept = {
            "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            ["sh", "-euc", script, "sh", *words],
            cwd=self.folder,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def sluice(self, *words):
        """Type a command as an operator, and return what it says."""
        return json.loads(self.types('.venv/bin/sluice "$@" --json', *words))


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A stack as `make up` has it, with everything that the page tells of."""
    folder = tmp_path_factory.mktemp("here")
    (folder / ".venv").symlink_to(BIN.parent)
    (folder / "usage.ndjson").write_bytes(b"".join(line + b"\n" for line in LINES))
    rows = [json.loads(line) for line in LINES]
    with (folder / "usage.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *(row.values() for row in rows)])
    options = StackOptions(instances=1, settings={"SLUICE_CAPABILITIES": "registration"})
    with (
        running(options) as stack,
        Door(stack.settings, folder / "door") as door,
        published(folder / ".stack" / "up" / "local.settings.json", stack.settings, door),
    ):
        yield Here(stack, folder)


@needs_shell
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_after_the_line_of_the_page(here, node_sdk, number):
    """Its files first, then those in the page, each in a shell of its own, with nothing but the page and the stack."""
    assert LINE in PAGE
    language, text = EXAMPLES[number]
    text += "".join(call for part, call in CALLS.items() if part in text)
    if language == "sh":
        script = LINE + text
    else:
        if not (here.folder / "node_modules").exists():
            (here.folder / "node_modules").symlink_to(node_sdk / "node_modules")
        program = here.folder / {"js": f"publish-{number}.mjs", "python": f"publish-{number}.py"}[language]
        program.write_text(text)
        script = f"{LINE}{'node' if language == 'js' else '.venv/bin/python'} {program.name}"
    here.printed[number] = here.types(script)


@needs_shell
def test_each_job_of_the_page_has_its_totals(here):
    """Those that wait for the gate of the page and those that do not; the sums are checked by a program apart."""
    jobs = [found[1] or found[2] for _, text in EXAMPLES for found in JOBS.finditer(text)]
    assert len(jobs) >= 6
    assert len(set(jobs)) == len(jobs)
    until(lambda: {*jobs} <= {one["job"] for one in here.sluice("jobs", "list")["jobs"] if one["chunks"]["all"]})
    here.sluice("gate", "open", "nightly", "--once", "--yes", "--why", "the examples of the page")
    for job in jobs:
        found = here.sluice("jobs", "watch", job, "--timeout", "120")
        assert (found["state"], found["accepted"]["items"], found["rejected"]["items"]) == ("complete", GOOD, BAD)
        lines = CONVERTED if job == OF_CSV else LINES
        assert checker.check(here.stack.settings["SluiceStorage"], job, lines, first_id=found["first_id"]) == []


def number_of(part):
    """Return the number of the one example with this text."""
    (found,) = [number for number, (_, text) in enumerate(EXAMPLES) if part in text]
    return found


@needs_shell
def test_a_hint_wakes_the_app(here):
    """The log of the host has the function that a hint starts."""
    assert number_of("$BUS/hints/messages") is not None
    until(lambda: "accept_hinted" in here.stack.host.log.read_text())


@needs_shell
def test_who_listens_hears_of_the_job_that_needs_no_gate(here):
    """It came before the example that listens, and its event stays until somebody takes it."""
    assert "usage-2026-11-24" in here.printed[number_of("def finished_jobs(")].split()


def test_the_door_lets_nobody_in_without_the_token_and_nobody_read(here):
    """Any program of this machine reaches it; a publisher's token writes, and neither reads nor lists."""
    env = here.sluice("publisher-env")["environment"]
    trusted = create_default_context(cafile=env["CURL_CA_BUNDLE"])

    def ask(method, address, token, data=None):
        request = urllib.request.Request(address, data=data, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("x-ms-version", "2021-12-02")
        request.add_header("x-ms-blob-type", "BlockBlob")
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=LIMIT) as reply:
                return reply.status
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    place = f"{env['PAYLOADS']}/uploads/x"
    assert ask("PUT", place, "another", b"{}") == 401
    assert ask("PUT", place, env["IDENTITY_HEADER"], b"{}") == 201
    assert ask("GET", place, env["IDENTITY_HEADER"]) == 403
    assert ask("DELETE", place, env["IDENTITY_HEADER"]) == 403
    assert ask("GET", f"{env['PAYLOADS']}?restype=container&comp=list", env["IDENTITY_HEADER"]) == 403
    assert ask("GET", f"{env['QUEUE']}/messages", env["IDENTITY_HEADER"]) == 403
    assert ask("POST", f"{env['BUS']}/no-such-queue/messages", env["IDENTITY_HEADER"], b"") == 400
    assert ask("GET", env["IDENTITY_ENDPOINT"], env["IDENTITY_HEADER"]) == 401


def test_a_room_has_addresses_of_its_own(here):
    """By the names that publishers of a room write to."""
    env = here.sluice("publisher-env", "--room", "team-a")["environment"]
    assert env["PAYLOADS"].endswith("/payloads-team-a")
    assert env["QUEUE"].endswith("/submissions-team-a")


def test_an_az_of_ones_own_does_everything_else(here):
    """The line stands before a folder on the PATH, and takes one command of it."""
    own = here.folder / "own"
    own.mkdir()
    (own / "az").write_text('#!/bin/sh\necho "own az: $*"\n')
    (own / "az").chmod(0o755)
    printed = here.types(
        f'PATH="{own}:$PATH"\n{LINE}az account show\naz account get-access-token --resource https://storage.azure.com --query accessToken --output tsv'
    )
    assert printed.splitlines() == [
        "own az: account show",
        here.sluice("publisher-env")["environment"]["IDENTITY_HEADER"],
    ]


def test_an_installation_in_azure_has_the_addresses_of_its_settings(here, tmp_path):
    """No login and no secret: there the publisher logs in."""
    login = {"SluiceStorage__accountName": "acc", "SluiceBus__fullyQualifiedNamespace": "ns.servicebus.windows.net"}
    login |= {f"SluiceStorage__{name}": "canary" for name in ("tenantId", "clientId", "clientSecret")}
    (tmp_path / "azure.json").write_text(json.dumps({"Values": login}))
    found = here.sluice("publisher-env", "--settings", str(tmp_path / "azure.json"))
    assert found["path"] == ""
    assert found["environment"].pop("SluiceStorage__tenantId") == "canary"
    assert "SluiceStorage__clientSecret" not in found["environment"]
    wanted = {
        "PAYLOADS": "https://acc.blob.core.windows.net/payloads",
        "QUEUE": "https://acc.queue.core.windows.net/submissions",
        "BUS": "https://ns.servicebus.windows.net",
    }
    assert wanted.items() <= found["environment"].items()
    assert not {"IDENTITY_ENDPOINT", "CURL_CA_BUNDLE"} & set(found["environment"])
