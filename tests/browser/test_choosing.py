"""Entries are chosen on the page of a cause, rows are cards on a phone, and the acts are at hand; by keyboard too."""

from dataclasses import replace
from functools import partial

import pytest

from shared.ledger import JobState
from shared.parked import EntryState
from shared.watch import Need, NeedKind
from tests.browser.conftest import check_page
from tests.console.fillings import NOON, fill_day, hold, make_entry, make_job, park, put_job
from tests.waiting import until

CAUSE = "cafe0123cafe"
WIDTHS = (390, 1024, 1440)


@pytest.fixture(scope="module", autouse=True)
def filled(served):
    """A cause of fifty entries, and a job that needs a person."""
    fill_day(served.stores)
    put_job(served.stores, make_job("chosen", chunks=200, done=40, parked=6, state=JobState.PAUSED))
    hold(served.stores, "nightly", 3)
    for chunk in range(50):
        park(served.stores, make_entry("chosen", chunk, fingerprint=CAUSE))


def act(page, button, why):
    """Fill in a form of the page and send it."""
    form = page.locator("form.act").filter(has=page.get_by_role("button", name=button))
    form.get_by_label("Why?").fill(why)
    form.get_by_role("button", name=button).click()


@pytest.mark.parametrize("has_scripts", [True, False])
def test_three_of_fifty_are_chosen_and_none_is_sent_when_another_console_replays_one(open_console, served, has_scripts):
    """409, and the page asks again. Those that are not chosen do not count."""
    console = open_console(java_script_enabled=has_scripts)
    page = console.page
    page.goto(f"{console.root}/parked/{CAUSE}")
    boxes = page.locator("input[name=pick]")
    assert boxes.count() == 50
    names = [boxes.nth(place).get_attribute("value").partition("|")[2] for place in range(3)]
    for place in range(3):
        boxes.nth(place).press("Space")
    page.get_by_role("button", name="Act on the chosen entries alone").press("Enter")
    page.get_by_text("Replay 3 entries").wait_for()
    assert page.get_by_text("For the 3 chosen entries").is_visible()
    entry = served.stores.parked_table.find("chosen", names[0])
    other = served.stores.parked_table.change(entry, replace(entry, state=EntryState.REPLAYED, replays=1))
    with page.expect_response(lambda reply: reply.request.method == "POST") as answered:
        act(page, "Replay them", "mended")
    assert answered.value.status == 409
    page.get_by_text("has changed since you saw it").wait_for()
    found = [served.stores.parked_table.find("chosen", name) for name in names]
    assert [one.replays for one in found] == [1, 0, 0]
    assert served.stores.replays.newest() == []
    served.stores.parked_table.change(other, replace(other, state=EntryState.OPEN, replays=0))


@pytest.mark.parametrize("width", [390, 1440])
def test_the_acts_of_a_cause_are_at_the_top(open_console, width):
    """Within the first 600 pixels, closed; a form opens below its words."""
    console = open_console(viewport={"width": width, "height": 900})
    console.page.goto(f"{console.root}/parked/{CAUSE}")
    for words in ("Replay 50 entries", "Discard 50 entries"):
        box = console.page.get_by_text(words).bounding_box()
        assert box["y"] + box["height"] < 600
    check_page(console)


@pytest.mark.parametrize("path", ["/jobs", "/gates", "/parked", f"/parked/{CAUSE}", "/"])
def test_no_box_is_cut_without_a_shadow(open_console, path):
    """On a phone each row is a card, and nothing of it is cut. Where a box scrolls, its edge is drawn."""
    for width in WIDTHS:
        console = open_console(viewport={"width": width, "height": 900})
        console.page.goto(console.root + path)
        boxes = console.page.locator(".box").evaluate_all(
            "all => all.map(one => [one.getAttribute('aria-label'), one.scrollWidth > one.clientWidth + 1,"
            " getComputedStyle(one).backgroundImage.includes('gradient'), one.querySelector('.cards') !== null])"
        )
        assert boxes or path == "/"
        for label, is_cut, has_shadow, is_of_cards in boxes:
            assert has_shadow, (width, label)
            assert not (is_cut and is_of_cards and width == min(WIDTHS)), (width, label)


def test_a_card_has_job_state_bar_and_end(open_console):
    """At 390 pixels, with the names of what they are."""
    console = open_console(viewport={"width": 390, "height": 900})
    console.page.goto(f"{console.root}/jobs")
    card = console.page.locator("table.cards tbody tr").first
    assert "chosen" in card.inner_text()
    assert card.locator(".state").first.is_visible()
    assert card.locator("svg.bar").bounding_box()["width"] > 200
    labels = card.locator("td").evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    assert '"chunks"' in labels


def test_the_pages_are_reached_by_keyboard_on_a_phone(open_console):
    """The navigation is one line and a menu: Enter opens it, and Tab goes through it."""
    console = open_console(viewport={"width": 390, "height": 900})
    page = console.page
    assert page.locator("header.bar").bounding_box()["height"] < 120
    assert page.get_by_role("navigation", name="Pages").count() == 0
    page.get_by_role("link", name="Pages").focus()
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Pages").wait_for()
    check_page(console)
    for name in ("Now", "Jobs", "Gates"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("Enter")
    page.wait_for_url("**/gates")
    check_page(console)


def test_a_new_alarm_is_read_aloud_once(open_console, served):
    """It is written when the number changes, and not by looks that find the same, or by a slow answer."""
    console = open_console()
    page, heard = console.page, []
    page.clock.install()
    page.reload()
    # The library marks what it exposes.
    page.expose_function("hear", partial(list.append, heard))
    page.evaluate(
        "() => { const line = document.querySelector('#standing .alarms');"
        " new MutationObserver(() => hear(line.textContent)).observe(line, {childList: true}); }"
    )
    served.stores.watch.begin(Need(NeedKind.RULES_UNREADABLE, "rules", "line 3: no rule", NOON))
    looks = []
    page.on("requestfinished", lambda request: looks.append(1) if "part=1" in request.url else None)
    for number in range(1, 4):
        served.clock.advance(30)
        page.clock.run_for(70_000)
        until(lambda number=number: page.evaluate("1") and len(looks) >= number)
    page.clock.run_for(2_000)
    until(lambda: page.evaluate("1") and heard)
    assert heard == ["2 need you"]
    assert page.title().startswith("(2)")


@pytest.mark.parametrize(
    "path", ["/nowhere", "/job/nope", "/gate/UPPER CASE", "/parked/nope", "/jobs?state=odd", "/replay/nope"]
)
def test_each_error_page_has_a_way_on(open_console, path):
    """The frame, the navigation, its cause, and what to do as links."""
    console = open_console()
    reply = console.page.goto(console.root + path)
    assert reply.status in {400, 404}
    assert console.page.get_by_role("navigation", name="Pages").count() == 1
    assert console.page.locator("main a").count() >= 1
    check_page(console)
