"""A run finds each mistake that was seeded in storage or in the broker, and names the broken property."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from secrets import token_hex

import pytest
from servicebus_local.command import connection_string
from servicebus_local.entities import Namespace
from servicebus_local.entities_file import document

from shared.azure import Connections
from tests.conformance.broken_broker import BUS
from tests.conformance.storage_mistakes import STORAGE
from tests.conformance.storage_proxy import in_front_of
from tools.conformance import PROPERTIES, State, examine, new_nonce
from tools.local.paths import ROOT

# A mistake may break a connection, and the SDK forgets its socket: wherever that is collected, it is no failure.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

#: Their waits are long and their work is little.
AT_ONCE = 6


@contextmanager
def broken_broker(name, folder):
    """Run the broker with one mistake, and yield its connection string."""
    folder = folder / token_hex(4)
    folder.mkdir()
    entities, port = folder / "entities.json", folder / "port"
    # A run makes its own.
    entities.write_text(json.dumps(document(Namespace())))
    words = ["--entities", str(entities), "--port-file", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.broken_broker", name, *words], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        while not port.exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield connection_string(int(port.read_text()))
    finally:
        process.terminate()
        process.wait()


def examined(storage, bus, key):
    """Check one property, and return the report."""
    now = datetime.now(UTC)
    with Connections(storage, bus, retries=0) as connections:
        return examine(connections, [key], now, new_nonce(now), lambda *_: None)


@pytest.fixture(scope="module")
def reports(request, azurite, tmp_path_factory, forgotten_sockets):
    """The report of each mistake that is asked for, all found side by side."""
    folder = tmp_path_factory.mktemp("brokers")
    named = [
        item.callspec.params["name"]
        for item in request.session.items
        if hasattr(item, "callspec") and "name" in item.callspec.params
    ]

    def find(name):
        if name in STORAGE:
            key, mistake = STORAGE[name]
            with in_front_of(azurite, mistake) as storage:
                return examined(storage, None, key)
        with broken_broker(name, folder) as bus:
            return examined(azurite.connection_string, bus, BUS[name][0])

    wanted = [name for name in {**STORAGE, **BUS} if name in named]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(find, wanted), strict=True))


@pytest.mark.parametrize("name", [*STORAGE, *BUS])
def test_a_mistake_is_found(name, reports):
    """The property is named as broken, and nothing is left over, whatever the service does wrong."""
    (finding,) = reports[name].findings
    key, _ = {**STORAGE, **BUS}[name]
    assert (finding.property.key, finding.state) == (key, State.BROKEN), finding
    assert finding.expected != finding.found
    assert reports[name].left == []


def test_each_property_has_a_mistake():
    """A property without one may be a check that cannot fail."""
    assert {key for key, _ in {**STORAGE, **BUS}.values()} == set(PROPERTIES)
