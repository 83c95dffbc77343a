"""A hint after each drop: one request of HTTP, and no drop fails or waits long when the bus is away."""

import json
import os
import subprocess
import sys
import threading

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient
from requests import Request
from servicebus_local.tokens import Policy, Right

from shared import signals
from shared.azure import bus_post
from shared.azure.connections import Connections
from shared.publish import Publisher
from shared.signals import AT_ONCE, QUIET_SECONDS, GatheredHints, HttpHints
from shared.telemetry import events
from tests.azure.relay import Relay
from tests.dequeue.conftest import Shifted
from tests.forked import ForkedBroker
from tests.publish.test_published_by_others import examples
from tests.waiting import LIMIT, take, until
from tools.local.paths import ROOT

USAGE = [{"id": 1, "amount": "1"}]


@pytest.fixture(scope="module")
def bus():
    """A broker that no app listens to."""
    with ForkedBroker.start() as own:
        yield own


def hints_on(broker):
    """Take every hint from the broker and return the queues that they name."""
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    with client, client.get_queue_receiver("hints", receive_mode="receiveanddelete") as receiver:
        found = []
        while page := take(receiver):
            for one in page:
                assert b"".join(one.body) == b""
                found.append((one.application_properties or {}).get(b"queue", b"").decode())
        return found


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Let a busy machine take its time: what a hint waits for is no matter of these tests."""
    monkeypatch.setattr(bus_post, "PATIENCE", (LIMIT, LIMIT))


def test_each_drop_is_followed_by_a_hint_that_names_its_queue_over_one_connection(bus, provisioned):
    """Behind the drop, so that who looks finds it; there is nothing else in a hint that could be believed."""
    with Relay(bus) as relay, Connections(provisioned.connection_string, relay.connection_string) as connections:
        with Publisher.connect(connections) as publisher:
            sent = [publisher.submit(job=f"hinted-{n}", transactions=USAGE) for n in range(3)]
        assert relay.accepted == 1
        sends = [number for (kind, _), number in connections.meter.tally.counts().items() if kind.entity == "hints"]
    assert ([one.is_hinted for one in sent], sends) == ([True] * 3, [3])
    assert hints_on(bus) == ["submissions"] * 3


@pytest.mark.parametrize("has_bus", [True, False])
def test_a_publisher_without_a_bus_or_with_hints_off_sends_none(bus, provisioned, has_bus):
    """The drop is the same; nothing is told, for nothing is wrong."""
    with (
        Connections(provisioned.connection_string, bus.connection_string if has_bus else None) as connections,
        Publisher.connect(connections, hints=not has_bus) as publisher,
    ):
        assert publisher.submit(job="silent", transactions=USAGE).is_hinted is False
    assert hints_on(bus) == []


def test_a_dead_bus_fails_no_drop_and_is_told_once(provisioned, told):
    """Nobody listens at the address: each drop is in the queue, and only the first one tried the bus."""
    with ForkedBroker.start() as gone:
        address = gone.connection_string
    with (
        Connections(provisioned.connection_string, address) as connections,
        Publisher.connect(connections, "dead") as publisher,
    ):
        queue, payloads = connections.queues.create_queue("submissions-dead"), connections.blobs
        payloads.create_container("payloads-dead")
        sent = [publisher.submit(job=f"dead-{n}", transactions=USAGE) for n in range(20)]
        assert [one.is_hinted for one in sent] == [False] * 20
        assert len(queue.peek_messages(32)) == 20
    assert told(events.HINT_UNSENT) == [{"error": "ConnectionError"}]


def test_a_bus_that_hangs_holds_nobody_up_and_is_tried_again_later(bus, provisioned, told, monkeypatch):
    """A caller waits its time once; while it is quiet nobody asks, and afterwards a hint goes through again."""
    clock = Shifted()
    monkeypatch.setattr(bus_post, "PATIENCE", (LIMIT, 0.2))
    # From the name of the queue on, a connection hears nothing more from the broker until a second one sends it.
    with (
        Relay(bus, marker=b"hints", together=2) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        HttpHints(connections, now=clock.monotonic) as hint,
    ):
        assert [hint() for _ in range(10)] == [False] * 10
        assert (relay.accepted, told(events.HINT_UNSENT)) == (1, [{"error": "ReadTimeout"}])
        monkeypatch.setattr(bus_post, "PATIENCE", (LIMIT, LIMIT))
        clock.by += QUIET_SECONDS
        assert hint()
    assert set(hints_on(bus)) == {""}


def test_a_failure_after_a_success_is_told_again(bus, provisioned, told):
    """It is another outage."""
    clock = Shifted()
    with (
        Relay(bus) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        HttpHints(connections, now=clock.monotonic) as hint,
    ):
        for outage in (1, 2):
            assert hint()
            relay.refused = 2
            relay.cut()
            assert [hint(), hint()] == [False, False]
            assert len(told(events.HINT_UNSENT)) == outage
            clock.by += QUIET_SECONDS
    assert len(hints_on(bus)) == 2


def test_a_connection_that_broke_is_replaced(bus, provisioned):
    """One that was idle for too long is closed by the bus: the next hint goes over another one."""
    with (
        Relay(bus) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        HttpHints(connections) as hint,
    ):
        assert hint()
        relay.refused = 1
        relay.cut()
        assert hint()
    assert len(hints_on(bus)) == 2


def test_many_threads_may_send(bus, provisioned):
    """Each of them has a hint of its own behind its drop."""
    answers = []
    with (
        Connections(provisioned.connection_string, bus.connection_string) as connections,
        HttpHints(connections, "submissions-a") as hint,
    ):
        threads = [threading.Thread(target=lambda: answers.append(hint())) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [True] * 50
    assert hints_on(bus) == ["submissions-a"] * 50


@pytest.mark.parametrize(("right", "is_sent"), [(Right.SEND, True), (Right.LISTEN, False)])
def test_a_key_with_the_right_to_send_is_enough(provisioned, told, right, is_sent):
    """A publisher's own policy, of this queue alone; without the right the bus says no, and no key is logged."""
    policy = Policy("publisher", "a/key+of=the publisher", {right}, "hints")
    with (
        ForkedBroker.start(sas_policies=(policy,)) as guarded,
        Connections(provisioned.connection_string, guarded.connection_string_of(policy)) as connections,
        HttpHints(connections) as hint,
    ):
        assert hint() is is_sent
    refused = "SignalNotSentError: the bus answered 401, and takes a message by 201"
    assert told(events.HINT_UNSENT) == ([] if is_sent else [{"error": refused}])


