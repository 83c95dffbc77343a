"""The worked example: orders for the seats of a conference. It stands on the machinery, and nothing imports it but the app.

Reading order:

- `order`: every event, and what an order is
- `order_messages`, `order_process`: the messages to an order's process and to seats, and the process manager
- `seats`, `selling`: a conference's seats, their state and decisions
- `access_codes`: the codes that open orders
- `public_messages`: the public messages of customers, shops and banks, and the queue of each kind
- `views`: the read models; `conference_views` reads them, for orders too
- `http` (pure) and `desk`: what customers ask and are answered
- `parked_orders`: what fails for good
- `order_flows`, `seat_flows`, `verbs`: the flows; `story` tells a person what became of an order
"""

from shared.registration.access_codes import CODE_LETTERS, AccessCodes, WrongCodes
from shared.registration.conference_views import ConferenceViews, OrderViews, PriceList, read_number
from shared.registration.desk import ACCESS_CODE_HEADER, IDEMPOTENCY_KEY_HEADER, OrderDesk
from shared.registration.http import describe_order
from shared.registration.order import (
    AGGREGATE,
    BODIES,
    PUBLIC,
    OrderPhase,
    OrderState,
    ReservationRefused,
    SeatsReserved,
    fold_order,
    order_home,
)
from shared.registration.order_flows import OrderFlows, Starts
from shared.registration.order_messages import (
    AddSeats,
    CloseConference,
    Expire,
    NewOrder,
    Pay,
    PaymentOutcome,
    RemoveSeats,
    SetConference,
    StartOrder,
    Update,
    incoming,
    read_reply,
    read_seat_command,
    seats_home,
    send_to,
)
from shared.registration.order_process import OrderProcess, OrderProcessState, OrderStage, believe_held, is_stuck
from shared.registration.parked_orders import DeadLetter, Landed, ParkedOrders, claim_of
from shared.registration.public_messages import (
    CONFERENCES_QUEUE,
    PAYMENTS_QUEUE,
    STARTS_QUEUE,
    TIMEOUTS_QUEUE,
    OrderRoutes,
    Payment,
    PlaceOrder,
    UpdateOrder,
    content_hash,
    queue_of,
    read_change,
    read_order_message,
    read_place_order,
)
from shared.registration.seat_flows import SeatCheck, SeatFlows, SkippedCommands, decide_command
from shared.registration.seats import Seats, SeatsState, check_balance, overdue
from shared.registration.selling import Skip, decide, skip_reason
from shared.registration.story import tell_process, tell_seats
from shared.registration.verbs import Registration
from shared.registration.views import CONFERENCE_MODEL, ORDER_MODEL, READ_MODELS, ShownModel, state_of, tell_unsettled

__all__ = [
    "ACCESS_CODE_HEADER",
    "AGGREGATE",
    "BODIES",
    "CODE_LETTERS",
    "CONFERENCES_QUEUE",
    "CONFERENCE_MODEL",
    "IDEMPOTENCY_KEY_HEADER",
    "ORDER_MODEL",
    "PAYMENTS_QUEUE",
    "PUBLIC",
    "READ_MODELS",
    "STARTS_QUEUE",
    "TIMEOUTS_QUEUE",
    "AccessCodes",
    "AddSeats",
    "CloseConference",
    "ConferenceViews",
    "DeadLetter",
    "Expire",
    "Landed",
    "NewOrder",
    "OrderDesk",
    "OrderFlows",
    "OrderPhase",
    "OrderProcess",
    "OrderProcessState",
    "OrderRoutes",
    "OrderStage",
    "OrderState",
    "OrderViews",
    "ParkedOrders",
    "Pay",
    "Payment",
    "PaymentOutcome",
    "PlaceOrder",
    "PriceList",
    "Registration",
    "RemoveSeats",
    "ReservationRefused",
    "SeatCheck",
    "SeatFlows",
    "Seats",
    "SeatsReserved",
    "SeatsState",
    "SetConference",
    "ShownModel",
    "Skip",
    "SkippedCommands",
    "StartOrder",
    "Starts",
    "Update",
    "UpdateOrder",
    "WrongCodes",
    "believe_held",
    "check_balance",
    "claim_of",
    "content_hash",
    "decide",
    "decide_command",
    "describe_order",
    "fold_order",
    "incoming",
    "is_stuck",
    "order_home",
    "overdue",
    "queue_of",
    "read_change",
    "read_number",
    "read_order_message",
    "read_place_order",
    "read_reply",
    "read_seat_command",
    "seats_home",
    "send_to",
    "skip_reason",
    "state_of",
    "tell_process",
    "tell_seats",
    "tell_unsettled",
]
