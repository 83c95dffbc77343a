"""Makes the pictures of docs/console.md: `python -m tests.browser.pictures`, after `make setup ARGS=--browser`."""

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

from capabilities.console.snapshot import Snapshot
from capabilities.console.visit import View
from capabilities.registration.pages import PAGES as ORDER_PAGES, OrdersPart
from shared.ledger import JobState
from shared.topology import topology
from shared.usage import load
from tests.browser.conftest import ALONE, BROWSERS, serving
from tests.console.conftest import Installation
from tests.console.fillings import NOON, decide, fill_day, hold, make_entry, make_job, park, put_job, put_messages
from tests.registration.conftest import installation
from tests.registration.test_flows import open_conference, place
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
    folder.mkdir(parents=True, exist_ok=True)
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        house = Installation(azurite.connection_string)
        fill(house)
        with house.connections:
            take_of(house.application._view, PICTURES, folder)
    with orders_on_sale() as view:
        take_of(view, {"order": "/order/order-1"}, folder)


def take_of(view, pictures, folder):
    """Open these pages of one console, in each scheme."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only `make setup ARGS=--browser` installs it

    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    with serving(view) as login, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, chromium_sandbox=os.getuid() != 0, args=[ALONE])
        for scheme, end in SCHEMES.items():
            page = browser.new_page(viewport=SIZE, timezone_id="UTC", color_scheme=scheme)
            page.goto(login.issue())
            root = page.url.rstrip("/")
            for name, path in pictures.items():
                page.goto(root + path)
                page.screenshot(path=folder / f"console-{name}{end}.png", full_page=True)
        browser.close()


@contextmanager
def orders_on_sale():
    """Yield the view of an installation with three orders for two seats."""
    with installation() as world:
        open_conference(world, quota=2)
        for number in range(3):
            place(world, f"order-{number}")
        world.pump()
        snapshot = Snapshot(world.stores, work_queues=1, rooms=())
        yield View(
            stores=world.stores,
            snapshot=snapshot,
            clock=world.clock,
            prices=load(),
            pages=(ORDER_PAGES,),
            parts={"registration": OrdersPart(world.own, world.choice)},
        )


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
