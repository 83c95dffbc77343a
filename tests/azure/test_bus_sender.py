"""The pool of senders over the real client: in parallel, replaced when broken, bounded, on time."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from broker_tests.topology import bus as entities

from shared.azure import bus
from shared.azure.bus import FAILURES, IDLE_MOST, BusMessage, BusReceiver, BusSender, Destination
from shared.azure.connections import PAUSE, Connections
from shared.azure.meter import BUS, Cause
from shared.azure.pushback import RetryWaits
from shared.errors import SignalNotSentError
from shared.signals import BusSignals
from tests.azure.relay import Relay
from tests.forked import ForkedBroker
from tests.waiting import LIMIT, until

STORAGE = "UseDevelopmentStorage=true"
# The SDK forgets the socket of a connection that broke without closing it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("forgotten_sockets"),
]


@pytest.fixture
def relay(broker):
    """What every connection passes here."""
    with Relay(broker) as running:
        yield running


@pytest.fixture
def connections(relay):
    """Connections over the relay."""
    with Connections(STORAGE, relay.connection_string) as made:
        yield made


@pytest.fixture
def to(fresh):
    """A queue of the test's own."""
    return Destination("bus", fresh("plain"))


#: Connections that the library tries for one operation.
TRIES = 2


def message(text="x"):
    """Return a message."""
    return BusMessage(body=text.encode())


def texts(broker, count, *path):
    """Take so many messages, and any that are too many, and return them in order."""
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    make = client.get_queue_receiver if len(path) == 1 else client.get_subscription_receiver
    with client, make(*path, receive_mode="receiveanddelete") as receiver:
        found = []
        while page := receiver.receive_messages(1000, max_wait_time=5 if len(found) < count else 0.3):
            found += [str(one) for one in page]
        return found


def counted(connections):
    """Return the sends of this process by entity and cause."""
    return {(one.kind.entity, one.cause): number for one, number in connections.meter.tally.counts().items()}


def test_a_list_arrives_as_it_was_given(broker, relay, connections, to):
    """One transfer, in order, counted by message, on one connection, however many sends there are."""
    with BusSender(connections) as sender:
        sender.send(to, [message(f"a{n}") for n in range(3)])
        sender.send(to, [message("b")])
    assert texts(broker, 4, to.name) == ["a0", "a1", "a2", "b"]
    assert counted(connections) == {(to.name, Cause.USEFUL): 4}
    assert relay.accepted == 1


def test_a_connection_is_opened_ahead_of_the_first_message(broker, relay, connections, to):
    """Once, and the message finds it."""
    with BusSender(connections) as sender:
        sender.connect(to)
        sender.connect(to)
        assert (relay.accepted, counted(connections)) == (1, {})
        sender.send(to, [message()])
        assert relay.accepted == 1
    assert texts(broker, 1, to.name) == ["x"]


def test_a_connection_that_cannot_be_opened_ahead_is_opened_by_the_first_message(broker, relay, connections, to):
    """The failure is the caller's to know of."""
    with BusSender(connections, attempts=1) as sender:
        relay.refused = TRIES
        with pytest.raises(FAILURES):
            sender.connect(to)
        sender.send(to, [message()])
    assert texts(broker, 1, to.name) == ["x"]


def test_a_topic_is_a_destination_like_a_queue(broker, connections, fresh):
    """Each has senders of its own, and one sender serves both."""
    topic, queue = Destination("topic", fresh("topic")), Destination("bus", fresh("plain"))
    with BusSender(connections) as sender:
        for to in (topic, queue, topic):
            sender.send(to, [message(to.kind)])
    assert texts(broker, 2, topic.name, "everything") == ["topic", "topic"]
    assert texts(broker, 1, queue.name) == ["bus"]


def test_a_locked_message_is_there_until_it_is_completed(broker, connections, fresh):
    """Also one without bytes, as a stranger's library may send it: an error of it would bring it again and again."""
    topic = fresh("topic")
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    with client, client.get_topic_sender(topic) as sender:
        sender.send_messages(AmqpAnnotatedMessage(value_body=7))
        with client.get_subscription_receiver(topic, "everything") as looker:
            for is_completed in (False, True):
                with BusReceiver(connections, topic, "everything", locked_for=60) as receiver:
                    (found,) = receiver.receive(5, LIMIT)
                    assert (found.body, found.subject) == (b"", None)
                    if is_completed:
                        receiver.complete()
                    else:
                        # At once: its lock would end in a minute.
                        receiver._receiver.abandon_message(receiver._locked[0])
            assert looker.peek_messages(1) == []


