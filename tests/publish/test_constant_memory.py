"""However many transactions there are, publishing and reading them takes the memory of one frame."""

import json
import subprocess
import sys

import pytest

from tests.waiting import LIMIT
from tools.local.paths import ROOT

MIB = 1024 * 1024


def measured(azurite, items):
    """Return what a process that publishes and reads so many reports of itself."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.publish.million", azurite.connection_string, str(items)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ci("half a minute of CPU")
def test_memory_does_not_grow_with_the_payload(azurite):
    """Ten times the transactions take a few MiB more at most, and every amount is there to the cent."""
    few, many = measured(azurite, 20_000), measured(azurite, 200_000)
    for report, items in ((few, 20_000), (many, 200_000)):
        assert report["items"] == items
        assert report["is_balanced"]
        assert report["peak"] < 256 * MIB
    assert many["peak"] - few["peak"] < 16 * MIB
