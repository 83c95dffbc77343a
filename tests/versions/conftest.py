"""The release that runs beside today's code."""

import importlib.util
import logging
from pathlib import Path

import pytest

from tests.versions.loading import load_wheel

#: The last release, from the release on: its wheel, and the driver that was frozen with it.
RELEASES = sorted(Path(__file__).parent.glob("*.whl"))


@pytest.fixture(scope="session", params=RELEASES, ids=lambda wheel: wheel.stem)
def release(request, tmp_path_factory):
    """The last release, and how it is driven."""
    name = request.param.stem.replace("-", "_").replace(".", "_")
    spec = importlib.util.spec_from_file_location(f"driver_{name}", request.param.with_suffix(".driver.py"))
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    return load_wheel(request.param, f"sluice_{name}", tmp_path_factory.mktemp("release")), driver.Driver


@pytest.fixture
def quick(monkeypatch):
    """The library's retries wait for nobody here, and the tables of what was logged would be long."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
