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

from shared.registration.access_codes import (
    CODE_LETTERS as CODE_LETTERS,
    AccessCodes as AccessCodes,
    WrongCodes as WrongCodes,
)
from shared.registration.conference_views import (
    ConferenceViews as ConferenceViews,
    OrderViews as OrderViews,
    PriceList as PriceList,
    read_number as read_number,
)
from shared.registration.desk import (
    ACCESS_CODE_HEADER as ACCESS_CODE_HEADER,
    IDEMPOTENCY_KEY_HEADER as IDEMPOTENCY_KEY_HEADER,
    OrderDesk as OrderDesk,
)
from shared.registration.http import describe_order as describe_order
from shared.registration.order import (
    AGGREGATE as AGGREGATE,
    BODIES as BODIES,
    PUBLIC as PUBLIC,
    OrderPhase as OrderPhase,
    OrderState as OrderState,
    ReservationRefused as ReservationRefused,
    SeatsReserved as SeatsReserved,
    fold_order as fold_order,
    order_home as order_home,
)
from shared.registration.order_flows import OrderFlows as OrderFlows, Starts as Starts
from shared.registration.order_messages import (
    AddSeats as AddSeats,
    CloseConference as CloseConference,
    Expire as Expire,
    NewOrder as NewOrder,
    Pay as Pay,
    PaymentOutcome as PaymentOutcome,
    RemoveSeats as RemoveSeats,
    SetConference as SetConference,
    StartOrder as StartOrder,
    Update as Update,
    incoming as incoming,
    read_reply as read_reply,
    read_seat_command as read_seat_command,
    seats_home as seats_home,
    send_to as send_to,
)
from shared.registration.order_process import (
    OrderProcess as OrderProcess,
    OrderProcessState as OrderProcessState,
    OrderStage as OrderStage,
    believe_held as believe_held,
    is_stuck as is_stuck,
)
from shared.registration.parked_orders import (
    DeadLetter as DeadLetter,
    Landed as Landed,
    ParkedOrders as ParkedOrders,
    claim_of as claim_of,
)
from shared.registration.public_messages import (
    CONFERENCES_QUEUE as CONFERENCES_QUEUE,
    PAYMENTS_QUEUE as PAYMENTS_QUEUE,
    STARTS_QUEUE as STARTS_QUEUE,
    TIMEOUTS_QUEUE as TIMEOUTS_QUEUE,
    OrderRoutes as OrderRoutes,
    Payment as Payment,
    PlaceOrder as PlaceOrder,
    UpdateOrder as UpdateOrder,
    content_hash as content_hash,
    queue_of as queue_of,
    read_change as read_change,
    read_order_message as read_order_message,
    read_place_order as read_place_order,
)
from shared.registration.seat_flows import (
    SeatCheck as SeatCheck,
    SeatFlows as SeatFlows,
    SkippedCommands as SkippedCommands,
    decide_command as decide_command,
)
from shared.registration.seats import (
    Seats as Seats,
    SeatsState as SeatsState,
    check_balance as check_balance,
    overdue as overdue,
)
from shared.registration.selling import Skip as Skip, decide as decide, skip_reason as skip_reason
from shared.registration.story import tell_process as tell_process, tell_seats as tell_seats
from shared.registration.verbs import Registration as Registration
from shared.registration.views import (
    CONFERENCE_MODEL as CONFERENCE_MODEL,
    ORDER_MODEL as ORDER_MODEL,
    READ_MODELS as READ_MODELS,
    ShownModel as ShownModel,
    state_of as state_of,
    tell_unsettled as tell_unsettled,
)
