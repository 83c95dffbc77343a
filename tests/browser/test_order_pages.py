"""The pages of registration in a browser: readable at three widths and in the dark, and a migration switched there."""

from types import SimpleNamespace

import pytest

from capabilities.registration.views import ORDER_MODEL
from shared.readmodels import Migration
from tests.browser.conftest import check_pages, serving
from tests.browser.pictures import orders_on_sale

PAGES = ("/processes", "/orders", "/order/order-1", "/seats", "/seats/c1", "/migrations", "/migration/orders")


@pytest.fixture(scope="module")
def served():
    """An installation with three orders for two seats, and a verified version of their view."""
    with orders_on_sale() as view:
        migration = Migration(ORDER_MODEL, 2, view.parts["registration"].stores.views, pause=lambda _seconds: None)
        migration.start()
        migration.verify()
        with serving(view) as login:
            yield SimpleNamespace(login=login, migration=migration)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1400])
def test_each_page_is_readable(open_console, width, scheme):
    """As the other pages are."""
    check_pages(open_console(viewport={"width": width, "height": 900}, color_scheme=scheme), PAGES)


def test_a_migration_is_switched_and_rolled_back(open_console, served):
    """With a reason each; the page shows what readers use, and the form that leads back."""
    console = open_console()
    console.page.goto(f"{console.root}/migration/orders")
    for button, version in (("Switch orders to version 2", 2), ("Roll orders back", 1)):
        console.page.get_by_label("Why?").fill("verified")
        console.page.get_by_role("button", name=button).click()
        console.page.get_by_text(f"readers use version {version}").wait_for()
        assert served.migration.read().current == version
