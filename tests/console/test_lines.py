"""The lines of a parked entry: shown as text to a person who says why, and never without a row in the audit."""

import re
from dataclasses import replace

import pytest

from shared.messages import Delivery
from shared.parked import NO_JOB
from shared.parked.poison_policy import DEFAULT_POLICY
from tests.console.conftest import Installation
from tests.console.fillings import make_entry, park
from tests.console.test_acts import Form, acts
from tests.process.world import World

HOSTILE = '{"shop":"<script>alert(1)</script>\u202e","amount":"2"}'.encode()
LINES = [b'{"shop":"north","amount":"1"}', HOSTILE, b'{"shop":"south","amount":"3"}']


@pytest.fixture
def house(own_azurite):
    """An installation on the storage of the worker's process."""
    made = Installation(own_azurite.connection_string)
    with made.connections:
        yield made


@pytest.fixture
def world(own_azurite):
    """A chunk whose second transaction failed for good."""
    made = World(own_azurite, lines=LINES)

    def fail(sale):
        if "alert" in sale.shop:
            raise ZeroDivisionError

    made.workload.fault = fail
    with made.process() as process:
        process.processor.handle(
            Delivery(queue="work-00", message_id="m", body=made.body, count=DEFAULT_POLICY.deliveries)
        )
    made.settle()
    return made


def test_the_line_that_is_set_aside_is_shown_and_the_audit_says_to_whom(house, visitor, world):
    """As text alone: no element of theirs, and nothing that turns the direction of what follows."""
    entry = world.aside
    page = f"/parked/{entry.job}/{entry.key}"
    assert "alert(1)" not in visitor.get(page).text
    shown = Form(visitor, page, "Show them").send("a customer asks")
    assert shown.status_code == 200
    [text] = re.findall(r"<pre[^>]*>(.*?)</pre>", shown.text, re.DOTALL)
    assert "&lt;script&gt;alert(1)" in text
    assert "\u202e" not in shown.text
    assert f"&#34;number&#34;:{entry.failed_item}" in text
    assert "north" not in text
    assert "south" not in text
    assert acts(house, entry.job) == [("dana", "parked lines", "a customer asks", "shown: 1 lines")]


def test_a_second_post_of_one_form_shows_nothing(house, visitor, world):
    """Each look has a row of its own."""
    form = Form(visitor, f"/parked/{world.aside.job}/{world.aside.key}", "Show them")
    assert form.send().status_code == 200
    again = form.send()
    assert (again.status_code, "alert(1)" in again.text) == (409, False)
    assert len(acts(house, world.aside.job)) == 1


def test_without_a_reason_or_an_entry_nothing_is_shown(house, visitor, world):
    """Nor recorded."""
    form = Form(visitor, f"/parked/{world.aside.job}/{world.aside.key}", "Show them")
    assert form.send(why=" ").status_code == 400
    assert acts(house, world.aside.job) == []
    assert visitor.get(f"/parked/{world.aside.job}/no-such-key").status_code == 404


def test_an_entry_that_is_no_chunk_has_the_lines_of_its_message(house, visitor):
    """A message that nobody could read is shown as it came."""
    entry = replace(make_entry(NO_JOB, 0, key="accept-odd"), chunk=None)
    park(house.stores, entry)
    shown = Form(visitor, f"/parked/{NO_JOB}/accept-odd", "Show them").send("what is it")
    assert f"{NO_JOB} None" in shown.text
