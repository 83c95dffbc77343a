"""What a process is told by services that had enough, through the real client and its retries."""

import random

import pytest
from azure.core.exceptions import AzureError, HttpResponseError, ServiceResponseError
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest, RequestsTransport
from azure.storage.blob import ExponentialRetry

from shared.azure.connections import Connections
from shared.azure.pushback import BUS, LEAST, STORAGE, Pushback, RetryWaits, trying_once
from tests.concurrency.conftest import NOON
from tests.faults.transport import busy
from tests.gate.conftest import ManualClock


class Reply:
    """A reply as the transport returns it."""

    def __init__(self, status_code, **headers):
        self.status_code, self.headers = status_code, {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("reply", "is_told"),
    [
        (Reply(503), True),
        (Reply(429), True),
        (Reply(500, x_ms_error_code="OperationTimedOut"), True),
        (Reply(500, x_ms_error_code="InternalError"), False),
        (Reply(412), False),
        (Reply(200), False),
    ],
)
def test_which_replies_push_back(reply, is_told):
    """Busy and overloaded do; a lost race and a fault of the service do not."""
    pushback = Pushback(ManualClock(NOON))
    pushback.on_reply(reply)
    assert bool(pushback.governors()) is is_told


def test_retry_after_is_kept():
    """The service says how long nothing is to grow."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    pushback.on_reply(Reply(503, Retry_After="40"))
    clock.advance(seconds=39)
    assert pushback.limit(100, 100) == 50
    clock.advance(seconds=3)
    assert pushback.limit(100, 100) > 50


def test_the_bus_pushes_back_for_itself():
    """Storage is as fast as before."""
    pushback = Pushback(ManualClock(NOON))
    pushback.slow(BUS)
    assert list(pushback.governors()) == [BUS]
    assert (pushback.limit(100, 0, BUS), pushback.limit(100, 0)) == (50, 100)


def test_a_part_bears_no_more_than_its_whole_and_holds_back_no_other_part():
    """A slow queue slows its own senders; a slow namespace slows those of every queue."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    pushback.slow("bus/orders")
    clock.advance(seconds=5)
    pushback.slow("bus/orders")
    pushback.slow(STORAGE)
    limits = {name: pushback.limit(100, 0, name) for name in ("bus/orders", "bus/results", "bus", "storage")}
    assert limits == {"bus/orders": 25, "bus/results": 100, "bus": 100, "storage": 50}
    pushback.slow(BUS)
    limits = {name: pushback.limit(100, 0, name) for name in ("bus/orders", "bus/results", "bus", "storage")}
    assert limits == {"bus/orders": 25, "bus/results": 50, "bus": 50, "storage": 50}


def test_a_part_that_is_used_grows_beside_one_that_is_not():
    """Use of the one queue proves nothing about the other, but all of it about the namespace of both."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    for resource in ("bus", "bus/orders", "bus/results"):
        pushback.slow(resource)
    clock.advance(seconds=10)
    for _ in range(20):
        clock.advance(seconds=0.5)
        pushback.limit(100, 100, "bus/results")
        pushback.limit(100, 0, "bus/orders")
    shares = {name: governor.share for name, governor in pushback.governors().items()}
    assert shares == {"bus": 1.0, "bus/orders": 0.5, "bus/results": 1.0}


def test_nothing_grows_while_idle():
    """However long it takes: what is not used proves nothing."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    pushback.slow(STORAGE)
    for _ in range(100):
        clock.advance(seconds=60)
        assert pushback.limit(100, 0) == 50
    clock.advance(seconds=2.5)
    assert pushback.limit(100, 50) == 75


def test_what_is_used_at_any_moment_of_a_second_is_used():
    """Between two messages hardly anything is in work; that is no reason to stay slow."""
    clock = ManualClock(NOON)
    pushback = Pushback(clock)
    pushback.slow(STORAGE)
    clock.advance(seconds=11)
    for _ in range(100):
        clock.advance(seconds=0.1)
        pushback.limit(100, 100)
        pushback.limit(100, 0)
    assert pushback.limit(100, 0) == 100


class Busy(RequestsTransport):
    """Answers the first requests with 503."""

    left = 2

    def send(self, request, **options):
        """Send, and pretend that the service was busy."""
        response = super().send(request, **options)
        if Busy.left:
            Busy.left -= 1
            response.status_code = response.internal_response.status_code = 503
        return response


