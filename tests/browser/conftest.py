"""A headless Chromium of the system, and the console that it opens. Skipped by name where there is none."""

import os
import shutil
from contextlib import contextmanager
from threading import Thread
from types import SimpleNamespace

import pytest
from werkzeug.serving import make_server

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from shared.topology import topology
from tests.console.conftest import Installation
from tools.local.azurite.launcher import Azurite
from tools.local.paths import BROWSER
from tools.local.provision import provision

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: It resolves no name and reaches nothing but this machine.
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
AXE = BROWSER / "node_modules" / "axe-core" / "axe.min.js"


def _missing(found):
    """Return what is not here, or nothing."""
    try:
        import playwright  # noqa: F401, PLC0415 - only `make setup ARGS=--browser` installs it
    except ImportError:
        return "playwright is not installed: `make setup ARGS=--browser`"
    if not AXE.exists():
        return "axe is not installed: `make setup ARGS=--browser`"
    return "" if found else f"no browser is here (looked for CHROMIUM, {', '.join(BROWSERS)}): install chromium"


@pytest.fixture(scope="session")
def browser(request):
    """The system's Chromium."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if missing := _missing(program):
        (pytest.fail if request.config.getoption("--need-browser") else pytest.skip)(missing)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as driver:
        # Root has no sandbox of its own.
        started = driver.chromium.launch(executable_path=program, chromium_sandbox=os.getuid() != 0, args=[ALONE])
        yield started
        started.close()


@pytest.fixture(scope="module")
def storage():
    """Storage that no other test writes to."""
    with Azurite.start() as running:
        provision(running.connection_string, topology())
        yield running


@contextmanager
def serving(view):
    """Serve the console on a port of its own, by Werkzeug's server, and yield its login."""
    server = make_server("127.0.0.1", 0, lambda _environ, _start: [], threaded=True)
    login = LocalLogin(server.port, "dana", may_act=True, monotonic=view.clock.monotonic)
    server.app = Application(view, login)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield login
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def served(storage):
    """An installation with the console over it."""
    house = Installation(storage.connection_string)
    with house.connections, serving(house.application._view) as house.login:
        yield house


@pytest.fixture
def open_console(browser, served):
    """Open the console in a new profile, and keep what its browser reports."""
    opened = []

    def begin(**options):
        context = browser.new_context(**options)
        opened.append(context)
        page, reports = context.new_page(), []
        page.on("console", lambda said: reports.append(said.text))
        page.on("pageerror", lambda error: reports.append(str(error)))
        page.on("dialog", lambda dialog: reports.append(f"dialog {dialog.message}") or dialog.dismiss())
        page.goto(served.login.issue())
        return SimpleNamespace(page=page, reports=reports, root=page.url.rstrip("/"), context=context)

    yield begin
    for context in opened:
        context.close()


def check_pages(console, paths):
    """Open each of these pages and check it; none has anything to report to the policy."""
    for path in paths:
        assert console.page.goto(console.root + path).status == 200, path
        check_page(console)
    assert console.reports == []


def check_page(console):
    """Check that nothing overflows the page that is open, and axe finds nothing of any kind on it."""
    path = console.page.url
    assert (path, console.page.evaluate("document.documentElement.scrollWidth > innerWidth")) == (path, False)
    console.page.evaluate(AXE.read_text())
    found = console.page.evaluate("axe.run()")["violations"]
    assert [(path, one["id"], one["nodes"][0]["html"]) for one in found] == []
