"""Registration: orders for the seats of a conference. This is all that the rest of Sluice learns about it.

Reading order:

- `entities`, `reasons`, `occurrences`: its entities, its reasons, its events and metrics
- `order`: every event, and what an order is
- `order_messages`, `order_process`: the messages to an order's process and to seats, and the process manager
- `seats`, `selling`: a conference's seats, their state and decisions
- `access_codes`: the codes that open orders
- `public_messages`: the public messages of customers, shops and banks, and the queue of each kind
- `views`: the read models; `conference_views` reads them, for orders too
- `http` (pure) and `desk`: what customers ask and are answered
- `parked_orders`: what fails for good
- `order_flows`, `seat_flows`, `verbs`: the flows; `flows` builds them; `story` tells a person what became of an order
- `roll_check`: whether the seats went in the order of the roll
"""

from datetime import timedelta
from typing import Final

from capabilities.registration.entities import (
    AGENDA_SHARDS,
    CONFERENCES,
    CONFERENCES_VIEW,
    DEAD,
    MOST_SEAT_LANES,
    ORDER_EVENTS,
    ORDERS,
    ORDERS_VIEW,
    PAYMENTS,
    PROCESSES,
    SEAT_LANES,
    SEATS_EVENTS,
    STARTS,
    STARTS_IN_ORDER,
    TIMEOUTS,
    RegistrationChoice,
    registration,
    seat_lane_names,
)
from capabilities.registration.events import (
    EVENTS,
    METRICS,
    MIGRATION_STANDS_NEED,
    ORDER_STUCK_NEED,
    ORDER_UNSETTLED_NEED,
    SEATS_OVERDUE_NEED,
    SEATS_UNEVEN_NEED,
)
from capabilities.registration.reasons import OrderReason, ReplyReason
from shared.azure import Setting
from shared.capability import (
    Capability,
    CommandGroup,
    CountedQueues,
    NeedWords,
    NumberSequence,
    SenderRight,
    TickStep,
    Trigger,
    bus,
    bus_delivery,
    dead_letters,
    http as route,
    queue,
)
from shared.telemetry import OF_PROCESSES
from shared.values import SettingReader

#: The minute of each hour in which the seats of conferences are checked, beside the other work of a whole hour.
SEATS_CHECKED_AT: Final = 7


def _setting(name: str, what: str, value: str) -> Setting:
    return Setting(f"SLUICE_{name}", f"registration: {what}", value, default=value)


def _read(read: SettingReader) -> RegistrationChoice:
    return RegistrationChoice(
        reservation=timedelta(seconds=read.whole_number("SLUICE_RESERVATION_SECONDS", 1, 604_800)),
        buffer=timedelta(seconds=read.whole_number("SLUICE_RESERVATION_BUFFER_SECONDS", 1, 86_400)),
        seats_per_order=read.whole_number("SLUICE_SEATS_PER_ORDER", 1, 10_000),
        seat_lanes=read.whole_number("SLUICE_SEAT_LANES", 1, MOST_SEAT_LANES),
        snapshot_events=read.whole_number("SLUICE_SNAPSHOT_EVENTS", 10, 100_000),
    )


def _triggers(choice: RegistrationChoice) -> tuple[Trigger, ...]:
    return (
        route("place_order", "orders", "POST", "place_order"),
        route("change_order", "orders/{order}", "PATCH", "change_order"),
        route("show_order", "orders/{order}", "GET", "show_order"),
        route("show_conference", "conferences/{conference}", "GET", "show_conference"),
        queue("take_orders", ORDERS, "take"),
        bus_delivery("take_payments", PAYMENTS, "take_from_bus"),
        bus_delivery("take_conferences", CONFERENCES, "take_from_bus"),
        # The orders of an instance of 0.3.0, for one release.
        bus("start_orders", STARTS, "start"),
        bus("start_in_order", STARTS_IN_ORDER, "start", sessions=True),
        # With one function per lane. A batch is of one session: the commands to one conference, in their order.
        *(
            bus(f"sell_seats_{number:02}", lane, "sell", sessions=True)
            for number, lane in enumerate(seat_lane_names(choice.seat_lanes))
        ),
        bus("hear_seats", f"{SEATS_EVENTS}/{PROCESSES}", "hear"),
        bus("expire_orders", TIMEOUTS, "expire"),
        bus("project_orders", f"{ORDER_EVENTS}/{ORDERS_VIEW}", "project_orders"),
        bus("project_conferences", f"{SEATS_EVENTS}/{CONFERENCES_VIEW}", "project_conferences"),
        dead_letters("park_dead_orders", DEAD, "park"),
    )


CAPABILITY: Final = Capability(
    name="registration",
    settings=(
        _setting("RESERVATION_SECONDS", "how long a placed order may be paid, 1 to 604800", "900"),
        _setting("RESERVATION_BUFFER_SECONDS", "... and how long after that its seats go back, 1 to 86400", "60"),
        _setting("SEATS_PER_ORDER", "seats of one type that an order may have, 1 to 10000", "20"),
        _setting(
            "SEAT_LANES",
            f"session queues of seat commands, 1 to {MOST_SEAT_LANES}; change it only while they are empty",
            str(SEAT_LANES),
        ),
        _setting("SNAPSHOT_EVENTS", "events between two snapshots of a stream, 10 to 100000", "500"),
    ),
    read=_read,
    entities=lambda choice: (registration(choice.seat_lanes),),
    triggers=_triggers,
    tick=(
        TickStep("follow", "what is due on the agenda of registration", AGENDA_SHARDS),
        TickStep("check_seats", "conferences with seats, once an hour", 1, minute=SEATS_CHECKED_AT),
    ),
    reasons=(OrderReason, ReplyReason),
    events=(*EVENTS, *OF_PROCESSES),
    metrics=METRICS,
    build=".flows:RegistrationPart",
    pages=".pages:PAGES",
    demo=".demo:run",
    tables=".documents:TABLES",
    counted=CountedQueues("SLUICE_SEAT_LANES", MOST_SEAT_LANES),
    senders=(
        SenderRight("orderSenders", "storage", ORDERS),
        SenderRight("paymentSenders", "bus", PAYMENTS),
        SenderRight("conferenceSenders", "bus", CONFERENCES),
    ),
    needs=(
        NeedWords(
            SEATS_UNEVEN_NEED,
            "stop its sale by a gate, and report it: its page names the event",
            "conference",
            "conference",
        ),
        NeedWords(ORDER_STUCK_NEED, "its page says what it waits for: sluice processes show ORDER", "order", "order"),
        NeedWords(
            SEATS_OVERDUE_NEED,
            "replay the parked command of the first order, or find why it was not sent",
            "conference",
            "conference",
        ),
        NeedWords(
            MIGRATION_STANDS_NEED,
            "its page names the command that goes on with it: type it again",
            "migration",
            "model",
        ),
        NeedWords(
            ORDER_UNSETTLED_NEED,
            "pay it back, or agree with the customer on another order, then say that it is done",
            "order",
            "order",
        ),
    ),
    sequences=(NumberSequence("orders", "order", ".flows:find_numbered"),),
    commands=(
        CommandGroup("orders", ".commands:orders", "orders for the seats of conferences"),
        CommandGroup("conferences", ".commands:conferences", "conferences, and the prices of their seats"),
        CommandGroup("processes", ".commands:processes", "what orders wait for, and why"),
        CommandGroup("seats", ".commands:seats", "the seats of conferences"),
        CommandGroup("migrate", ".commands:migrate", "new versions of read models without downtime"),
    ),
)
