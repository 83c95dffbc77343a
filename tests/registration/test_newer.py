"""What a newer version sends about orders and seats: it waits, and nothing is guessed of it."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from capabilities.registration.entities import ORDERS
from capabilities.registration.order_messages import seats_home
from capabilities.registration.seat_flows import ATTEMPTS_OF_NEWER
from shared.errors import LaterFormatError, NewerVersionError
from shared.messages import Delivery
from shared.processes import Command, EventRange, command_parcel, event_parcels, message_of
from shared.topology import GUARD
from shared.versions import LOOKS
from tests.registration.test_flows import TOPIC, open_conference, place
from tests.registration.test_parked_orders import LANE_OF, entries


def test_an_order_of_a_newer_version_waits_and_is_parked_in_the_end(world):
    """A customer's message that names a higher version than this app reads."""
    body = json.dumps({"sluice": {"v": 2, "kind": "place_order", "order": "order-1", "seat": "a"}}).encode()
    for count in (1, LOOKS - 1):
        with pytest.raises(NewerVersionError, match="a place_order of version 2"):
            world.verbs.take(Delivery(queue=ORDERS, message_id="m", body=body, count=count))
    assert world.parked() == []
    world.verbs.take(Delivery(queue=ORDERS, message_id="m", body=body, count=LOOKS))
    assert world.parked() == ["unsupported_version"]


def test_a_command_of_a_newer_version_is_tried_for_ten_minutes(world):
    """Its copies come later each time, and those beside it are obeyed."""
    open_conference(world)
    # The bus goes by its own clock: what is sent for later by a clock of yesterday is there at once.
    world.clock.moment -= timedelta(days=1)
    command = Command(kind="swap_seats", to=seats_home("c1"), body={"seats": {"a": 1}}, id="swap-1")
    world.verbs.seats._sender.send(LANE_OF, [message_of([command_parcel(LANE_OF, command)])])
    world.pump()
    found = entries(world)["newer_version"]
    assert (found.stage, found.attempts) == ("registration", ATTEMPTS_OF_NEWER)
    assert "deploy the version of Sluice that wrote it" in found.instead
    assert 5 * (2 ** (ATTEMPTS_OF_NEWER - 1) - 1) >= 600


@pytest.mark.parametrize("head", [{"kind": "offers"}, {"v": 2}])
def test_a_message_of_a_newer_app_waits_and_those_beside_it_are_worked_on(world, head):
    """By a kind that no queue here knows, or by a higher version. Each delivery takes its time, so few make ten minutes."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    answer = next(one for one in world.own.homes.load(seats_home("c1")).events if one.kind == "seats_reserved")
    command = Command(kind="swap_seats", to=seats_home("c1"), body={}, id="swap-1", attempt=ATTEMPTS_OF_NEWER)
    told = EventRange("seats-c1", answer.version, answer.version, (replace(answer, generation=7),))
    good = {"sell": [command_parcel(LANE_OF, command)], "hear": list(event_parcels(TOPIC, "c1", told))}
    rests = []
    world.part._pace = replace(world.part._pace, sleep=rests.append)
    for verb in ("sell", "hear", "start", "project_orders", "project_conferences"):
        body = message_of(good.get(verb, good["hear"])).body
        later = json.dumps({"sluice": json.loads(body)["sluice"] | head}).encode()
        with pytest.raises(NewerVersionError, match="newer version of Sluice"):
            getattr(world.part, verb)([later] if verb == "start" else [later, body])
    assert rests == [GUARD.total_seconds() / 2] * 5
    assert sorted(world.parked()) == ["newer_version", "unexpected_reply"]


def test_an_answer_in_a_newer_format_comes_again_and_the_others_are_heard(world):
    """Its body may mean something else."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    head = world.own.homes.load(seats_home("c1"))
    answer = next(event for event in head.events if event.kind == "seats_reserved")
    later = replace(answer, format=2)
    before = world.own.homes.read_head("order-order-1")
    bodies = [
        message_of(list(event_parcels(TOPIC, "c1", EventRange("seats-c1", one.version, one.version, (one,))))).body
        for one in (later, replace(answer, generation=7))
    ]
    with pytest.raises(LaterFormatError, match="format 2"):
        world.verbs.hear(bodies)
    assert world.parked() == ["unexpected_reply"]
    assert world.own.homes.read_head("order-order-1") == before
