"""Single transfers on proton links: read one in, send one out, answer one."""

from collections.abc import Callable
from typing import Any

from cproton import (
    PN_ACCEPTED,
    pn_delivery,
    pn_delivery_aborted,
    pn_delivery_partial,
    pn_delivery_pending,
    pn_delivery_readable,
    pn_delivery_settle,
    pn_delivery_update,
    pn_link_advance,
    pn_link_recv,
    pn_link_send,
)
from proton import Condition, Data, Delivery, symbol

from servicebus_local.refusal import Refusal

#: Proton's own view of a delivery, for the few that need more than an outcome.
wrapped: Callable[[Any], Any] = Delivery.wrap

#: The client reads an error's third field and does not check that it exists; proton leaves an empty one out.
_ORIGIN: Any = {symbol("answered-by"): "servicebus-local"}


def properties_of(values: Any) -> dict[str, bytes]:
    """Return a client's map of properties, each value encoded. No map has none, and a null says nothing."""
    encoded = {}
    for key, value in values.items() if isinstance(values, dict) else ():
        if value is None:
            continue
        data = Data()
        data.put_object(value)
        encoded[str(key)] = bytes(data.encode())
    return encoded


def received(link: Any, delivery: Any) -> bytes | None:
    """Return the whole of an incoming transfer. None while more of it is to come, or where it was called off."""
    if not pn_delivery_readable(delivery):
        return None
    if pn_delivery_aborted(delivery):
        pn_link_advance(link)
        pn_delivery_settle(delivery)
        return None
    if pn_delivery_partial(delivery):
        return None
    _, data = pn_link_recv(link, pn_delivery_pending(delivery))
    pn_link_advance(link)
    return bytes(data)


def send(link: Any, tag: str, encoded: bytes, *, settled: bool) -> None:
    """Send a message on a link that has credit."""
    delivery = pn_delivery(link, tag)
    pn_link_send(link, encoded)
    pn_link_advance(link)
    if settled:
        pn_delivery_settle(delivery)


def answer(delivery: Any, state: int = PN_ACCEPTED) -> None:
    """Settle a transfer with an outcome."""
    pn_delivery_update(delivery, state)
    pn_delivery_settle(delivery)


def refuse(delivery: Any, refusal: Refusal) -> None:
    """Settle a transfer as rejected, with the reason."""
    rejected = wrapped(delivery)
    rejected.local.condition = Condition(refusal.condition, refusal.description, _ORIGIN)
    rejected.update(Delivery.REJECTED)
    rejected.settle()
