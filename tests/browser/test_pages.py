"""The pages in a browser: readable at three widths and in the dark, by keyboard, without scripts, and by axe's rules."""

import re
import subprocess
import sys
from datetime import timedelta
from threading import Thread

import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

from shared.concurrency.rules import SAMPLE
from shared.ledger import JobState
from shared.watch import Act, Need, NeedKind
from tests.browser.conftest import AXE, check_page, check_pages
from tests.console.fillings import (
    NOON,
    decide,
    fill_day,
    fill_night,
    hold,
    make_entry,
    make_job,
    park,
    put_job,
    put_messages,
)
from tests.console.hostile import TEXTS
from tests.waiting import LIMIT
from tools.local.paths import ROOT

PAGES = (
    "/",
    "/?hours=168",
    "/?at=2026-11-21T02:20",
    "/?look=yes",
    "/?beside=yes",
    "/find?q=nightly",
    "/need/c-replay-stopped/3146415e",
    "/gate/nightly/forecast",
    "/jobs",
    "/job/usage-0412",
    "/job/invoices-11",
    "/nights",
    "/night/n-1124",
    "/gates",
    "/gate/nightly",
    "/parked",
    "/parked/3146415e4c0f77aa90",
    "/parked/usage-0412/chunk-000000003-1",
    "/rules",
    "/cost",
    "/audit?month=2026-11",
    "/ids",
)


