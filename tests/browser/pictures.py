"""Makes the pictures of docs/console.md: `python -m tests.browser.pictures`, after `make setup ARGS=--browser`."""

import os
import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Thread

from werkzeug.serving import make_server

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from shared.ledger import JobState
from shared.topology import topology
from tests.browser.conftest import ALONE, BROWSERS
from tests.console.conftest import Installation
from tests.console.fillings import NOON, decide, fill_day, hold, make_entry, make_job, park, put_job, put_messages
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision

FOLDER = ROOT / "docs" / "pictures"
PICTURES = {
    "now": "/",
    "job": "/job/usage-0412",
    "parked": "/parked",
    "cause": "/parked/99aa77bb55cc33",
    "forecast": "/gate/nightly/forecast",
}
#: The end of a picture's name, by the colours that its reader prefers.
SCHEMES = {"light": "", "dark": "-dark"}
SIZE = {"width": 1200, "height": 800}


def fill(house):
    """Store a day on which much goes wrong."""
    stores, random = house.stores, Random(4)
    late = {"deadline": NOON + timedelta(minutes=4), "gate": "nightly"}
    put_job(stores, make_job("usage-0412", chunks=1000, done=311, parked=1, **late))
    put_job(stores, make_job("invoices-2026-11", chunks=40, done=22, parked=6, state=JobState.PAUSED))
    put_job(stores, make_job("roaming-0412", chunks=12, done=2))
    hold(stores, "nightly", 41, NOON - timedelta(hours=1))
    hold(stores, "nihgtly", 3, NOON - timedelta(minutes=20))
    decide(stores, workers=("a1b2c3d4e5", "ffee0011aa", "0099aabbcc"))
    for number in range(60):
        last = NOON - timedelta(minutes=random.randint(0, 1300))
        park(stores, make_entry(f"usage-{number % 14:04}", number, last_at=last))
    killed = make_entry("roaming-0412", 0, reason="killed_its_worker", found="3 deliveries began and never ended")
    for number in range(7):
        instead = "check the workload for memory use and exits on its transactions, then replay"
        one = make_entry("roaming-0412", number, last_at=NOON - timedelta(minutes=random.randint(0, 300)))
        park(
            stores,
            replace(one, reason=killed.reason, found=killed.found, instead=instead, fingerprint="99aa77bb55cc33"),
        )
    put_messages(house.connections, "work-00", 31)
    put_messages(house.connections, "submissions", 2)
    fill_day(stores)


def take(folder):
    """Open each page and write its picture."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only `make setup ARGS=--browser` installs it

    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    folder.mkdir(parents=True, exist_ok=True)
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        house = Installation(azurite.connection_string)
        fill(house)
        server = make_server("127.0.0.1", 0, house.application, threaded=True)
        house.login = LocalLogin(server.port, "dana", may_act=True, monotonic=house.clock.monotonic)
        server.app = Application(house.application._view, house.login)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with house.connections, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, chromium_sandbox=os.getuid() != 0, args=[ALONE])
            for scheme, end in SCHEMES.items():
                page = browser.new_page(viewport=SIZE, timezone_id="UTC", color_scheme=scheme)
                page.goto(house.login.issue())
                root = page.url.rstrip("/")
                for name, path in PICTURES.items():
                    page.goto(root + path)
                    page.screenshot(path=folder / f"console-{name}{end}.png", full_page=True)
            browser.close()
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
