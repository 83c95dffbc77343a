"""The bus of the listener tests: entities enough that no two tests share one."""

from shared.topology import Bus, BusQueue, Delivery, Subscription, Topic

#: More than there are tests.
ENOUGH = 40
DELIVERIES = 3
#: Shorter than the service allows, so that a test sees a lock end or being renewed.
LOCK_SECONDS = 2.0


def bus() -> Bus:
    """Return queues without and with sessions, and topics with one subscription of each kind."""
    plain, ordered = Delivery(max_delivery_count=DELIVERIES), Delivery(max_delivery_count=DELIVERIES, sessions=True)
    return Bus(
        queues=(
            *(BusQueue(f"plain-{n}", plain) for n in range(ENOUGH)),
            *(BusQueue(f"ordered-{n}", ordered) for n in range(ENOUGH)),
        ),
        topics=tuple(
            Topic(f"topic-{n}", (Subscription("all", (), plain), Subscription("ordered", (), ordered)))
            for n in range(ENOUGH)
        ),
    )
