"""The publisher: order inside a stream, streams in parallel, bundles where they meet, failures to their own callers."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus.exceptions import ServiceBusError

from shared.azure import BusSender, Connections, Destination, Pushback
from shared.azure.pushback import ALONE_FOR
from shared.clock import SystemClock
from shared.errors import NotPublishedError
from shared.processes import BusPublisher, Command, command_parcel, decode_commands, decode_events
from tests.gate.conftest import ManualClock
from tests.messaging.builders import NOON, QUEUE, TOPIC, KeptTransfers, body_of, command, events, ranges
from tests.waiting import LIMIT, until

STORAGE = "UseDevelopmentStorage=true"


@pytest.fixture
def sender():
    """Keeps the transfers."""
    return KeptTransfers()


@pytest.fixture
def pushback():
    """No service has pushed back."""
    return Pushback(SystemClock())


@pytest.fixture
def publisher(sender, pushback):
    """A publisher of 4 senders."""
    return BusPublisher(sender, pushback, most=4)


def all_ranges(sender):
    """Return the ranges of all messages in the order of the transfers."""
    return [
        found
        for to, messages in sender.transfers
        if to == TOPIC
        for message in messages
        for found in ranges(message.body)
    ]


def id_of(*parcels):
    """Return the id of the message of these parcels."""
    sender = KeptTransfers()
    BusPublisher(sender, Pushback(SystemClock())).send(parcels)
    ((_, (message,)),) = sender.transfers
    return message.id


def test_streams_of_one_session_share_a_message(publisher, sender):
    """Each stream has its own range, and the message says which kinds of events are in it."""
    publisher.send([*events("order-a", 1, 2), *events("order-b", 3, 3, kind="paid")])
    ((to, (message,)),) = sender.transfers
    assert to == TOPIC
    assert ranges(message.body) == [("order-a", 1, 2), ("order-b", 3, 3)]
    assert message.session == "0"
    assert message.properties == {"noted": True, "paid": True}
    assert [event.version for one in decode_events(message.body) for event in one.events] == [1, 2, 3]


def test_sessions_travel_in_one_transfer(publisher, sender):
    """A message has one session; a transfer takes messages of several."""
    publisher.send([*events("order-a", 1, 1, session="1"), *events("order-b", 1, 1, session="2")])
    ((_, messages),) = sender.transfers
    assert [message.session for message in messages] == ["1", "2"]


def test_commands_travel_in_bundles_of_98(publisher, sender):
    """As many as their receiver saves in one transaction; the session is the receiver."""
    publisher.send([command(n) for n in range(100)])
    ((to, messages),) = sender.transfers
    assert to == QUEUE
    assert [len(decode_commands(message.body)) for message in messages] == [98, 2]
    assert {message.session for message in messages} == {"seats-c1"}


def test_a_command_arrives_as_it_was(publisher, sender):
    """With its deadline, its generation and its attempt."""
    sent = Command(kind="reserve", to="seats-c1", body={"n": 1}, generation=3, not_after=NOON, id="c1", attempt=2)
    publisher.send([command_parcel(QUEUE, sent)])
    ((_, (message,)),) = sender.transfers
    assert decode_commands(message.body) == [sent]


def test_message_ids_are_equal_for_equal_parts_only():
    """The bus drops a second message of one id: so two bundles that differ in the middle must differ in it."""
    first, last = events("order-a", 1, 1), events("order-z", 1, 1)
    assert id_of(*first, *events("order-b", 1, 1), *last) == id_of(*first, *events("order-b", 1, 1), *last)
    assert id_of(*first, *events("order-b", 1, 1), *last) != id_of(*first, *events("order-c", 1, 1), *last)
    assert id_of(*first, *events("order-b", 1, 1), *last) != id_of(*first, *events("order-b", 1, 2), *last)
    assert id_of(command(1)) != id_of(command(1, attempt=2))


def test_no_message_is_larger_than_the_bus_takes(publisher, sender):
    """A long range is divided, and its parts have ranges of their own without a gap."""
    publisher.send(events("seats-c1", 1, 1000, size=900))
    assert all(sum(len(one.body) for one in messages) < 250_000 for _, messages in sender.transfers)
    found = all_ranges(sender)
    assert (found[0][1], found[-1][2]) == (1, 1000)
    assert all(after[1] == before[2] + 1 for before, after in itertools.pairwise(found))


def test_what_comes_during_a_transfer_gathers_behind_it(publisher, sender):
    """Ten callers wait for one transfer, and the next one takes them all."""
    sender.open.clear()
    with ThreadPoolExecutor(11) as pool:
        calls = [pool.submit(publisher.send, events("order-a", 1, 1))]
        assert sender.begun.wait(LIMIT)
        calls += [pool.submit(publisher.send, events(f"order-{n}", 1, 1)) for n in range(10)]
        until(lambda: len(publisher._channels[TOPIC, "0"].waiting) == 10)
        sender.open.set()
        for call in calls:
            call.result(LIMIT)
    assert [len(messages) for _, messages in sender.transfers] == [1, 1]
    assert len(all_ranges(sender)) == 11


def test_other_sessions_do_not_wait(publisher, sender):
    """At most as many transfers at once as there are senders."""
    sender.open.clear()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(publisher.send, events(f"order-{n}", 1, 1, session=str(n))) for n in range(8)]
        until(lambda: sender.most_at_once == 4)
        sender.open.set()
        for call in calls:
            call.result(LIMIT)
    assert sender.most_at_once == 4
    assert len(all_ranges(sender)) == 8


def test_order_inside_a_stream_by_many_threads(publisher, sender):
    """Twenty streams, each sent by one thread at a time, arrive in order."""

    def send_all(home, session):
        for version in range(1, 21):
            publisher.send(events(home, version, version, session=session))

    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(send_all, f"order-{n}", str(n % 4)) for n in range(20)]
        for call in calls:
            call.result(LIMIT)
    found = all_ranges(sender)
    for n in range(20):
        assert [first for home, first, _ in found if home == f"order-{n}"] == list(range(1, 21))


def test_a_failure_reaches_those_whose_parts_were_in_the_transfer(publisher, sender, pushback):
    """And lowers the number of transfers to that entity; another entity's parts of the same caller are sent."""
    sender.errors.append(ServiceBusError("gone"))
    with pytest.raises(NotPublishedError, match=r"order-a 1 1.*tick sends them"):
        publisher.send([*events("order-a", 1, 1), command(1)])
    assert [to for to, _ in sender.transfers] == [QUEUE]
    assert pushback.limit(4, 0, f"bus/{TOPIC.name}") == 3
    assert pushback.limit(4, 0, f"bus/{QUEUE.name}") == 4
    publisher.send(events("order-a", 1, 1))
    assert all_ranges(sender) == [("order-a", 1, 1)]


