"""The events of registration in logs and alerts, its metrics, and the needs that it notes."""

from logging import ERROR, WARNING
from typing import Final

from shared.telemetry import Alert, Instrument, LogEvent, Metric, Severity

CODES_TRIED: Final = LogEvent(
    name="sluice.codes.tried",
    level=WARNING,
    fields=("wrong", "seconds"),
    meaning="so many requests of a minute had a wrong access code, at one instance: a caller may be guessing codes",
    remedy="find the caller by the function keys in the requests of show_order, change_order and place_order, and renew "
    "that key; or among the parked messages of queue `orders`, and take its role away",
    alert=Alert(severity=Severity.WARNING),
)
SEATS_LATE: Final = LogEvent(
    name="sluice.seats.late",
    level=WARNING,
    fields=("late", "forgotten"),
    meaning="commands of orders came too late to change seats: reserves after their window, ends ten minutes after it",
    remedy="their orders expired without seats: search for errors of sell_seats, or allow more instances",
)
SEATS_OUT_OF_TURN: Final = LogEvent(
    name="sluice.seats.out_of_turn",
    level=WARNING,
    fields=("home", "commands", "after"),
    meaning="reserves waited a minute for the answer to the order before them on the roll, `after`, and were obeyed without it",
    remedy="`sluice processes show ORDER` for that order: its reserve was lost or parked; `sluice seats show CONFERENCE --why ORDER`",
)
SEATS_OVERDUE: Final = LogEvent(
    name="sluice.seats.overdue",
    level=WARNING,
    fields=("home", "reservations", "first"),
    meaning="reservations hold seats ten minutes after their window, because no end of them came; checked once an hour",
    remedy="`sluice processes show ORDER` for the first one: replay its command if that is parked; else find why it was not sent",
    alert=Alert(severity=Severity.WARNING),
)
SEATS_UNEVEN: Final = LogEvent(
    name="sluice.seats.uneven",
    level=ERROR,
    fields=("home", "types", "error"),
    meaning="the seats of a conference do not add up to its quota; checked once an hour",
    remedy="`sluice seats show CONFERENCE`: stop its sale by a gate, and report it; this is a defect of Sluice",
    alert=Alert(severity=Severity.ERROR),
)
ORDER_UNSETTLED: Final = LogEvent(
    name="sluice.order.unsettled",
    level=WARNING,
    fields=("home", "payment", "reason"),
    meaning="a payment confirmed nothing and is kept with its order; logged again if its event is delivered again",
    remedy="`sluice orders list --unsettled`: pay it back, or agree with the customer on another order",
    alert=Alert(severity=Severity.WARNING),
)
LETTERS_PARKED: Final = LogEvent(
    name="sluice.letters.parked",
    level=ERROR,
    fields=("letters", "entity"),
    meaning="the bus gave up on messages of registration, and they were parked; the entity is that of the first one",
    remedy="find in the log of that entity's function why its deliveries failed, then `sluice parked replay`",
    alert=Alert(severity=Severity.ERROR),
)
KEPT_ANSWERS: Final = Metric(
    name="sluice.seats.kept_answers",
    kind=Instrument.COUNTER,
    unit="{decision}",
    attributes=("outcome",),
    meaning="decisions by a kept answer about free seats that were checked with a fresh one (one of 20), by outcome: same, stale",
    remedy="many stale: seats go faster than the ladder of shared/readmodels/reader.py assumes; shorten its times",
)
SEATS_SKIPPED: Final = Metric(
    name="sluice.seats.skipped",
    kind=Instrument.COUNTER,
    unit="{command}",
    attributes=("why",),
    meaning="commands of orders that changed no seats: known (came twice, or was overtaken), late (a reserve after its window), forgotten (an end ten minutes after its window)",
    remedy="late or forgotten: the lanes of seat commands are behind; search for errors of sell_seats, or allow more instances",
)
ORDER_ANSWERS: Final = Metric(
    name="sluice.orders.answers",
    kind=Instrument.COUNTER,
    unit="{answer}",
    attributes=("outcome",),
    meaning="answers of seats to orders: the state that the order is in then, or the class of an answer that was skipped",
    remedy="many partially_reserved or rejected: orders were taken by kept answers about free seats; see sluice.seats.kept_answers",
)
WRONG_CODES: Final = Metric(
    name="sluice.codes.wrong",
    kind=Instrument.COUNTER,
    unit="{request}",
    meaning="requests with a wrong access code, for an order that is unknown, or for a new order whose id is taken",
    remedy="many in a minute: sluice.codes.tried has the alert",
)
#: The kinds of needs: those about the installation sort before those about jobs.
SEATS_UNEVEN_NEED: Final = "h-seats-uneven"
ORDER_STUCK_NEED: Final = "i-order-stuck"
SEATS_OVERDUE_NEED: Final = "j-seats-overdue"
ORDER_UNSETTLED_NEED: Final = "k-order-unsettled"
MIGRATION_STANDS_NEED: Final = "l-migration-stands"
EVENTS: Final = tuple(found for found in globals().values() if isinstance(found, LogEvent))
METRICS: Final = tuple(found for found in globals().values() if isinstance(found, Metric))
