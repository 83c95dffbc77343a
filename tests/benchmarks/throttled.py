"""Events a second to a bus that refuses above a limit: by one transfer at a time, and by as many as are borne.

    python -m tests.benchmarks.throttled          (part of `make bench`; writes its table into docs/appendix/dequeue.md)

The local broker answers in a millisecond, so each transfer takes twenty here, as one to a namespace in Azure may. The
limit is the broker's, of messages in a second. Both processes take a sixth of a core there, so the limit is measured.
"""

import argparse
import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from servicebus_local.entities import Namespace, Subscription, Topic
from servicebus_local.launcher import Broker

from shared.azure import BusSender, Connections, Destination, Pushback
from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.clock import SystemClock
from shared.errors import NotPublishedError
from shared.processes import BusPublisher, Event, EventRange, event_parcels, shard_of
from shared.processes.publisher import MOST_TRANSFERS
from tests.benchmarks import document

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "dequeue.md"
#: Seconds of a transfer at least, and messages in a second that the bus takes.
TRANSFER, LIMIT = 0.02, 300
#: Streams that have an event at the same time, as the batches of some functions have.
STREAMS = 60
#: Seconds of each measurement, and rounds of which the median is taken.
SECONDS, ROUNDS = 15, 3
#: A stream whose event was refused sends it again after that.
AGAIN_AFTER = 0.1
#: Many transfers, governed, against one at a time in the same run; and their events in a second. The streams have less than
#: four events for each session, and each message is of one session: the limit allows some 1,060 events.
GOAL, EVENTS = 1.0, 990
TOPIC = Destination("topic", "events")


class Slow:
    """The way to the broker, by a network that takes its time."""

    def __init__(self, sender: BusSender) -> None:
        self._sender = sender

    def send(self, to, messages):
        """Send the messages."""
        time.sleep(TRANSFER)
        self._sender.send(to, messages)


class Counting(Pushback):
    """Counts the transfers that the bus was too busy for."""

    refused = 0

    def refuse(self, entity):
        """Slow down."""
        self.refused += 1
        super().refuse(entity)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure both by turns, print the table and write it into the page. Return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="throttled", description=__doc__)
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    options = parser.parse_args(list(arguments))
    found: dict[int, list[tuple[float, float]]] = {1: [], MOST_TRANSFERS: []}
    topic = Namespace((), (Topic(TOPIC.name, (Subscription("all"),)),))
    for most in [*found] * ROUNDS:
        # A broker of its own for each, so that no message of the one waits before the other.
        with Broker.start(topic, operations_per_second=LIMIT) as broker:
            found[most].append(measure(broker.connection_string, most))
    middle = {most: sorted(seen)[ROUNDS // 2] for most, seen in found.items()}
    names = {1: "1, always", MOST_TRANSFERS: f"{MOST_TRANSFERS}, and 1 from a refusal on (goal {EVENTS})"}
    rows = [f"| {names[most]} | {rate:,.0f} | {refused:.1f} |" for most, (rate, refused) in middle.items()]
    head = "| transfers at once | events/s | transfers refused per 1,000 events |\n| --- | --- | --- |"
    ratio = middle[MOST_TRANSFERS][0] / middle[1][0]
    table = "\n".join([head, *rows, f"| the second against the first, goal {GOAL:g}x | {ratio:.2f}x | |"])
    print(table)  # noqa: T201 - commands print
    if not options.dry:
        document.write(DOCUMENT, "throttled", table)
    # A twentieth is the difference between two runs of the same.
    is_slower, is_slow = ratio < GOAL - 0.05, middle[MOST_TRANSFERS][0] < EVENTS
    if is_slower:
        print(f"missed its goal: the second is {ratio:.2f}x of the first")  # noqa: T201 - commands print
    if is_slow:
        print(f"missed its goal: {middle[MOST_TRANSFERS][0]:,.0f} events/s instead of {EVENTS}")  # noqa: T201 - commands print
    return int(is_slower or is_slow)


def measure(bus: str, most: int) -> tuple[float, float]:
    """Return the events a second, and the transfers refused per thousand of them."""
    storage = "UseDevelopmentStorage=true"
    with (
        Connections.parse({STORAGE_CONNECTION: storage, BUS_CONNECTION: bus}) as connections,
        BusSender(connections, most=most) as sender,
    ):
        connections.pushback = pushback = Counting(SystemClock())
        publisher = BusPublisher(Slow(sender), pushback, most)
        _send_for(2, publisher)  # Opens the connections, and meets the limit.
        refused, sent = pushback.refused, _send_for(SECONDS, publisher)
        return sent / SECONDS, 1000 * (pushback.refused - refused) / max(sent, 1)


def _send_for(seconds, publisher):
    """Have every stream send its events, one after the other. Return how many were sent."""
    end, run = time.monotonic() + seconds, time.monotonic_ns()

    def stream(number):
        home = f"order-{run}-{number}"
        for version in itertools.count(1):
            event = Event("order_reserved", {"reserved": {"standard": 2}}, datetime.now(UTC), version=version)
            parcels = list(event_parcels(TOPIC, str(shard_of(home)), EventRange(home, version, version, (event,))))
            while True:
                if time.monotonic() >= end:
                    return version - 1
                try:
                    publisher.send(parcels)
                except NotPublishedError:
                    time.sleep(AGAIN_AFTER)
                else:
                    break
        raise AssertionError("versions do not end")

    with ThreadPoolExecutor(STREAMS) as pool:
        return sum(pool.map(stream, range(STREAMS)))


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
