"""The bus of the listener tests: entities enough that no two tests share one."""

from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic

#: More than there are tests.
ENOUGH = 40
DELIVERIES = 3
#: Shorter than the service allows, so that a test sees a lock end or being renewed.
LOCK_SECONDS = 2.0


def bus() -> Namespace:
    """Return queues without and with sessions, and topics with one subscription of each kind."""
    plain, ordered = (
        DeliveryRules(max_delivery_count=DELIVERIES),
        DeliveryRules(max_delivery_count=DELIVERIES, sessions=True),
    )
    return Namespace(
        queues=(
            *(Queue(f"plain-{n}", plain) for n in range(ENOUGH)),
            *(Queue(f"ordered-{n}", ordered) for n in range(ENOUGH)),
        ),
        topics=tuple(
            Topic(f"topic-{n}", (Subscription("all", (), plain), Subscription("ordered", (), ordered)))
            for n in range(ENOUGH)
        ),
    )
