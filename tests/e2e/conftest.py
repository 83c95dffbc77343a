"""The app itself under the host that `make test HOST=...` names."""

import shutil

import pytest

from local.stack import StackOptions, start_host


@pytest.fixture(scope="session")
def host_kind(request):
    """The host to run on; Core Tools are skipped by name where they are not installed."""
    kind = request.config.getoption("--host")
    if kind == "func" and not shutil.which("func"):
        pytest.skip("func is not on the PATH: install Azure Functions Core Tools to run this on the official host")
    return kind


@pytest.fixture(scope="session")
def worker(request):
    """Whose worker runs the app wherever these tests start it in the local host."""
    return request.config.getoption("--worker")


@pytest.fixture(scope="session")
def app_host(host_kind, worker, stack_settings):
    """The app, running."""
    host = start_host(StackOptions(host=host_kind, worker=worker, instances=2), stack_settings)
    yield host
    host.stop()
