"""The functions of registration: none where it is off, and where it is on one for each entity that has messages."""

import json

from tools.local.infra.capabilities import chosen
from tools.local.infra.listened import of_capability
from tools.local.paths import ROOT
from tools.local.picture import triggers

#: What an app without registration has had before there was any.
OTHERS = {
    "accept_hinted": "bus hints",
    "accept_submission": "queue submissions",
    "drain_work": "bus permits",
    "health": "http",
    "park_dead": "bus results/$DeadLetterQueue",
    "release_gate": "topic signals",
    "settle_results": "bus results",
    "tick": "timer",
}
OWN = {
    "place_order": "http",
    "change_order": "http",
    "show_order": "http",
    "show_conference": "http",
    "take_orders": "queue orders",
    "take_payments": "bus payments",
    "take_conferences": "bus conferences",
    "start_orders": "bus starts",
    "start_in_order": "bus starts-in-order",
    "expire_orders": "bus timeouts",
    "hear_seats": "topic seats-events",
    "project_conferences": "topic seats-events",
    "project_orders": "topic order-events",
    "park_dead_orders": "bus dead",
}


def test_an_app_without_registration_has_the_functions_that_it_had():
    """Not one more: a trigger polls, and a route is open."""
    assert triggers() == OTHERS
    assert triggers(("SLUICE_REGISTRATION", "off"), ("SLUICE_SEAT_LANES", "9")) == OTHERS


def test_an_app_with_registration_has_a_function_for_each_of_its_entities():
    """A lane without one would keep its commands, and dead letters would be seen by nobody."""
    found = triggers(("SLUICE_CAPABILITIES", "registration"), ("SLUICE_SEAT_LANES", "2"))
    lanes = {f"sell_seats_{n:02}": f"bus seat-commands-{n:02}" for n in range(2)}
    assert found == {**OTHERS, **OWN, **lanes}
    listened = {
        f"topic {one.topic}" if one.topic else f"bus {one.name}"
        for one in of_capability(chosen("registration", {"SLUICE_SEAT_LANES": "2"}))
    }
    assert listened == set(found.values()) - set(OTHERS.values()) - {"queue orders"}


def test_only_starts_and_lanes_hold_sessions_which_are_given_up_at_once():
    """A batch trigger serves one session at a time: a second of silence is a second in which no other seats are sold."""
    host = json.loads((ROOT / "host.json").read_text())["extensions"]["serviceBus"]
    assert host["sessionIdleTimeout"] == "00:00:01"
    found = chosen("registration", {"SLUICE_SEAT_LANES": "2"}).triggers
    assert [one.name for one in found if one.sessions] == ["start_in_order", "sell_seats_00", "sell_seats_01"]