def test_a_busy_reply_is_seen_below_the_retries(provisioned):
    """The caller never hears of it: the library tries again, and the governor knows."""
    with Connections(provisioned.connection_string, transport=Busy) as connections:
        assert connections.queues.get_queue_client("work-00").get_queue_properties() is not None
        (governor,) = connections.pushback.governors().values()
    assert LEAST <= governor.share < 1
    assert governor.times == 1


class Refusing(RequestsTransport):
    """Answers everything with 503, or lets every connection break."""

    def __init__(self, **headers):
        super().__init__()
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def send(self, request, **options):
        """Send nothing."""
        if not self.headers:
            raise ServiceResponseError("the connection broke")
        return busy(request, self.headers)


def waits_of(service, jitter, **headers):
    """Return the waits of one request of a service that refuses it each time."""
    waits = []
    with Connections("UseDevelopmentStorage=true", transport=lambda: Refusing(**headers)) as connections:
        connections.waits = RetryWaits(0.2, jitter, waits.append)
        with pytest.raises(AzureError):
            ASKS[service](connections)
    return waits


ASKS = {
    "queues": lambda to: to.queues.get_queue_client("work-00").send_message("m"),
    "blobs": lambda to: to.blobs.get_blob_client("results", "r").upload_blob(b"r"),
    "tables": lambda to: to.tables.get_table_client("jobs").get_entity("p", "r"),
}


@pytest.mark.parametrize("service", ASKS)
@pytest.mark.parametrize("headers", [{"x_ms_error_code": "ServerBusy"}, {}], ids=["503", "no answer"])
def test_the_waits_between_tries_grow(service, headers):
    """Three more tries, each wait twice the one before: at most so long, and at least half of it."""
    assert waits_of(service, lambda: 1.0, **headers) == pytest.approx([0.2, 0.4, 0.8])
    assert waits_of(service, lambda: 0.0, **headers) == pytest.approx([0.1, 0.2, 0.4])


@pytest.mark.parametrize("service", ASKS)
def test_a_batch_tries_each_request_once(service):
    """Its lock ends before further tries would, and it comes again anyway."""
    with trying_once():
        assert waits_of(service, lambda: 1.0, x_ms_error_code="ServerBusy") == []
    assert len(waits_of(service, lambda: 1.0, x_ms_error_code="ServerBusy")) == 3


@pytest.mark.parametrize("service", ASKS)
def test_who_was_refused_together_does_not_return_together(service):
    """Twenty processes: each waits otherwise, and the later tries of all lie further apart."""
    found = [waits_of(service, random.Random(seed).random, x_ms_error_code="ServerBusy") for seed in range(20)]
    firsts, seconds, thirds = zip(*found, strict=True)
    assert len(set(firsts)) == 20
    assert max(firsts) <= min(seconds) < max(seconds) <= min(thirds)


@pytest.mark.parametrize("service", ASKS)
def test_nobody_comes_back_before_the_service_asks_for_it(service):
    """Retry-After is waited for, and what is random comes on top: else all would come back in that second."""
    assert waits_of(service, lambda: 1.0, Retry_After="3") == pytest.approx([3.2, 3.4, 3.8])


@pytest.mark.parametrize("service", ASKS)
def test_a_service_that_asks_for_longer_is_left_alone(service):
    """No thread sleeps for minutes: the message comes again, and the governor keeps to what was asked for."""
    assert waits_of(service, lambda: 1.0, Retry_After="6") == []


@pytest.mark.parametrize("service", ASKS)
@pytest.mark.parametrize("text", ["soon", "-3", "1e3", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_retry_after_that_is_no_number_of_seconds_is_none(service, text):
    """A proxy may send anything."""
    assert waits_of(service, lambda: 1.0, Retry_After=text) == pytest.approx([0.2, 0.4, 0.8])


def test_a_reply_that_broke_off_is_tried_again():
    """The library notes no such attempt, so nothing says when to come back."""
    slept = []
    policy = RetryWaits(1.0, lambda: 1.0, slept.append).apply(ExponentialRetry())
    request = HttpRequest("GET", "http://127.0.0.1")
    settings = policy.configure_retries(PipelineRequest(request, PipelineContext(None, retry_total=3)))
    assert policy.increment(settings, request=request, error=HttpResponseError("Connection broken"))
    policy.sleep(settings, None)
    assert slept == [1.0]
