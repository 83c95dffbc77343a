"""Whether a page is alive, as a person sees it: the server ends, storage ends, the session ends, and all come back."""

import socket
from contextlib import contextmanager
from threading import Thread

import pytest
from werkzeug.serving import make_server

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from capabilities.console.snapshot import Snapshot
from shared.errors import StorageUnavailableError
from shared.ledger import JobState
from tests.browser.conftest import check_page
from tests.console.fillings import make_job, put_job

#: Milliseconds in which a page says that something is wrong: a beat each five seconds, and a look.
SOON = 12_000


@pytest.fixture(scope="module", autouse=True)
def filled(served):
    """A job that needs a person."""
    put_job(served.stores, make_job("zz-paused", chunks=40, done=4, parked=30, state=JobState.PAUSED))


class Server:
    """The console on one port, which ends and begins again with the same login."""

    def __init__(self, view):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.login = LocalLogin(self.port, "dana", may_act=True, monotonic=view.clock.monotonic)
        self.view, self._server = view, None

    def begin(self):
        """Serve."""
        application = Application(self.view, self.login)
        self._server = make_server("127.0.0.1", self.port, application, threaded=True)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def end(self):
        """End, as a process that was killed."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(served):
    """A server of its own."""
    made = Server(served.application._view)
    made.begin()
    yield made
    made.end()


@pytest.fixture
def page(browser, server):
    """Now, opened by it."""
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(server.login.issue())
    yield opened
    context.close()


@contextmanager
def storage_gone(server):
    """Have every part of the snapshot fail, as while storage does not answer."""

    def fail(*_):
        raise StorageUnavailableError("storage does not answer")

    with pytest.MonkeyPatch.context() as patched:
        for name in ("needs", "fleet", "is_moving"):
            patched.setattr(Snapshot, name, fail)
        yield


def wait_for(page, words):
    """Wait until the line of the page says it."""
    page.locator("#standing").get_by_text(words).wait_for(timeout=SOON)


def is_dim(page):
    """Check whether the page is drawn as one that may be old."""
    return page.locator("#moving").evaluate("one => getComputedStyle(one).filter") != "none"


def test_a_page_that_is_alive_says_so_and_how_many_need_a_person(page):
    """In the line, and in the title of the tab."""
    wait_for(page, "live")
    page.locator("#standing .alarms", has_text="1 needs you").wait_for()
    page.get_by_text("last answer").wait_for()
    assert (page.title(), is_dim(page)) == ("(1) Now · Sluice", False)
    check_page(page_and_reports(page))


def page_and_reports(page):
    """Return a page in the form that the checks take."""
    from types import SimpleNamespace  # noqa: PLC0415 - for this alone

    return SimpleNamespace(page=page)


def test_a_server_that_is_gone_does_not_look_healthy_and_comes_back_by_itself(page, server):
    """Dim, with the time since when; a page without news too."""
    wait_for(page, "live")
    server.end()
    wait_for(page, "this console does not answer since")
    assert (page.title(), is_dim(page)) == ("(!) Now · Sluice", True)
    assert page.locator("#standing").get_by_text("what you see is of").count() == 1
    server.begin()
    wait_for(page, "live")
    assert (page.title(), is_dim(page)) == ("(1) Now · Sluice", False)


def test_storage_that_is_gone_is_said_at_the_next_look(page, server):
    """The server is there, and what it shows is old."""
    wait_for(page, "live")
    with storage_gone(server):
        wait_for(page, "storage does not answer since")
        assert (page.title(), is_dim(page)) == ("(!) Now · Sluice", True)
        check_page(page_and_reports(page))
    page.get_by_role("button", name="look now").click()
    wait_for(page, "live")


def test_a_session_that_ended_says_how_to_get_in(page, server):
    """Another console has this port now."""
    wait_for(page, "live")
    server.login._cookie = "another"
    wait_for(page, "you are not let in any more since")
    wait_for(page, "press Enter in the terminal of sluice web")
    assert page.title() == "(!) Now · Sluice"


def test_without_scripts_a_page_says_of_when_it_is(browser, server):
    """And that it does not look again."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.login.issue())
    assert page.locator("#asof").inner_text().startswith("as of 2026-11-21 12:00")
    # A browser that is driven draws no `noscript`, so the text alone is looked for.
    assert "this page does not look again" in page.content()
    assert not page.locator("#standing").is_visible()
    context.close()