def test_an_entity_that_refuses_gets_one_transfer_at_a_time(sender):
    """Of eight sessions one goes, and the next transfer takes the seven that gathered. Other entities have all senders."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    publisher = BusPublisher(sender, pushback, most=4)
    pushback.refuse(TOPIC.name)
    assert publisher._count_transfers(QUEUE) == 2, "the namespace bears half"
    sender.open.clear()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(publisher.send, events("order-0", 1, 1, session="0"))]
        assert sender.begun.wait(LIMIT)
        calls += [pool.submit(publisher.send, events(f"order-{n}", 1, 1, session=str(n))) for n in range(1, 8)]
        until(lambda: len(publisher._channels) == 8)
        sender.open.set()
        for call in calls:
            call.result(LIMIT)
    assert (sender.most_at_once, [len(messages) for _, messages in sender.transfers]) == (1, [1, 7])
    clock.advance(seconds=ALONE_FOR - 1)
    assert publisher._count_transfers(TOPIC) == 1
    clock.advance(seconds=1)
    assert publisher._count_transfers(TOPIC) > 1


def test_an_error_that_nobody_expects_leaves_no_caller_waiting(publisher, sender):
    """It is raised where it happened. What waited behind it is sent."""
    sender.open.clear()
    sender.errors.append(KeyError("a defect"))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(publisher.send, events("order-a", 1, 1))
        assert sender.begun.wait(LIMIT)
        second = pool.submit(publisher.send, events("order-b", 1, 1))
        sender.open.set()
        with pytest.raises(KeyError):
            first.result(LIMIT)
        second.result(LIMIT)
    assert all_ranges(sender) == [("order-b", 1, 1)]


def test_nothing_is_kept_of_sessions_that_are_quiet(publisher):
    """A process sees many thousand receivers."""
    publisher.send([command(n, to=f"account-{n}") for n in range(50)])
    assert not publisher._channels


def test_bundles_and_sessions_over_the_real_broker(broker, fresh):
    """They arrive as they were sent, by the real client, where a filter by a mark passes them."""
    topic = Destination("topic", fresh("topic"))
    with Connections(STORAGE, broker.connection_string) as connections, BusSender(connections, most=2) as sender:
        publisher = BusPublisher(sender, connections.pushback, most=2)
        publisher.send(
            [
                part
                for n in range(30)
                for part in events(f"order-{n}", 1, 2, session=str(n % 3), topic=topic, kind="flag")
            ]
        )
        with connections.bus_client() as client, client.get_subscription_receiver(topic.name, "labelled") as receiver:
            received = receiver.receive_messages(10, max_wait_time=5)
    assert sorted(message.session_id for message in received) == ["0", "1", "2"]
    found = [found for message in received for found in ranges(body_of(message))]
    assert sorted(found) == sorted((f"order-{n}", 1, 2) for n in range(30))
