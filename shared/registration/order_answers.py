"""Answers, payments and the end of the window: the decisions of an order's process about them."""

from shared.processes import ProcessDecision, ReplyClass, Timeout
from shared.registration.bodies import (
    OrderPartiallyReserved,
    OrderReserved,
    PaymentReceived,
    PaymentRejected,
    ReservationRefused,
    SeatsReserved,
)
from shared.registration.order import NOTHING, OrderPhase, OrderState, calculate
from shared.registration.order_messages import EXPIRE, Pay, PaymentOutcome
from shared.registration.order_turn import OrderProcessState, OrderStage, OrderTurn


def classify(state: OrderProcessState, generation: int) -> ReplyClass:
    """Return how a reply of this generation relates to the last command."""
    if not 0 < generation <= state.generation:
        return ReplyClass.UNEXPECTED
    if generation < state.generation or state.stage is OrderStage.COMPLETED:
        return ReplyClass.DUPLICATE if generation == state.applied == state.generation else ReplyClass.STALE
    return ReplyClass.DUPLICATE if generation == state.applied else ReplyClass.CURRENT


def hear(turn: OrderTurn, body: SeatsReserved | ReservationRefused) -> ProcessDecision[OrderProcessState]:
    """Take an answer of the seats, if it is the one to the last command."""
    reply = classify(turn.state, turn.message.generation)
    if reply is ReplyClass.UNEXPECTED:
        return turn.end(reply)
    if reply is not ReplyClass.CURRENT:
        return turn.skip(reply)
    if isinstance(body, ReservationRefused):
        _end_refused(turn, body)
    else:
        _take(turn, body)
    return turn.end(reply)


def _end_refused(turn: OrderTurn, body: ReservationRefused) -> None:
    paid = turn.order.paid
    turn.apply(turn.state.stage)
    turn.reject(body.reason)
    # A reservation of before may hold seats still.
    turn.cancel()
    if paid:
        turn.unsettle(paid, "rejected")


def _take(turn: OrderTurn, body: SeatsReserved) -> None:
    """Take the seats that were granted: all, some, or no seat."""
    order, paid = turn.order, turn.order.paid
    granted = {name: number for name, number in body.granted.items() if number}
    is_first, is_all = turn.state.generation == 1, granted == order.requested
    turn.apply(OrderStage.RESERVED)
    if not granted and is_first and not paid:
        # Its generation is known there, and nothing is held: there is nothing to cancel.
        turn.reject("sold_out")
        return
    if is_all:
        turn.add(OrderReserved(granted))
    else:
        turn.add(OrderPartiallyReserved(granted))
        turn.add(calculate(granted, order.prices))
    is_exact = is_all and confirms(turn.order, paid)
    if paid and not is_exact:
        turn.unsettle(paid, "differs_from_reservation")
    if is_exact or (is_all and turn.order.total == NOTHING):
        turn.confirm()


def confirms(order: OrderState, payment: PaymentReceived | None) -> bool:
    """Check whether a payment pays the order: exactly the total of the seats that it has, of which there are some."""
    return payment is not None and bool(order.reserved) and payment.amount == order.total


def pay(turn: OrderTurn, body: Pay) -> None:
    """Confirm by a payment, keep it until the answer comes, or leave it to a person."""
    payment, order, stage = PaymentReceived(turn.message.id, body.amount), turn.order, turn.state.stage
    if body.outcome is PaymentOutcome.REJECTED:
        if order.phase is OrderPhase.CONFIRMED:
            turn.unsettle(payment, "rejected_after_confirmation")
        else:
            turn.add(PaymentRejected(payment.id))
    elif stage is OrderStage.AWAITING:
        turn.add(payment)
        turn.keep(OrderStage.PAID)
    elif stage is OrderStage.RESERVED and confirms(order, payment):
        turn.add(payment)
        turn.confirm()
    else:
        turn.unsettle(payment, _why_unsettled(turn.state))


def _why_unsettled(state: OrderProcessState) -> str:
    """Return why a payment confirms nothing, in one word."""
    if state.stage is OrderStage.COMPLETED and state.order is not None:
        return f"already_{state.order.phase.value}"
    return {
        OrderStage.NOT_STARTED: "held",
        OrderStage.PAID: "second_payment",
    }.get(state.stage, "amount_differs")


def expire(turn: OrderTurn) -> ProcessDecision[OrderProcessState]:
    """End the order, if this is the due time of today: its seats go back."""
    state, due = turn.state, turn.message.at
    if state.order is None or state.stage is OrderStage.COMPLETED or due != state.due:
        # The row is of an order that ended, or was never written, or starts again with a later one.
        turn.dropped.append(Timeout(EXPIRE, due))
        return turn.end(ReplyClass.STALE)
    if turn.now < due:
        return turn.end(ReplyClass.STALE)
    paid = turn.order.paid
    turn.expire()
    turn.cancel()
    if paid:
        turn.unsettle(paid, "expired")
    return turn.end(ReplyClass.CURRENT)
