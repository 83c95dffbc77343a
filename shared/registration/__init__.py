"""The worked example: orders for the seats of a conference. It stands on the machinery, and nothing imports it but the app.

Reading order:

- `bodies`, `stored_events`: every event
- `seat_commands`, `known_reservations`, `seats`, `selling`: a conference's seats, its commands, state and decisions
- `order`, `order_messages`, `order_turn`, `order_answers`, `order_process`: an order, and its process manager
- `access_codes`: the codes that open orders
- `public_fields`, `public_messages`: the public messages of customers, shops and banks
- `views`: the read models; `order_views` and `conference_views` read them; `unsettled` tells of payments
- `http` (pure) and `desk`: what customers ask and are answered
- `without_codes`, `shown`, `landed`, `parked_orders`: what fails for good
- `routes`, `order_flows`, `starts`, `skipped_commands`, `seat_flows`, `hearing`, `seat_check`, `verbs`: the flows
"""

from shared.registration.access_codes import CODE_LETTERS, AccessCodes
from shared.registration.bodies import ReservationRefused, SeatsReserved
from shared.registration.conference_views import ConferenceViews
from shared.registration.desk import ACCESS_CODE_HEADER, IDEMPOTENCY_KEY_HEADER, OrderDesk
from shared.registration.http import describe_order
from shared.registration.landed import Landed
from shared.registration.order import (
    AGGREGATE,
    OrderPhase,
    OrderState,
    fold_order,
    order_home,
)
from shared.registration.order_flows import OrderFlows
from shared.registration.order_messages import (
    Expire,
    NewOrder,
    Pay,
    PaymentOutcome,
    StartOrder,
    Update,
    incoming,
    read_reply,
)
from shared.registration.order_process import OrderProcess, believe_held, is_stuck
from shared.registration.order_turn import OrderProcessState, OrderStage
from shared.registration.order_views import OrderViews, read_number
from shared.registration.parked_orders import DeadLetter, ParkedOrders, claim_of
from shared.registration.price_list import PriceList
from shared.registration.public_messages import (
    Payment,
    PlaceOrder,
    UpdateOrder,
    content_hash,
    read_change,
    read_order_message,
    read_place_order,
)
from shared.registration.routes import (
    CONFERENCES_QUEUE,
    PAYMENTS_QUEUE,
    STARTS_QUEUE,
    TIMEOUTS_QUEUE,
    OrderRoutes,
    queue_of,
)
from shared.registration.seat_check import SeatCheck
from shared.registration.seat_commands import (
    AddSeats,
    CloseConference,
    RemoveSeats,
    SetConference,
    read_seat_command,
    seats_home,
    send_to,
)
from shared.registration.seat_flows import SeatFlows, decide_command
from shared.registration.seats import Seats, SeatsState, check_balance, overdue
from shared.registration.selling import Skip, decide, skip_reason
from shared.registration.shown import ShownModel
from shared.registration.skipped_commands import SkippedCommands
from shared.registration.starts import Starts
from shared.registration.stored_events import BODIES, PUBLIC
from shared.registration.story import tell_process, tell_seats
from shared.registration.unsettled import tell_unsettled
from shared.registration.verbs import Registration
from shared.registration.views import CONFERENCE_MODEL, ORDER_MODEL, READ_MODELS, state_of
from shared.registration.wrong_codes import WrongCodes

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
