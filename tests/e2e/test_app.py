"""The app under a host, asked over HTTP."""

import json
import urllib.request

import pytest

from shared import __version__
from tests.waiting import LIMIT


def get(url):
    """Return the JSON that a URL answers with."""
    with urllib.request.urlopen(url, timeout=LIMIT) as reply:
        return json.loads(reply.read())


def test_health_says_the_version_and_what_was_set(app_host):
    """Whoever asks for health learns that the app runs, which version, and needs no key."""
    assert get(f"{app_host.base_url}/api/health") == {"status": "ok", "version": __version__, "workQueues": 1}


def test_the_host_reports_that_it_runs(app_host, host_kind):
    """The admin status is what deployment tools and tests wait for."""
    if host_kind == "azure":
        pytest.skip("Azure wants the host's key for it, and no test has one")
    assert get(f"{app_host.base_url}/admin/host/status")["state"] == "Running"
