"""Azurite and the app, used by Microsoft's storage clients for Go: a third language, with a wire form of its own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from shared.app import Stores
from shared.azure import STORAGE_CONNECTION
from shared.azure.connections import Connections
from shared.ledger.records import JobState
from tests.waiting import LIMIT, until
from tools.local.azurite.launcher import Account, Azurite
from tools.local.paths import GO, STAMP
from tools.local.stack import StackOptions, start_host

HERE = Path(__file__).parent / "go"
CHECKS = 20
SERVICES = ("Blob", "Queue", "Table")

pytestmark = pytest.mark.skipif(
    not (GO / STAMP).exists(), reason="Go's storage clients are not installed: `make others` does it on Debian 12"
)


#: The emulator's account, to which this client speaks with the account in the path of its addresses.
EMULATOR = Account(
    "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """A function that runs the program on an account, and returns the fault of each of its checks."""
    program = tmp_path_factory.mktemp("go") / "checks"
    root = GO / "usr" / "lib" / "go-1.19"
    env = {
        **os.environ,
        "GOROOT": str(root),
        "GOPATH": str(GO / "usr" / "share" / "gocode"),
        "GOCACHE": str(GO / "cache"),
        "GO111MODULE": "off",
        "CGO_ENABLED": "0",
    }
    command = [str(root / "bin" / "go"), "build", "-o", str(program), *map(str, sorted(HERE.glob("*.go")))]
    subprocess.run(command, env=env, check=True, timeout=LIMIT)

    def run(connection_string, **more):
        parts = dict(part.split("=", 1) for part in connection_string.split(";") if part)
        told = {
            "account": parts["AccountName"],
            "key": parts["AccountKey"],
            "address": " ".join(f"{one.lower()}={parts[f'{one}Endpoint'].split('/')[2]}" for one in SERVICES),
        }
        env = {**os.environ, "TOLD_TO_OTHERS": json.dumps(told | more)}
        done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0, done.stderr[-800:]
        return {one["name"]: one["fault"] for one in outcomes}

    return run


def test_go_gets_what_the_service_gives(go):
    """Every check passes, and none is missing."""
    with Azurite.start(account=EMULATOR) as azurite:
        faults = go(azurite.connection_string)
    assert {name: fault for name, fault in faults.items() if fault} == {}
    assert len(faults) == CHECKS


def test_azurite_fails_a_batch_of_an_account_in_the_host_name(go, azurite):
    """As an account of Azure is addressed. All but batches pass."""
    faults = go(azurite.connection_string)
    failed = {name: fault for name, fault in faults.items() if fault}
    assert set(failed) == {"a batch writes all of its rows", "a batch with one refused row writes none"}
    assert "StatusCode=500" in failed["a batch writes all of its rows"]


def test_a_publisher_in_go_starts_a_job(go, stack_settings):
    """The least form of a submission, as text without Base64."""
    host = start_host(StackOptions(instances=1), stack_settings)
    try:
        transactions = [{"account": account, "plan": "basic", "quantity": "1"} for account in "ab"]
        message = json.dumps({"sluice": {"job": "from-go", "items": transactions}})
        assert list(go(stack_settings[STORAGE_CONNECTION], queue="submissions", message=message).values()) == [""]
        with Connections.parse(stack_settings) as connections, Stores(connections) as stores:
            job = until(lambda: (one := stores.ledger.read("from-go")) and one.state is JobState.COMPLETE and one)
        assert job.totals.accepted.items == 2
    finally:
        host.stop()
