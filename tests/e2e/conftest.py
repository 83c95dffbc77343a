"""The app itself under the host that `make test HOST=...` names."""

import os
import shutil
from types import SimpleNamespace

import pytest

from tools.local.stack import StackOptions, running

#: The file of this name has tests that take the app as it is. The others start one as they need it.
AS_DEPLOYED = ("test_app.py", "test_pipeline.py")


def pytest_collection_modifyitems(config, items):
    """Skip by name what cannot use an app that is deployed already."""
    if config.getoption("--host") != "azure":
        return
    for item in items:
        if item.path.parent.name == "e2e" and item.path.name not in AS_DEPLOYED:
            item.add_marker(pytest.mark.skip(reason="starts a stack of its own, with settings of its own"))


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


@pytest.fixture(scope="module")
def app_stack(host_kind, worker):
    """The app, running on a stack of its own: its ticks would decide beside tests of other folders.

    With `--host azure` it is the one that the environment names, as `azd env get-values` prints it.
    """
    if host_kind == "azure":
        host = SimpleNamespace(base_url=os.environ["SERVICE_SLUICE_BASE_URL"])
        yield SimpleNamespace(host=host, settings=dict(os.environ))
        return
    with running(StackOptions(host=host_kind, worker=worker, instances=2)) as stack:
        yield stack


@pytest.fixture(scope="module")
def app_host(app_stack):
    """Its host."""
    return app_stack.host
