"""The entities of the bus in which `sluice doctor --deep` works here, because the broker has no administration."""

from servicebus_local.entities import CorrelationFilter, DeliveryRules, Namespace, Queue, Subscription, Topic

from tools.conformance import COLOUR, LOCK, QUEUES, TOPICS, prepared


def doctors_entities() -> Namespace:
    """Return the queues and topics that its checks need."""
    return Namespace(
        tuple(
            Queue(
                prepared(one.name),
                DeliveryRules(lock=LOCK, max_delivery_count=one.max_deliveries, sessions=one.sessions),
                one.window,
            )
            for one in QUEUES
        ),
        tuple(
            Topic(
                prepared(one.name),
                tuple(
                    Subscription(name, (CorrelationFilter({COLOUR: passed}),), DeliveryRules(lock=LOCK))
                    for name, passed in one.passes.items()
                ),
            )
            for one in TOPICS
        ),
    )
