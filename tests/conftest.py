"""What every test may ask for: a stack's parts, started once for the run, and the host that end-to-end tests run on."""

import gc
import json
import logging
import multiprocessing
from functools import partial

import hypothesis
import pytest
from functions_local_host.plan import WORKERS
from servicebus_local.launcher import Broker

from shared.topology import topology
from tests import left_out
from tests.left_out import (  # noqa: F401 - pytest looks for its hooks here
    add_option,
    is_whole,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_ignore_collect,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from tests.quick_bus import shorten_pauses
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import StackOptions, settings_for, start_host

#: Examples of a property that sets no number: in a usual run, and in one of everything.
EXAMPLES = {False: 30, True: 100}
shorten_pauses()
# Until all tests are imported there is hardly any garbage, and each collection visits more than the one before.
gc.disable()


def pytest_addoption(parser):
    """Let `make test HOST=func` and `make test WORKER=grpc` run the end-to-end tests on what others wrote."""
    add_option(parser)
    parser.addoption("--need-browser", action="store_true", help="fail, and do not skip, where no browser is")
    parser.addoption("--host", choices=("local", "func", "azure"), default="local", help="the host of end-to-end tests")
    parser.addoption("--worker", choices=WORKERS, default="local", help="the worker in the local host")


class _FailureLines:
    """Names each failed test at once: a whole run ends half an hour later, and a person may begin to look."""

    def __init__(self, terminal):
        self._terminal = terminal

    def pytest_runtest_logreport(self, report):
        """Write a line for a failure."""
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})")


def pytest_sessionstart(session):
    """Say how many examples a property has, and have the process that a person looks at name failures."""
    # How long one example takes says how busy the machine is, and nothing about the code.
    examples = EXAMPLES[is_whole(session.config)]
    hypothesis.settings.register_profile("sluice", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("sluice")
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_FailureLines(terminal))


def pytest_collection_finish():
    """Have no later collection of garbage visit the tests and what they import: a tenth of the CPU of a worker."""
    gc.collect()
    gc.freeze()
    # Few tests leave much behind, and half of the collections are for what one request leaves: another tenth.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    # One server forks all processes of a run. It imports these when the first is needed, or else each process does.
    multiprocessing.set_forkserver_preload(["tests.command", "tests.faults.campaign", "tests.forked"])


@pytest.fixture
def forgotten_sockets():
    """Collect the sockets that the bus SDK forgot, while the test allows that. The next time visits only what came since."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def without_garbage_collection():
    """A search makes nothing cyclic, and collecting among a million tuples takes up to as long as the search."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def told(caplog):
    """What the app tells: a function that returns the fields of each line of an event, in order."""
    caplog.set_level(logging.INFO, "sluice")

    def lines(event):
        found = [line.partition(" ") for line in caplog.messages]
        return [json.loads(fields) for name, _, fields in found if name == event.name]

    return lines


@pytest.fixture
def is_usual(pytestconfig):
    """Whether this run leaves out what is for CI."""
    return not is_whole(pytestconfig)


@pytest.fixture
def some(request):
    """A function that returns those of an enumeration that this run tries: every tenth, or in CI a drawn fifth."""
    return partial(left_out.some, request.config, request.node.nodeid)


@pytest.fixture(scope="session")
def azurite():
    """Azurite, empty at the start of the run."""
    with Azurite.start() as running:
        yield running


@pytest.fixture(scope="session")
def broker():
    """The broker with the app's own topology."""
    running = Broker.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def provisioned(azurite):
    """Azurite with every storage entity of the topology."""
    provision(azurite.connection_string, topology())
    return azurite


@pytest.fixture(scope="session")
def stack_settings(provisioned, broker):
    """The settings that reach this run's storage and bus."""
    return settings_for(provisioned.connection_string, broker.connection_string)


@pytest.fixture(scope="module")
def one_instance(stack_settings):
    """The app with one instance, beside the tests of one module."""
    host = start_host(StackOptions(instances=1), stack_settings)
    yield host
    host.stop()
