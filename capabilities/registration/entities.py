"""The entities of registration, and the choice that its settings make."""

from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from shared.topology import (
    MODELS,
    SLOTS,
    BusEntities,
    BusQueue,
    CorrelationFilter,
    DeliveryRules,
    Entities,
    Subscription,
    Topic,
)

#: The storage queue that customers' orders, and changes of them, are dropped into.
ORDERS: Final = "orders"
#: The bus queues of who tells of payments, and of who sells conferences. An idle bus queue makes no request of storage.
PAYMENTS, CONFERENCES = "payments", "conferences"
HOMES, AGENDA = "homes", "agenda"
#: The container of the states that are too large for a row.
MEMENTOS: Final = "mementos"
#: The bus queue of orders that a gate released. A session is a gate: its orders start in the order of its roll.
STARTS_IN_ORDER: Final = "starts-in-order"
#: The same without sessions, which cannot be turned on later. Only an instance of 0.3.0 sends there.
STARTS: Final = "starts"
#: The bus queue of hints that something on the agenda is due.
TIMEOUTS: Final = "timeouts"
#: The bus queue of the dead letters of all entities of registration.
DEAD: Final = "dead"
ORDER_EVENTS, SEATS_EVENTS = "order-events", "seats-events"
#: The subscription of `order-events` that the order view is made from.
ORDERS_VIEW: Final = "orders"
#: The subscription of `seats-events` that replies reach the processes by.
PROCESSES: Final = "processes"
#: The subscription of `seats-events` that the conference view is made from.
CONFERENCES_VIEW: Final = "conferences"
#: What a reply is: a message has each kind of its events as an application property that is true.
SEATS_RESERVED, RESERVATION_REFUSED = "seats_reserved", "reservation_refused"
#: Session queues of seat commands at most. Each has a function of its own.
MOST_SEAT_LANES: Final = 16
#: The agenda is read in so many queries.
AGENDA_SHARDS: Final = 4
#: By default.
SEAT_LANES: Final = 4
#: An outage must not make dead letters of healthy messages: what fails by itself is parked by the code that handles it.
_MANY: Final = 1000
_DUPLICATES: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationChoice:
    """The settings of registration."""

    #: The time in which a placed order may be paid.
    reservation: timedelta
    #: The time after that until its seats go back.
    buffer: timedelta
    #: Seats of one type that one order may have.
    seats_per_order: int
    seat_lanes: int
    #: Events between two snapshots of a stream.
    snapshot_events: int


def seat_lane_names(number: int) -> list[str]:
    """Return the names of the first `number` session queues of seat commands."""
    return [f"seat-commands-{n:02}" for n in range(number)]


def registration(seat_lanes: int = SEAT_LANES) -> Entities:
    """Return every entity of registration, with this many lanes of seat commands."""
    if not 1 <= seat_lanes <= MOST_SEAT_LANES:
        raise ValueError(f"seat_lanes is {seat_lanes}, expected 1 to {MOST_SEAT_LANES}")
    return Entities(
        "registration",
        queues=(ORDERS,),
        containers=(MEMENTOS,),
        tables=(HOMES, AGENDA, *SLOTS, MODELS),
        bus=BusEntities(
            queues=(
                # First: Service Bus refuses to forward to a queue that is not there.
                BusQueue(DEAD, DeliveryRules(max_delivery_count=_MANY)),
                BusQueue(STARTS, _forwarding()),
                BusQueue(STARTS_IN_ORDER, _in_order()),
                BusQueue(TIMEOUTS, _hints(), duplicate_window=_DUPLICATES),
                # No duplicate detection here and below: a replay must pass. A message is known by its id and content, a
                # command by its generation.
                BusQueue(PAYMENTS, _forwarding()),
                BusQueue(CONFERENCES, _forwarding()),
                *(BusQueue(name, _in_order()) for name in seat_lane_names(seat_lanes)),
            ),
            topics=(
                Topic(ORDER_EVENTS, (Subscription(ORDERS_VIEW, (), _events()),), duplicate_window=_DUPLICATES),
                Topic(
                    SEATS_EVENTS,
                    (
                        Subscription(PROCESSES, (_true(SEATS_RESERVED), _true(RESERVATION_REFUSED)), _events()),
                        Subscription(CONFERENCES_VIEW, (), _events()),
                    ),
                    duplicate_window=_DUPLICATES,
                ),
            ),
        ),
    )


def _forwarding() -> DeliveryRules:
    return DeliveryRules(max_delivery_count=_MANY, forward_dead_letters=DEAD)


def _in_order() -> DeliveryRules:
    return DeliveryRules(max_delivery_count=_MANY, sessions=True, forward_dead_letters=DEAD)


def _hints() -> DeliveryRules:
    # The agenda is the truth. By the end of an hour the tick has read it many times.
    life = timedelta(hours=1)
    return DeliveryRules(max_delivery_count=_MANY, time_to_live=life, forward_dead_letters=DEAD)


def _events() -> DeliveryRules:
    # An event that no consumer took for two weeks is parked and not lost: views and processes may still need it.
    return DeliveryRules(
        max_delivery_count=_MANY,
        time_to_live=timedelta(days=14),
        dead_letter_expired=True,
        forward_dead_letters=DEAD,
    )


def _true(name: str) -> CorrelationFilter:
    return CorrelationFilter(MappingProxyType({name: True}))
