"""The answers of seats on their way to the processes of their orders."""

from collections.abc import Sequence

from shared.errors import DecisionFailedError, LaterFormatError, RefusedError
from shared.messaging import EventRange, decode_events
from shared.processes import Case, CaseOutcome, ReplyClass, Runtime
from shared.refusals import DeliveryReason, refuse
from shared.registration.order_messages import read_reply
from shared.registration.order_turn import OrderProcessState
from shared.registration.parked_orders import ParkedOrders
from shared.telemetry import Telemetry, metrics


def hear(
    runtime: Runtime[OrderProcessState], parked: ParkedOrders, telemetry: Telemetry, bodies: Sequence[bytes]
) -> None:
    """Give the answers in these messages to their processes. Raises the first error that another try may end."""
    answers, newer = _answers(bodies)
    handled = runtime.handle([case for _, case in answers])
    for (alone, _), outcome in zip(answers, handled.outcomes, strict=True):
        if (error := _why_parked(outcome)) is not None:
            parked.park_event(alone, error)
        elif outcome.error is not None:
            raise outcome.error
        if outcome.reply is not None:
            telemetry.add(metrics.ORDER_ANSWERS, outcome=_name(outcome.state, outcome.reply))
    if (error := handled.not_sent or newer) is not None:
        raise error


def _answers(bodies: Sequence[bytes]) -> tuple[list[tuple[EventRange, Case]], LaterFormatError | None]:
    """Return each answer with the one event that it is, and the error of one that a newer app wrote."""
    found: list[tuple[EventRange, Case]] = []
    newer = None
    for one in (one for body in bodies for one in decode_events(body)):
        for event in one.events:
            try:
                reply = read_reply(event)
            except LaterFormatError as error:
                newer = error
                continue
            if reply is not None:
                alone = EventRange(one.home, event.version, event.version, (event,))
                found.append((alone, Case(home=reply[0], message=reply[1])))
    return found, newer


def _name(state: OrderProcessState | None, reply: ReplyClass) -> str:
    order = state.order if state else None
    return order.phase.value if order and reply is ReplyClass.CURRENT else reply.value


def _why_parked(outcome: CaseOutcome[OrderProcessState]) -> Exception | None:
    """Return why no further try helps: its order sent no such command, or the process fails at the answer."""
    if outcome.reply is ReplyClass.UNEXPECTED:
        generation = outcome.case.message.generation
        found = f"home {outcome.case.home!r} never sent a command of generation {generation}"
        return refuse(DeliveryReason.UNEXPECTED_REPLY, found)
    return outcome.error if isinstance(outcome.error, DecisionFailedError | RefusedError) else None