@pytest.mark.parametrize("kind", ["queue", "call"])
def test_what_is_not_on_the_bus_is_refused(connections, kind):
    """A mistake of the code is no failure of the bus, which callers would try again."""
    with BusSender(connections) as sender, pytest.raises(TypeError, match=f"{kind} 'dispatch' is not on the bus") as no:
        sender.send(Destination(kind, "dispatch"), [message()])
    assert not isinstance(no.value, FAILURES)


@pytest.mark.parametrize("most", [1, 4])
def test_many_threads_send_each_message_once(broker, relay, connections, to, most):
    """The library's senders bear no sharing; and never are there more connections than allowed."""
    with BusSender(connections, most=most) as sender, ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: sender.send(to, [message(str(n))]), range(200)))
    assert Counter(texts(broker, 200, to.name)) == Counter(map(str, range(200)))
    assert counted(connections) == {(to.name, Cause.USEFUL): 200}
    assert 1 <= relay.accepted <= most
    if most == 1:
        assert relay.accepted == 1


def test_senders_send_in_parallel(broker, to):
    """Nobody hears that a message was taken before four are at the broker: one after the other would wait without end."""
    with (
        Relay(broker, together=4) as relay,
        Connections(STORAGE, relay.connection_string) as connections,
        BusSender(connections, most=4) as sender,
        ThreadPoolExecutor(4) as pool,
    ):
        for task in [pool.submit(sender.send, to, [message(f"held {n}")]) for n in range(4)]:
            task.result(LIMIT)
    assert (relay.marked, relay.accepted) == (4, 4)
    assert sorted(texts(broker, 4, to.name)) == [f"held {n}" for n in range(4)]


def test_one_thread_needs_one_of_many(relay, connections, to):
    """A large pool costs a quiet process nothing."""
    with BusSender(connections, most=16) as sender:
        for _ in range(20):
            sender.send(to, [message()])
    assert relay.accepted == 1


def broken(relay, sender, to):
    """Send, and break the connection so that the library's own second try fails too."""
    sender.send(to, [message("before")])
    relay.refused = 1
    relay.cut()


def test_a_sender_that_the_bus_has_broken_is_replaced(broker, relay, connections, to):
    """The next message goes over another connection, and is counted as sent again."""
    with BusSender(connections) as sender:
        broken(relay, sender, to)
        sender.send(to, [message("after")])
    assert texts(broker, 2, to.name) == ["before", "after"]
    assert counted(connections) == {(to.name, Cause.USEFUL): 2, (to.name, Cause.RETRY): 1}


def test_with_one_attempt_a_broken_connection_is_replaced_once(broker, relay, connections, to):
    """What is tried again by other means is not tried twice on new connections; the next send goes through."""
    with BusSender(connections, attempts=1) as sender:
        broken(relay, sender, to)
        # The library's own second try on the broken sender, and the one new sender.
        relay.refused = 1 + TRIES
        with pytest.raises(FAILURES):
            sender.send(to, [message("lost")])
        assert relay.refused == 0
        sender.send(to, [message("after")])
        relay.cut()
        sender.send(to, [message("at last")])
    assert texts(broker, 3, to.name) == ["before", "after", "at last"]


def test_a_sender_that_the_library_has_closed_is_replaced(broker, connections, to):
    """It raises ValueError then, which is no mistake of the caller's."""
    with BusSender(connections) as sender:
        sender.send(to, [message("before")])
        with sender._take(to) as kept:
            kept._open[1].close()
        sender.send(to, [message("after")])
    assert texts(broker, 2, to.name) == ["before", "after"]


@pytest.mark.parametrize("sizes", [[300_000], [200_000, 100_000]])
def test_above_the_limit_nothing_is_sent_and_the_sender_stays(broker, relay, connections, to, sizes):
    """Not tried again, since it is as large the second time; and the connection is none that is broken."""
    with BusSender(connections) as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send(to, [BusMessage(body=b"x" * size) for size in sizes])
        sender.send(to, [message("small")])
    assert texts(broker, 1, to.name) == ["small"]
    assert relay.accepted == 1
    assert counted(connections) == {(to.name, Cause.USEFUL): len(sizes) + 1}