class Counted:
    """Stands for the hints of a publisher, with the number of drops at each one."""

    def __init__(self):
        self.drops, self.sent, self.answer, self.is_closed = 0, [], True, False

    def __call__(self):
        """Send one."""
        self.sent.append(self.drops)
        return self.answer

    def close(self):
        """Note it."""
        self.is_closed = True


def drop(hints, counted, times):
    """Drop so often, and return what the hints said."""
    said = []
    for _ in range(times):
        counted.drops += 1
        said.append(hints())
    return said


def test_many_drops_in_a_second_share_a_hint_that_is_sent_behind_the_last_one(monkeypatch):
    """Each hint is an execution in the app: a publisher of 300 submissions a second starts few."""
    monkeypatch.setattr(signals, "GATHERED_FOR", LIMIT)
    counted, now = Counted(), [0.0]
    with GatheredHints(counted, now=lambda: now[0]) as hints:
        assert drop(hints, counted, AT_ONCE + 295) == [True] * 300
        assert counted.sent == [1, 2, 3, 4, 5]
    assert (counted.sent[AT_ONCE:], counted.is_closed) == ([300], True)


def test_drops_that_come_one_by_one_have_a_hint_each_at_once():
    """Whoever waits for one job must not wait for a quarter of a second."""
    counted, now = Counted(), [0.0]
    with GatheredHints(counted, now=lambda: now[0]) as hints:
        for _ in range(20):
            drop(hints, counted, 1)
            now[0] += 0.25
        assert counted.sent == list(range(1, 21))
    assert len(counted.sent) == 20


def test_a_hint_that_waits_is_sent_by_itself_and_a_failure_is_said_of_the_drops_behind_it(monkeypatch):
    """A publisher may live for days between two drops."""
    monkeypatch.setattr(signals, "GATHERED_FOR", 0.01)
    counted = Counted()
    with GatheredHints(counted, now=lambda: 0.0) as hints:
        drop(hints, counted, AT_ONCE)
        counted.answer = False
        drop(hints, counted, 1)
        until(lambda: len(counted.sent) == AT_ONCE + 1)
        assert drop(hints, counted, 1) == [False]


def test_a_signature_ends_in_an_hour_and_is_for_its_queue():
    """The signature is that of `openssl dgst -sha256 -hmac key` over the address and the end."""
    assert bus_post.sign("https://x/hints", "p q", "key", lambda: 1_000.9) == (
        "SharedAccessSignature sr=https%3A%2F%2Fx%2Fhints&sig=1cT%2FcC7fIeO64PhlLKAztDzmvwqj6gxPRG31i%2BDxeI0%3D&se=4600&skn=p+q"
    )


def test_a_login_shows_its_token(provisioned):
    """Of the bus, and over TLS alone."""
    asked = []

    class Login:
        def get_token(self, *scopes, **_):
            asked.append(scopes)
            return AccessToken("the-token", 0)

    with bus_post.post_by_login("ns.servicebus.windows.net", Login(), "hints") as post:
        prepared = post._session.prepare_request(Request("POST", post._address))
    assert (prepared.url, prepared.headers["Authorization"]) == (
        "https://ns.servicebus.windows.net/hints/messages",
        "Bearer the-token",
    )
    assert asked == [("https://servicebus.azure.net//.default",)]


def test_the_lines_of_the_page_drop_and_hint(bus, provisioned, tmp_path):
    """A program that has the settings of the `sluice` command needs no more."""
    (tmp_path / "usage.ndjson").write_text(f"{json.dumps({'account': 'a', 'plan': 'basic', 'quantity': '1'})}\n")
    settings = {"SluiceStorage": provisioned.connection_string, "SluiceBus": bus.connection_string}
    subprocess.run(
        [sys.executable, "-c", examples("python")[1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        check=True,
    )
    assert hints_on(bus) == ["submissions"]


def test_the_line_of_the_page_hints_from_any_language(bus, tmp_path):
    """One request, which a shell sends; `az` is the test's, and says what token it was to fetch."""
    az = tmp_path / "az"
    az.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\necho a-token\n')
    az.chmod(0o755)
    (line,) = [text for text in examples("sh") if "hints/messages" in text]
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "BUS": f"http://127.0.0.1:{bus.port}"}
    subprocess.run(["sh", "-euc", line], env=environment, check=True)
    assert hints_on(bus) == ["submissions"]
    assert "--resource https://servicebus.azure.net " in (tmp_path / "asked").read_text()
