"""Registration's entities: none where it is off, each as the design has it where it is on."""

from datetime import timedelta

import pytest

from capabilities.registration.entities import DEAD, MOST_SEAT_LANES, registration
from shared.errors import SettingsError
from shared.settings import Settings
from shared.topology import GUARD, topology
from tools.local.stack import sample_values


def parsed(**values):
    """Return the sample settings with some of them changed."""
    return Settings.parse({**sample_values(), **{f"SLUICE_{name}": text for name, text in values.items()}})


def test_an_installation_without_registration_has_what_it_had():
    """No entity of it is made, looked for, or read."""
    assert topology(2, parsed().entities) == topology(2)
    assert parsed().capabilities == ()


def test_an_installation_with_registration_has_its_entities_behind_the_others():
    """Their dead letters' queue is the first of its own: Service Bus wants it before those that forward to it."""
    base, whole = topology(), topology(entities=parsed(CAPABILITIES="registration", SEAT_LANES="2").entities)
    assert set(whole.queues) - set(base.queues) == {"orders", "orders-poison"}
    assert whole.containers == (*base.containers, "mementos")
    assert whole.tables == (*base.tables, "homes", "agenda", "readmodela", "readmodelb", "models")
    assert [one.name for one in whole.bus.queues] == [
        *(one.name for one in base.bus.queues),
        *("dead", "starts", "starts-in-order", "timeouts", "payments", "conferences"),
        *("seat-commands-00", "seat-commands-01"),
    ]
    assert [one.name for one in whole.bus.topics] == [
        *(one.name for one in base.bus.topics),
        "order-events",
        "seats-events",
    ]


def test_every_dead_letter_of_registration_reaches_the_one_queue_that_parks_them():
    """Else a capability would need nine more triggers, or its letters would be seen by nobody."""
    bus = registration().bus
    deliveries = [one.delivery for one in bus.queues if one.name != DEAD]
    deliveries += [one.delivery for topic in bus.topics for one in topic.subscriptions]
    assert {one.forward_dead_letters for one in deliveries} == {DEAD}
    assert bus.queues[0].name == DEAD, "Service Bus refuses to forward to a queue that is not there yet"
    assert bus.queues[0].delivery.forward_dead_letters is None


def test_only_what_has_an_order_has_sessions_and_a_replay_of_their_commands_passes():
    """A session trigger keeps a slot until it is idle; duplicate detection would swallow a command that is sent again."""
    queues = {one.name: one for one in registration(2).bus.queues}
    sessions = {name for name, one in queues.items() if one.delivery.sessions}
    assert sessions == {"starts-in-order", "seat-commands-00", "seat-commands-01"}
    assert all(queues[name].duplicate_window is None for name in (*sessions, "payments", "conferences"))
    assert all(queues[name].delivery.lock == GUARD for name in sessions)


def test_settings_of_registration_have_their_values():
    """Each reaches the choice by its own name."""
    choice = (
        parsed(
            CAPABILITIES="registration",
            RESERVATION_SECONDS="5",
            RESERVATION_BUFFER_SECONDS="1",
            SEATS_PER_ORDER="7",
            SEAT_LANES="3",
            SNAPSHOT_EVENTS="50",
        )
        .capability("registration")
        .choice
    )
    assert (choice.seats_per_order, choice.seat_lanes, choice.snapshot_events) == (7, 3, 50)
    assert (choice.reservation, choice.buffer) == (timedelta(seconds=5), timedelta(seconds=1))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("RESERVATION_BUFFER_SECONDS", "0", "expected a whole number from 1"),
        ("SEAT_LANES", str(MOST_SEAT_LANES + 1), f"expected a whole number from 1 to {MOST_SEAT_LANES}"),
    ],
)
def test_a_setting_beyond_its_bounds_is_refused(name, text, said):
    """The app does not start with it."""
    with pytest.raises(SettingsError, match=said):
        parsed(**{"CAPABILITIES": "registration", name: text})


@pytest.mark.parametrize("lanes", [0, MOST_SEAT_LANES + 1])
def test_more_lanes_than_bicep_can_make_are_refused(lanes):
    """Commands would be sent to queues that are nowhere."""
    with pytest.raises(ValueError, match="seat_lanes is"):
        registration(lanes)
