"""The topology in parts: what an installation does not have is not in it, and what it has stands there once."""

from datetime import timedelta

import pytest

from shared.azure import Connections, Destination
from shared.messages import Permit
from shared.signals import BusPermits
from shared.topology import BusEntities, BusQueue, DeliveryRules, Entities, Subscription, Topic, rooms, topology
from tools.local.infra import entities

#: Of each kind one, as a capability beside the base would bring it.
ORDERS = Entities(
    "orders",
    queues=("orders",),
    containers=("homes",),
    tables=("views",),
    bus=BusEntities((BusQueue("agenda", DeliveryRules(sessions=True)),), (Topic("shipped", (Subscription("all"),)),)),
)


def test_a_part_stands_behind_the_base_and_its_triggered_queues_have_poison_queues():
    """Bicep names some entities by their place, so what is there keeps it."""
    base, whole = topology(2), topology(2, [rooms(["a"]), ORDERS])
    assert whole.queues == (
        *("submissions", "work-00", "work-01", "orders", "work-urgent", "wake", "submissions-a"),
        *("submissions-poison", "work-00-poison", "work-01-poison", "orders-poison"),
    )
    assert whole.containers == (*base.containers, "payloads-a", "homes")
    assert whole.tables == (*base.tables, "views")
    assert whole.bus.queues == (*base.bus.queues, *ORDERS.bus.queues)
    assert whole.bus.topics == (*base.bus.topics, *ORDERS.bus.topics)


def test_rooms_of_nobody_add_nothing():
    """An installation without rooms is one without the part."""
    assert topology(1, [rooms([])]) == topology(1)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (rooms(["a", "a"]), "queue 'submissions-a' is in the topology 2 times, by the entities of rooms, rooms"),
        (
            Entities("new", containers=("plans",)),
            "container 'plans' is in the topology 2 times, by the entities of base, new",
        ),
        (Entities("new", tables=("jobs",)), "table 'jobs' is in the topology 2 times, by the entities of base, new"),
        (Entities("new", bus=BusEntities((BusQueue("signals"),))), "bus entity 'signals' is in the topology 2 times"),
        (
            Entities("new", bus=BusEntities(topics=(Topic("results", ()),))),
            "bus entity 'results' is in the topology 2 times",
        ),
    ],
)
def test_an_entity_of_two_parts_is_refused(part, said):
    """Two capabilities that took the same name would take each other's messages; a topic cannot have a queue's name."""
    with pytest.raises(ValueError, match=said):
        topology(1, [part])


def test_dead_letters_are_forwarded_where_a_delivery_says_so_and_are_not_mentioned_elsewhere():
    """Off, the property is absent, so that what was deployed before stays as it is."""
    off = entities.delivery_properties(DeliveryRules(lock=timedelta(minutes=1)))
    on = entities.delivery_properties(DeliveryRules(lock=timedelta(minutes=1), forward_dead_letters="parked"))
    assert "forwardDeadLetteredMessagesTo" not in off
    assert on == {**off, "forwardDeadLetteredMessagesTo": "parked"}
    assert "forwardDeadLetteredMessagesTo" not in str(entities.document()["bus"])


class KeptSends:
    """In place of a sender of the bus: keeps where messages go, and how many."""

    def __init__(self):
        self.sent = []

    def send(self, to, messages, *, at=None):
        """Keep it."""
        self.sent.append((to, len(messages)))


def credits_of(to, messages):
    """Return the credits of the namespace that messages take: each is sent and received, and asked by each filter."""
    topics = [topic for topic in topology().bus.topics if (to.kind, to.name) == ("topic", topic.name)]
    filters = sum(len(one.filters) or 1 for topic in topics for one in topic.subscriptions)
    return messages * (2 + filters)


def test_a_permit_takes_two_credits_of_the_namespace():
    """It has 1,000 a second. By the topic of signals, 25 permits would take half of them."""
    send = BusPermits(Connections("UseDevelopmentStorage=true"))
    send._sender = kept = KeptSends()
    assert send([Permit(slot=slot) for slot in range(25)]) == 25
    assert sum(credits_of(to, messages) for to, messages in kept.sent) <= 50
    assert credits_of(Destination("topic", "signals"), 25) == 500