@pytest.fixture(scope="module", autouse=True)
def filled(served):
    """An installation with everything that a page can show, hostile texts among it."""
    stores = served.stores
    late = {"deadline": NOON + timedelta(minutes=4), "gate": "nightly"}
    put_job(stores, make_job("usage-0412", chunks=800, done=311, parked=1, **late))
    put_job(stores, make_job("invoices-11", chunks=40, done=22, parked=6, state=JobState.PAUSED))
    fill_night(stores, "n-1124")
    hold(stores, "nightly", 5)
    hold(stores, "nihgtly", 3)
    stores.gate_operator.schedule("nightly", NOON + timedelta(hours=2), by="dana", why="month end")
    decide(stores)
    for chunk in range(60):
        park(stores, make_entry("usage-0412", chunk))
    for number, text in enumerate(TEXTS):
        hostile = {"reason": text, "found": text, "instead": text, "place": text, "stage": text}
        park(stores, make_entry("hostile", number, fingerprint=f"cause{number}", **hostile))
        stores.gate_operator.close(f"gate-{number % 3}", by=text, why=text)
    fill_day(stores)
    stores.watch.note_act(Act(NOON - timedelta(hours=1), *TEXTS[:4]))
    stores.watch.begin(Need(NeedKind.REPLAY_STOPPED, "3146415e", "replay r1 stopped after 1 of 460", NOON))
    put_messages(served.connections, "work-00", 3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_each_page_is_readable(open_console, width, scheme):
    """Nothing overflows the page, axe finds nothing, and the policy has nothing to report."""
    console = open_console(viewport={"width": width, "height": 900}, color_scheme=scheme)
    check_pages(console, PAGES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_a_dry_run_is_readable(open_console, width, scheme):
    """With faults at their lines, and mended, with its plots."""
    console = open_console(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for text, words in ((SAMPLE.replace("tasks:", "taks:", 1), "taks"), (SAMPLE, "messages of a synthetic day")):
        console.page.goto(f"{console.root}/rules")
        console.page.get_by_label("Rules").last.fill(text)
        console.page.get_by_role("button", name="Dry run").click()
        console.page.get_by_text(words).first.wait_for()
        check_page(console)


def test_axe_finds_what_is_wrong(open_console):
    """Or the test above would hold nothing."""
    console = open_console()
    console.page.evaluate("document.documentElement.removeAttribute('lang')")
    console.page.evaluate(AXE.read_text())
    assert "html-has-lang" in [one["id"] for one in console.page.evaluate("axe.run()")["violations"]]


def test_no_hostile_text_runs_and_the_policy_has_nothing_to_report(open_console):
    """Not one of thirty on any page; what a page of ours does wrong would be reported."""
    console = open_console()
    for path in (
        "/",
        "/parked",
        "/gates",
        "/gate/gate-0",
        "/audit?month=2026-11",
        *(f"/parked/cause{n}" for n in range(30)),
    ):
        console.page.goto(console.root + path)
    assert console.reports == []
    with pytest.raises(Exception, match="TrustedHTML"):
        console.page.evaluate("document.body.innerHTML = '<b>x</b>'")


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_gate_is_opened_by_keyboard_and_without_scripts(open_console, served, has_scripts):
    """The reason is typed, Enter sends it, and the page shows what was done."""
    gate = f"keyboard-{has_scripts}".lower()
    hold(served.stores, gate, 2)
    console = open_console(java_script_enabled=has_scripts)
    console.page.goto(f"{console.root}/gate/{gate}")
    # The page opens the gate first, and plans below.
    reason = console.page.get_by_label("Why?").first
    reason.press("Enter")
    assert not served.stores.gates.read(gate).is_open
    reason.fill("month end")
    console.page.keyboard.press("Enter")
    console.page.get_by_text("month end").first.wait_for()
    assert served.stores.gates.read(gate).is_open
    assert console.reports == []


def test_the_first_tab_leads_past_the_navigation(open_console):
    """A person with a keyboard reaches the content at once."""
    console = open_console()
    console.page.keyboard.press("Tab")
    assert console.page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_a_page_of_another_port_can_neither_act_nor_read(open_console, served):
    """It is the same site for the browser, so the cookie is sent if the path is known; the origin is another one."""
    hold(served.stores, "stolen", 1)
    console = open_console()
    console.page.goto(f"{console.root}/gate/stolen")
    form = console.page.locator("form.act").first.evaluate("form => form.outerHTML")
    form = form.replace("<form", f"<form id=f action='{console.root}/gate/stolen/open' x", 1)
    page = Response(f"<body>{form}<script>f.why.value='x'; f.submit()</script>", content_type="text/html")
    server = make_server("127.0.0.1", 0, page, threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with console.page.expect_response(lambda reply: reply.request.method == "POST") as posted:
            console.page.goto(f"http://127.0.0.1:{server.port}/")
        assert posted.value.status == 403
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not served.stores.gates.read("stolen").is_open


def test_an_hour_without_a_key_is_few_looks_and_then_none(open_console):
    """It looks again after 5 s, then twice as long each time up to a minute, and stops after half an hour."""
    console = open_console()
    console.page.clock.install()
    looks = []
    console.page.on("response", lambda reply: looks.append(reply.status) if "part=1" in reply.url else None)
    console.page.goto(f"{console.root}/gates")
    after_half_an_hour = 0
    for second in range(0, 3600, 20):
        console.page.clock.run_for(20_000)
        console.page.wait_for_timeout(15)
        if second == 1900:
            after_half_an_hour = len(looks)
    assert 25 <= len(looks) <= 40
    assert set(looks) == {304}
    assert len(looks) == after_half_an_hour
    console.page.keyboard.press("Shift")
    console.page.clock.run_for(6000)
    console.page.wait_for_timeout(100)
    assert len(looks) == after_half_an_hour + 1


@pytest.mark.usefixtures("browser")
def test_the_pictures_of_the_page_are_made_by_its_command(tmp_path):
    """Their pixels differ by fonts and versions, so only the command is tried, and that the page shows them all."""
    subprocess.run([sys.executable, "-m", "tests.browser.pictures", tmp_path], check=True, cwd=ROOT, timeout=LIMIT)
    made = {picture.name for picture in tmp_path.iterdir() if picture.stat().st_size > 10_000}
    pages = [(ROOT / "docs" / name).read_text() for name in ("console.md", "appendix/console.md")]
    shown = re.findall(r"\((?:\.\./)?pictures/([\w-]+\.png)\)", "".join(pages))
    assert made == set(shown) == {picture.name for picture in (ROOT / "docs" / "pictures").iterdir()}
