"""The examples of docs/formats.md about orders: each is read as it stands there, and shows what the code writes."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest

from capabilities.registration import http
from capabilities.registration.conference_views import SeatTypeView
from capabilities.registration.order import OrderPhase, OrderState, body_of, event_of
from capabilities.registration.public_messages import PlaceOrder, read_change, read_order_message, read_place_order
from shared.azure import Destination
from shared.payload import Limits
from shared.processes import decode_events, event_parcels, message_of
from tools.local.paths import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text()
SECTION = PAGE[PAGE.index("## Orders of seats") : PAGE.index("## Permits")]
EXAMPLES = re.findall(r"^```json\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
EVENTS = [text for text in EXAMPLES if '"kind": "events"' in text]
MESSAGES = [text for text in EXAMPLES if text.startswith('{"sluice"') and text not in EVENTS]
PLACED = SimpleNamespace(order="o-1", number=17, access_code="correct-horse", total=Decimal("1500.00"))
ORDER = OrderState(
    order="o-1",
    number=17,
    conference="pycon",
    phase=OrderPhase.RESERVED,
    requested={"whole": 3},
    prices={"whole": Decimal("500.00")},
    expires_at=datetime(2026, 11, 22, 12, 45, tzinfo=UTC),
    reserved={"whole": 3},
    total=Decimal("1500.00"),
    version=3,
)
ANSWERS = [json.loads(text) for text in EXAMPLES if not text.startswith('{"sluice"')]


@pytest.mark.parametrize("text", MESSAGES)
def test_an_example_of_a_message_is_read(text):
    """A program that sends what the page says is not refused."""
    message = read_order_message(text.encode(), Limits())
    assert json.loads(text)["sluice"]["kind"].replace("_", "") in type(message).__name__.lower() + "setconference"


def test_every_kind_of_message_has_an_example():
    """The page has no other list of them."""
    assert len({json.loads(text)["sluice"]["kind"] for text in MESSAGES}) == len(MESSAGES) == 7


def test_the_body_of_a_request_is_the_message_without_its_envelope():
    """As the page says: the fields of place_order."""
    (fields,) = [one["sluice"] for one in map(json.loads, MESSAGES) if one["sluice"]["kind"] == "place_order"]
    bare = {name: value for name, value in fields.items() if name != "kind"}
    read = read_place_order(json.dumps(bare).encode(), Limits())
    assert isinstance(read, PlaceOrder)
    assert read == read_order_message(json.dumps({"sluice": fields}), Limits())
    assert read_change(b'{"seats": {"whole": 2}}', Limits()) == {"whole": 2}


def test_the_examples_of_answers_are_what_is_sent():
    """Field by field, in the same forms."""
    placed, order, conference = ANSWERS
    assert json.loads(http.answer_placed(PLACED).body) == placed
    assert json.loads(http.answer_order(ORDER, None).body) == order
    seats = {"whole": SeatTypeView(Decimal("500.00"), 20, 17)}
    assert json.loads(http.answer_conference("pycon", seats, 3, timedelta(), None).body) == conference


def test_the_example_of_events_is_what_is_sent():
    """Field by field: a subscriber has nothing but the page."""
    (text,) = EVENTS
    (told,) = decode_events(text.encode())
    (event,) = told.events
    body = body_of(event)
    assert event_of(body, event.at, command=event.command, generation=event.generation).body == event.body
    sent = message_of(list(event_parcels(Destination("topic", "seats-events"), "pycon", told)))
    assert json.loads(sent.body) == json.loads(text)
    assert sent.properties == {event.kind: True}


@pytest.mark.parametrize("phase", list(OrderPhase))
def test_every_state_of_an_order_is_explained(phase):
    """A client meets no word that the page does not have."""
    assert f"`{phase.value}`" in SECTION
