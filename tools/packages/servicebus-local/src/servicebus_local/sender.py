"""The links on which clients send."""

import time
from typing import Any

from cproton import pn_link_credit, pn_link_flow

from servicebus_local.amend import identified
from servicebus_local.intake import Intake
from servicebus_local.parcel import parcels_from
from servicebus_local.refusal import DECODE_ERROR, TOO_LARGE, Refusal
from servicebus_local.transfer import answer, received, refuse
from servicebus_local.wire import UNREADABLE

#: What the Standard tier takes, for one message as for a batch, properties included.
LARGEST_MESSAGE = 256 * 1024
#: How many messages a client may send ahead of the answers.
_CREDIT = 1000


class Producer:
    """A client's sending link into a queue or a topic."""

    def __init__(self, link: Any, intake: Intake) -> None:
        self._link = link
        self._intake = intake
        pn_link_flow(link, _CREDIT)

    def on_flow(self) -> None:
        """Nothing: credit goes the other way."""

    def on_gone(self) -> None:
        """Nothing is held for a sender."""

    def on_delivery(self, delivery: Any) -> None:
        """Take a message or a batch in, whole or not at all."""
        encoded = received(self._link, delivery)
        if encoded is None:
            return
        try:
            take(self._intake, encoded)
        except Refusal as refusal:
            refuse(delivery, refusal)
        else:
            answer(delivery)
        if pn_link_credit(self._link) < _CREDIT // 2:
            pn_link_flow(self._link, _CREDIT // 2)


def take(intake: Intake, encoded: bytes) -> None:
    """Take a message or a batch in, or refuse it as a whole."""
    if len(encoded) > LARGEST_MESSAGE:
        raise Refusal(
            TOO_LARGE, f"a message or batch of {len(encoded)} bytes for {intake.name} is over {LARGEST_MESSAGE}"
        )
    try:
        parcels = [identified(parcel) for parcel in parcels_from(encoded)]
    except UNREADABLE as error:
        raise Refusal(DECODE_ERROR, f"a message for {intake.name} cannot be read: {error}") from error
    now = time.time()
    if intake.allowance is not None:
        intake.allowance.demand(now, len(parcels))
    for parcel in parcels:
        intake.check(parcel)
    for parcel in parcels:
        intake.accept(parcel, now)
