"""What a person does with a page that is shown: a part of the strip, the order of rows, by pointer and by key. And an upgrade."""

import pytest

from capabilities.console import app
from tests.browser.conftest import check_page
from tests.console.fillings import NOON, fill_day, make_job, put_job


@pytest.fixture(scope="module", autouse=True)
def filled(served):
    """A day, and some jobs."""
    fill_day(served.stores)
    for number, done in enumerate((3, 12, 7)):
        put_job(served.stores, make_job(f"part-{number}", chunks=20, done=done))
    assert served.clock.now() == NOON


def part_of(page):
    """Return the ends of the part that each lane shows, in thousandths."""
    boxes = page.locator("#strip svg.lane").evaluate_all(
        "all => all.map(one => one.getAttribute('viewBox').split(' '))"
    )
    assert len({(box[0], box[2]) for box in boxes}) == 1
    return round(float(boxes[0][0])), round(float(boxes[0][0]) + float(boxes[0][2]))


def test_a_part_of_the_strip_is_chosen_by_dragging_and_given_back(open_console):
    """All lanes together, with their times; twice a click shows the whole again."""
    console = open_console(viewport={"width": 1440, "height": 900})
    page, strip = console.page, console.page.locator("#strip")
    strip.scroll_into_view_if_needed()
    whole = page.locator("#strip .axis span").all_text_contents()
    box = strip.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    page.mouse.up()
    assert part_of(page) == pytest.approx((250, 500), abs=3)
    assert page.locator("#strip .axis span").first.text_content() == pytest.approx("18:00")
    check_page(console)
    page.mouse.dblclick(box["x"] + box["width"] * 0.6, middle)
    assert part_of(page) == (0, 1000)
    assert page.locator("#strip .axis span").all_text_contents() == whole
    assert console.reports == []


def test_a_part_of_the_strip_is_chosen_by_key_and_read_aloud(open_console):
    """Nearer, later, and all of it; the part stays when the page has news."""
    console = open_console()
    page = console.page
    for name, ends in (("nearer", (250, 750)), ("later", (500, 1000)), ("nearer", (625, 875)), ("earlier", (500, 750))):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
        assert part_of(page) == ends
    assert page.locator("#part [role=status]").text_content() == "from 00:00 to 06:00 UTC"
    page.get_by_role("button", name="all of it").focus()
    page.keyboard.press("Enter")
    assert part_of(page) == (0, 1000)


def test_a_day_stands_beside_the_one_before(open_console, served):
    """Dashed, in each lane; nothing of it for whoever did not choose it."""
    console = open_console()
    page = console.page
    assert page.locator("#strip path.before").count() == 0
    page.get_by_role("link", name="beside yesterday").click()
    assert page.locator("#strip path.before").count() == 5
    check_page(console)
    page.get_by_role("link", name="without yesterday").click()
    assert page.locator("#strip path.before").count() == 0


def test_rows_are_sorted_by_key_and_by_pointer(open_console):
    """The head says which way, and the address keeps it."""
    console = open_console()
    page = console.page
    jobs = page.get_by_role("group", name="Jobs under way")

    def names():
        read = "all => all.map(one => one.textContent.trim().split(/\\s/)[0])"
        return jobs.locator("tbody th").evaluate_all(read)

    head = jobs.locator("thead th").first
    head.get_by_role("button").click()
    assert (names(), head.get_attribute("aria-sort")) == (["part-0", "part-1", "part-2"], "ascending")
    page.keyboard.press("Enter")
    assert (names(), head.get_attribute("aria-sort")) == (["part-2", "part-1", "part-0"], "descending")
    check_page(console)
    page.reload()
    assert names() == ["part-2", "part-1", "part-0"]
    assert console.reports == []


def test_a_page_that_is_open_when_the_console_is_upgraded_loads_itself_again(open_console, monkeypatch):
    """Its script is of before: the next look finds another build."""
    console = open_console()
    page = console.page
    before = page.locator("#moving").get_attribute("data-build")
    monkeypatch.setattr(app, "BUILD", "9.9.9 another")
    page.locator('#moving[data-build="9.9.9 another"]').wait_for()
    assert before != "9.9.9 another"
    assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "reload"
