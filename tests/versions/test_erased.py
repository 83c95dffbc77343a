"""A job is erased on a storage where an instance of the last release works as well."""

from contextlib import suppress

from shared.ledger.records import JobState
from tests.faults.host import HIDDEN
from tests.faults.invariants import MARK
from tests.faults.marks import places_of
from tests.faults.world import sales
from tests.versions.driver import Driver
from tests.versions.loading import find_today
from tests.versions.mixture import Mixture

QUARTER = 15 * 60


def deliver(mixture, process, queue):
    """Have a process handle what is on a queue, and let what it fails at come again."""
    client = mixture.observer().queues.get_queue_client(queue)
    for message in list(client.receive_messages(max_messages=32, visibility_timeout=HIDDEN)):
        with suppress(Exception):
            process.deliver(queue, message.id, message.content.encode(), message.dequeue_count)
            client.delete_message(message)


def settle(mixture, process):
    """Have a process settle the results that are due."""
    found = mixture.bus.waiting("results", mixture.clock.now().timestamp())
    with suppress(Exception):
        process.settle([(one.body.encode(), one.id, one.deliveries, one.looks) for one in found])
        mixture.bus.complete(found)


def test_what_the_release_brings_back_is_removed_before_the_proof(release):
    """It knows neither the state nor the halt: it runs chunks, puts results off, and parks what it cannot read."""
    mixture = Mixture({"release": release, "today": (find_today, Driver)}, 1)
    before, today = (mixture._process(name, None) for name in ("release", "today"))
    name = MARK.decode()
    today.submit("gone", sales(*[name] * 8), gate=None, is_inline=True)
    deliver(mixture, today, "submissions")
    work = mixture.observer().queues.get_queue_client("work-00")
    (first, *_) = work.receive_messages(max_messages=1, visibility_timeout=HIDDEN)
    today.deliver("work-00", first.id, first.content.encode(), 1)
    work.delete_message(first)
    stores = today._stores
    stores.job_eraser.erase("gone", by="ann", why="request 4711")
    deliver(mixture, before, "work-00")
    for _ in range(30):
        settle(mixture, before)
        mixture._pass_time(40)
        deliver(mixture, before, "work-00")
    before.tick()
    assert stores.ledger.read("gone").state is JobState.ERASED
    for _ in range(8):
        mixture._pass_time(QUARTER)
        before.tick()
        settle(mixture, today)
        deliver(mixture, today, "work-00")
        today.tick()
    assert stores.ledger.read("gone").proof["found"] == 0
    for service in ("table", "blob", "queue"):
        assert list(places_of(MARK, mixture.storage.content(service))) == []
    mixture._end()