def test_a_bus_that_is_busy_pushes_back_and_one_that_is_away_does_not(relay, connections, to):
    """What is busy bears fewer senders from then on. Its connection is good, and is kept for a second attempt."""
    with BusSender(connections, attempts=1) as sender:
        relay.refused = TRIES
        with pytest.raises(FAILURES):
            sender.send(to, [message()])
    assert connections.pushback.governors() == {}
    with (
        ForkedBroker.start(entities(2, 0), operations_per_second=1) as broker,
        Relay(broker) as way,
        Connections(STORAGE, way.connection_string) as throttled,
        BusSender(throttled) as sender,
    ):
        pauses = []
        throttled.waits = RetryWaits(PAUSE, sleep=pauses.append)

        def is_slowed():
            with suppress(*FAILURES):
                sender.send(Destination("bus", "plain-00"), [message()])
            return list(throttled.pushback.governors()) == [BUS]

        until(is_slowed)
        assert way.accepted == 1
        assert len(pauses) == 1
        assert [throttled.pushback.is_alone(f"plain-0{n}") for n in range(2)] == [True, False]


def test_a_scheduled_list_is_kept_back_until_then(broker, connections, to):
    """It arrives behind one that was sent later, by the bus's clock."""
    at = datetime.now(UTC) + timedelta(seconds=1)
    with BusSender(connections) as sender:
        sender.send(to, [message("later 1"), message("later 2")], at=at)
        sender.send(to, [message("now")])
    assert texts(broker, 3, to.name) == ["now", "later 1", "later 2"]
    assert datetime.now(UTC) >= at


def test_a_closed_sender_opens_again(broker, relay, connections, to):
    """Closed by the end of `with`, no connection stays open; closing twice is harmless."""
    sender = BusSender(connections, most=3)
    sender.close()
    with sender:
        sender.send(to, [message("a")])
    sender.close()
    with sender:
        sender.send(to, [message("b")])
    assert texts(broker, 2, to.name) == ["a", "b"]
    assert relay.accepted == 2


class Moving:
    """A clock that a test moves."""

    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        """Return what it shows."""
        return self.at


def test_an_idle_connection_is_replaced_before_the_bus_detaches_it(broker, relay, connections, to):
    """The next message finds the new one; one that was used lately stays."""
    now = Moving()
    with BusSender(connections, now=now) as sender:
        sender.send(to, [message("a")])
        now.at += IDLE_MOST - 1
        sender.renew()
        assert relay.accepted == 1
        now.at += 1
        sender.renew()
        assert relay.accepted == 2
        sender.send(to, [message("b")])
        sender.renew()
        assert relay.accepted == 2
    assert texts(broker, 2, to.name) == ["a", "b"]


def test_an_idle_connection_that_cannot_be_replaced_is_kept(broker, relay, connections, to):
    """Perhaps it still works; the next look tries again."""
    now = Moving()
    with BusSender(connections, now=now) as sender:
        sender.send(to, [message("a")])
        now.at += IDLE_MOST
        relay.refused = TRIES
        sender.renew()
        sender.send(to, [message("b")])
        assert (relay.accepted, relay.refused) == (1, 0)
    assert texts(broker, 2, to.name) == ["a", "b"]


def test_a_connection_that_nothing_could_replace_in_time_is_not_used(broker, relay, connections, to):
    """The process stood still for ten minutes: the message goes over a new one at once, not over a dead one first."""
    now = Moving()
    with BusSender(connections, now=now) as sender:
        sender.send(to, [message("a")])
        now.at += 600
        sender.send(to, [message("b")])
        assert relay.accepted == 2
    assert texts(broker, 2, to.name) == ["a", "b"]
    assert counted(connections) == {(to.name, Cause.USEFUL): 2}


def test_a_process_looks_after_its_idle_connections_by_itself(relay, connections, to, monkeypatch):
    """Until the sender is closed; one that sends again after that is looked after again."""
    monkeypatch.setattr(bus, "_LOOK_EVERY", 0.01)
    now = Moving()
    with BusSender(connections, now=now) as sender:
        for accepted in (1, 3):
            sender.send(to, [message()])
            assert relay.accepted == accepted
            now.at += IDLE_MOST
            until(lambda expected=accepted + 1: relay.accepted == expected)
            sender.close()


def test_signals_leave_on_the_connection_that_was_opened_ahead(relay, connections, to, monkeypatch):
    """A bus that refuses it makes the signal fail at once; the next opening connects again."""
    monkeypatch.setattr("shared.signals._SIGNALS", to)
    with BusSignals(connections) as signals:
        relay.refused = TRIES
        signals.connect(60)
        with pytest.raises(SignalNotSentError):
            signals.send("a-gate", 1)
        assert (relay.refused, relay.accepted) == (0, 0)
        signals.connect(60)
        assert relay.accepted == 1
        signals.send("a-gate", 1)
        assert relay.accepted == 1
