"""The choice of the worker. That Microsoft's works is tried where it is installed, outside of this package."""

import importlib.util

import pytest
from functions_local_host.errors import StartError
from functions_local_host.microsoft_library import LIBRARY


@pytest.mark.skipif(importlib.util.find_spec(LIBRARY) is not None, reason=f"{LIBRARY} is installed here")
@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ("microsoft", "install the package azure-functions-runtime"),
        ("grpc", "install the packages grpcio and grpcio-tools"),
    ],
)
def test_microsoft_s_worker_is_asked_for_by_name_where_it_is_not_installed(start_host, worker, said):
    """The host does not start with another one instead."""
    with pytest.raises(StartError, match=said):
        start_host(options=["--worker", worker])
