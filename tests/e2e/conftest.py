"""The app itself under the host that `make test HOST=...` names."""

import shutil

import pytest

from tools.local.stack import StackOptions, running


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
def app_stack(host_kind, worker):
    """The app, running on a stack of its own: its ticks would decide beside tests of other folders."""
    with running(StackOptions(host=host_kind, worker=worker, instances=2)) as stack:
        yield stack


@pytest.fixture(scope="session")
def app_host(app_stack):
    """Its host."""
    return app_stack.host
