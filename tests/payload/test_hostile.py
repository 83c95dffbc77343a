"""Whatever is sent ends under the right name, within little memory, and soon."""

import json
import re
import subprocess
import sys

import pytest
from azure.storage.blob import BlobServiceClient

from shared.refusals import Reason
from tests.waiting import LIMIT
from tools.local.paths import ROOT

MIB = 1024 * 1024
#: Of address space, which is more than memory: threads' stacks and libraries count before they are touched.
ADDRESS_SPACE = 400 * MIB
MOST_MEMORY = 256 * MIB


@pytest.fixture(scope="module")
def report(azurite):
    """Every case, taken in by one process with a bound on its memory."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        service.create_container("hostile").close()
    command = [sys.executable, "-m", "tests.payload.within_limit", azurite.connection_string, "hostile"]
    done = subprocess.run(
        [*command, str(ADDRESS_SPACE)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_each_ends_under_the_right_reason(report):
    """Every hostile submission is refused where it shows, under the reason that helps its sender."""
    wrong = [one for one in report["outcomes"] if one["found"] != one["wanted"]]
    assert wrong == []
    assert len(report["outcomes"]) >= 60
    assert len({one["name"] for one in report["outcomes"]}) == len(report["outcomes"])


def test_none_takes_much_memory_or_time(report):
    """All of them together stay within 256 MiB, and none takes longer than two seconds."""
    assert report["peak"] <= MOST_MEMORY
    assert [one for one in report["outcomes"] if one["seconds"] > 2] == []


def test_every_reason_is_shown_by_a_case(report):
    """A reason that the codec gives and no case reaches would be a promise that nobody has seen kept."""
    sources = [file for file in (ROOT / "shared" / "payload").glob("*.py") if file.name != "reasons.py"]
    given = {Reason[name].value for file in sources for name in re.findall(r"\bReason\.([A-Z_0-9]+)", file.read_text())}
    # A blob that is replaced between two reads: test_store makes that change.
    shown = {one["found"][1] for one in report["outcomes"]} | {Reason.PAYLOAD_REPLACED.value}
    assert given - shown == set()
