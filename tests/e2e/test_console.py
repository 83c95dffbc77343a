"""The console as a function of the running app, with a stand-in for the header of Azure's login."""

import json
import re
import urllib.error
import urllib.request
from html import unescape
from urllib.parse import urlencode

import pytest

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import JobState
from shared.publish import Publisher
from tests.console.principals import describe
from tests.e2e.test_pipeline import usages
from tests.waiting import LIMIT, until
from tools.local.stack import StackOptions, running, start_host

ON = {"SLUICE_CAPABILITIES": "console", "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.5"}


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Somebody who is known to Azure by this header, or nobody."""

    def __init__(self, host, principal=None):
        self.base, self.principal, self.cookie = host.base_url, principal, ""
        self._opener = urllib.request.build_opener(_Stay)

    def ask(self, path, form=None, method=None, **headers):
        """Return the status, the headers and the text."""
        known = {"X-MS-CLIENT-PRINCIPAL": self.principal} if self.principal else {}
        sent = known | ({"Cookie": self.cookie} if self.cookie else {}) | headers
        if form is not None:
            sent["Origin"] = self.base
        body = None if form is None else urlencode(form).encode()
        request = urllib.request.Request(f"{self.base}{path}", body, sent, method=method)
        try:
            with self._opener.open(request, timeout=LIMIT) as reply:
                found = reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                found = error.code, error.headers, error.read().decode()
        if "Set-Cookie" in found[1]:
            self.cookie = found[1]["Set-Cookie"].split(";")[0]
        return found


@pytest.fixture(scope="module")
def stack(worker):
    """A stack whose app has the console, behind what Azure would set."""
    settings = {**ON, "WEBSITE_AUTH_ENABLED": "True"}
    with running(StackOptions(worker=worker, instances=2, settings=settings)) as started:
        yield started


def test_nobody_is_sent_to_the_login(stack):
    """Of the app, only health answers without it."""
    status, headers, _ = Browser(stack.host).ask("/api/console/jobs?id=x")
    assert status == 302
    assert headers["Location"] == "/.auth/login/aad?post_login_redirect_uri=%2Fapi%2Fconsole%2Fjobs%3Fid%3Dx"
    assert Browser(stack.host).ask("/api/console/gate/g/open", {"why": "x"})[0] == 403
    assert Browser(stack.host, describe("Guest")).ask("/api/console")[0] == 403


def test_a_reader_sees_every_page_and_no_form(stack):
    """With the function's own addresses, styles included; a page that fails or is not there has its body."""
    reader = Browser(stack.host, describe("Reader"))
    status, headers, text = reader.ask("/api/console")
    assert (status, "default-src 'none'" in headers["Content-Security-Policy"]) == (200, True)
    for address in re.findall(r'(?:href|src)="(/api/console[^"]*)"', text):
        assert reader.ask(unescape(address))[0] == 200
    assert "may only read" in text
    status, _, said = reader.ask("/api/console/job/%C3%A9t%C3%A9%20%25")
    assert (status, "été %" in said) == (404, True)
    assert reader.ask("/api/console/parked", method="HEAD")[0] == 200
    assert reader.ask("/api/console/gate/g/open", {"why": "x"})[0] == 403
    assert reader.cookie == ""


def test_an_operator_opens_a_gate_and_its_job_runs_to_its_end(stack):
    """Two instances answer as one: the form of one is good at the other. The audit names the person."""
    with Connections.parse(stack.settings) as connections, Stores(connections) as stores:
        publisher = Publisher(
            connections.queues.get_queue_client("submissions"), connections.blobs.get_container_client("payloads")
        )
        publisher.submit(job="console-1", workload="billing", gate="console-gate", transactions=usages(500))
        until(lambda: (job := stores.ledger.read("console-1")) and job.state is JobState.HELD)
        operator = Browser(stack.host, describe("Operator"))
        # The job is held a moment before its entry is counted, and a form is good for the count that it shows.
        page = until(lambda: "with 1 held" in (text := operator.ask("/api/console/gate/console-gate")[2]) and text)
        (form,) = [one for one in re.findall(r"<form class=\"act\".*?</form>", page, re.DOTALL) if "Open con" in one]
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
        fields = {name: unescape(value) for name, value in hidden} | {"why": "month end"}
        address = re.search(r'action="([^"]*)"', form)[1]
        status, headers, said = operator.ask(address, fields)
        assert (status, headers["Location"]) == (303, "/api/console/gate/console-gate"), said
        assert operator.ask(address, fields)[0] == 409
        until(lambda: stores.ledger.read("console-1").state is JobState.COMPLETE)
        (act,) = stores.audit.newest(f"{stores.clock.now():%Y-%m}", 10, about="console-gate")
        assert (act.act.who, act.act.what, act.act.why) == ("dana@example.com (0-1-2)", "gate open", "month end")
        assert "complete" in operator.ask("/api/console/job/console-1")[2]


def test_off_there_is_no_route_and_without_azures_login_neither(worker, stack_settings):
    """The app runs all the same, and says why."""
    host = start_host(StackOptions(worker=worker, instances=1), {**stack_settings, **ON})
    try:
        assert Browser(host, describe("Operator")).ask("/api/console")[0] == 404
        assert json.loads(Browser(host).ask("/api/health")[2])["status"] == "ok"
        assert "sluice.console.refused" in host.log.read_text()
        assert "WEBSITE_AUTH_ENABLED is not true" in host.log.read_text()
    finally:
        host.stop()
    host = start_host(StackOptions(worker=worker, instances=1), {**stack_settings, "WEBSITE_AUTH_ENABLED": "true"})
    try:
        assert Browser(host, describe("Operator")).ask("/api/console")[0] == 404
        assert "sluice.console.refused" not in host.log.read_text()
    finally:
        host.stop()
