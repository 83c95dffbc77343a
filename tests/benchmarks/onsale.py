"""Many orders for few seats behind one gate, released at once, while processes that work are killed.

`make bench ARGS="--only onsale -- --orders 5000 --seats 1000"` prints the table, puts it into docs/appendix/registration.md, and
fails when a promise is broken. Orders enter by the queue `orders`, with ids against their arrival. What became of them is added
up from the events and the answers that anybody may read, by a checker that shares no code with the app. Their order is
compared with the roll of the gate. With `--workers 2 --kills 0` nothing is killed, and no order may get the seats of one with an earlier place.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from azure.core.exceptions import AzureError
from servicebus_local.launcher import Broker

from capabilities.registration import http
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.order_messages import seats_home
from capabilities.registration.public_messages import CONFERENCES_QUEUE
from capabilities.registration.roll_check import RollOutcome, check_roll, first_answers, tell_place
from capabilities.registration.views import ORDER_MODEL
from shared.app import Stores
from shared.azure import BusMessage, BusSender
from shared.azure.connections import Connections
from shared.errors import StorageUnavailableError
from shared.settings import Settings
from shared.topology import SLOTS, topology
from tests.benchmarks.document import write
from tests.benchmarks.fleet import Fleet, fleet
from tests.outside import seat_checker
from tests.outside.subscriber import OWN, Subscriber
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import bus_entities, sample_values, settings_for

DOCUMENT = ROOT / "docs" / "appendix" / "registration.md"
GATE, CONFERENCE = "sale", "pycon"
_PRICE = "500.00"
#: Nobody pays here, so no window may end before the last answer.
SETTINGS = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "1", "SLUICE_RESERVATION_SECONDS": "86400"}
PATIENCE = 2400.0
#: Seconds after a kill in which an order may have got the seats of one before it: a reserve waits a minute for its turn.
EXPLAINED_BY_KILL = 90.0
_Found = TypeVar("_Found")


@dataclass(frozen=True, kw_only=True)
class Sale:
    """What is run."""

    orders: int = 5000
    seats: int = 1000
    #: One process is killed whenever all have worked for so many seconds. None: only those that a verb is deadly for.
    kill_after: float | None = 2.0
    #: As often as this at most.
    kills: float = inf
    workers: int = 3
    deadly: Sequence[str] = ()
    #: Verbs whose batches come the other way round.
    backward: Sequence[str] = ()
    #: None: the locks that an installation has.
    lock_seconds: float | None = None

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what is dropped: the conference, and the orders. Every other one wants two seats."""
        seats = {"whole": {"price": _PRICE, "quota": self.seats}}
        yield {"kind": "conference", "id": "c-1", "conference": CONFERENCE, "seats": seats}
        for number in range(self.orders):
            wanted = {"whole": 1 + number % 2}
            yield {
                "kind": "place_order",
                "order": f"o-{self.orders - 1 - number:05}",
                "conference": CONFERENCE,
                "seats": wanted,
                "access_code": f"code-of-{number:05}",
                "gate": GATE,
            }


@dataclass
class Report:
    """What one run came to."""

    sale: Sale
    kills: int = 0
    #: Seconds from the opening until each order's answer could be read.
    waits: list[float] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    granted: int = 0
    #: Orders that were answered before one with an earlier place on the roll, and those that took its seats so.
    overtaking: int = 0
    inversions: int = 0
    #: By verb: batches that the bus gave, and those among them in another order than that of sending.
    batches: Counter[str] = field(default_factory=Counter)
    disordered: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Return every promise that was broken."""
        found, wanted = list(self.broken), min(self.sale.seats, sum(1 + n % 2 for n in range(self.sale.orders)))
        found += [f"{self.granted} seats went, it must be {wanted}"] * (self.granted != wanted)
        open_orders = self.sale.orders - sum(self.states[one] for one in ("reserved", "partially_reserved", "rejected"))
        found += [f"{open_orders} orders have no answer"] * bool(open_orders)
        return found + ["no process was killed"] * bool(self.sale.kills and not self.kills)

    def markdown(self) -> str:
        """Return the table of the documentation."""
        waits = sorted(self.waits)
        rows = [
            ("orders behind one gate, for how many seats", f"{self.sale.orders:,}, {self.sale.seats:,}"),
            ("processes that work, killed meanwhile (SIGKILL)", f"{self.sale.workers}, {self.kills}"),
            ("from the opening to the first answer that can be read", f"{waits[0]:.1f} s"),
            ("... to half of the answers", f"{statistics.median(waits):.1f} s"),
            ("... to 95 of 100 (p95)", f"{waits[len(waits) * 95 // 100]:.1f} s"),
            ("... to the last", f"{waits[-1]:.1f} s ({len(waits) / waits[-1]:.0f} orders/s)"),
            ("orders that got all their seats, some, or none", ", ".join(f"{self.states[one]:,}" for one in _ENDS)),
            (
                "answered before one with an earlier place on the roll, and so got its seats",
                f"{self.overtaking:,}, {self.inversions:,}",
            ),
            *(
                (
                    f"batches of {what} that the bus gave, in another order than that of sending",
                    self._tell_batches(verb),
                )
                for verb, what in {"start": "starts", "sell": "commands to seats"}.items()
            ),
            ("seats that went, more than there are", f"{self.granted:,}, {max(0, self.granted - self.sale.seats)}"),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in [("what", "found"), ("---", "---"), *rows])

    def _tell_batches(self, verb: str) -> str:
        return f"{self.batches[verb]:,}, {self.disordered[verb]:,}"


_ENDS = ("reserved", "partially_reserved", "rejected")


def run(sale: Sale) -> Report:
    """Hold the orders, open the gate, kill, and add up what became of every order."""
    report = Report(sale)
    parsed = Settings.parse(sample_values() | SETTINGS)
    entities = bus_entities(parsed, OWN)
    with (
        Azurite.start() as azurite,
        Broker.start(entities, lock_seconds=sale.lock_seconds) as broker,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = settings_for(azurite.connection_string, broker.connection_string) | SETTINGS
        provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
        with (
            Connections.parse(settings) as connections,
            Subscriber(broker.connection_string) as subscriber,
            fleet("tests.benchmarks.onsale_worker", Path(folder)) as workers,
        ):
            for _ in range(sale.workers):
                workers.start(settings=settings, deadly=sale.deadly, backward=sale.backward)
            workers.wait_until_ready(sale.workers)
            stores = Stores(connections)
            _hold(report, stores)
            workers.start(settings=settings, ticks=True)
            opened = time.time()
            _insist(lambda: stores.gate_operator.open(GATE, by="benchmark"))
            _release(report, workers, subscriber, settings, opened)
            _judge(report, stores, subscriber, opened, sorted(workers.killed_at.values()))
            _count(report, workers)
    return report


def _hold(report: Report, stores: Stores) -> None:
    queue, began = stores.connections.queues.get_queue_client("orders"), time.monotonic()
    first, *others = [json.dumps({"sluice": one}) for one in report.sale.messages()]

    def drop(text: str) -> None:
        # A message that comes twice changes nothing.
        _insist(lambda: queue.send_message(text, time_to_live=-1))

    with BusSender(stores.connections) as sender:
        sender.send(CONFERENCES_QUEUE, [BusMessage(body=first.encode())])
    end, own = began + PATIENCE, RegistrationStores(stores)
    while _insist(lambda: own.tell_seats(CONFERENCE)) is None and time.monotonic() < end:
        time.sleep(0.2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(drop, others))
    while _insist(queue.get_queue_properties).approximate_message_count and time.monotonic() < end:
        time.sleep(1.0)
    held = _insist(lambda: stores.held.summary(GATE)).count
    report.broken += [f"{held} of {report.sale.orders} orders are held"] * (held != report.sale.orders)
    _say(f"{held:,} orders held in {time.monotonic() - began:.0f} s")


def _insist(ask: Callable[[], _Found]) -> _Found:
    """Return what storage answers. On a busy machine an answer may be late."""
    for _ in range(20):
        with suppress(AzureError, StorageUnavailableError):
            return ask()
        time.sleep(1.0)
    return ask()


def _release(
    report: Report, workers: Fleet, subscriber: Subscriber, settings: Mapping[str, str], opened: float
) -> None:
    """Kill and start processes until every order is answered."""
    dice, end = random.Random(1), time.monotonic() + PATIENCE
    role = {"settings": settings, "deadly": report.sale.deadly, "backward": report.sale.backward}
    told = 0.0
    while len(subscriber.answered) < report.sale.orders or report.kills < len(report.sale.deadly):
        subscriber.read()
        if time.monotonic() > end:
            report.broken.append(f"{len(subscriber.answered)} orders are answered after {PATIENCE:.0f} s")
            return
        if time.monotonic() - told > 10:
            told = time.monotonic()
            _say(f"{time.time() - opened:.0f} s: {len(subscriber.answered):,} answered, {report.kills} kills")
        for dead in [one for one in workers.running if one.poll() is not None]:
            workers.kill(dead)
            workers.start(**role)
            report.kills += 1
        after = report.sale.kill_after
        if after is None or report.kills >= report.sale.kills:
            continue
        working = _working(workers, opened)
        if len(working) == report.sale.workers and all(time.time() - one > after for one in working.values()):
            victim = dice.choice(sorted(working))
            workers.kill(next(one for one in workers.running if one.pid == victim))
            workers.start(**role)
            report.kills += 1


def _working(workers: Fleet, opened: float) -> dict[int, float]:
    """Return since when each process works, after the opening."""
    since: dict[str, float] = {}
    for line in workers.lines():
        if line["what"] == "begin" and line["at"] >= opened and not line["invocation"].startswith("tick"):
            since.setdefault(line["record"], line["at"])
    running = {one.pid: workers.record_of(one) for one in workers.running}
    return {pid: since[record] for pid, record in running.items() if record in since}


def _judge(report: Report, stores: Stores, subscriber: Subscriber, opened: float, killed_at: Sequence[float]) -> None:
    """Wait until all answers can be read, and have the checker add them up."""
    own, sent = RegistrationStores(stores), list(report.sale.messages())
    names, end = [one["order"] for one in sent if "order" in one], time.monotonic() + PATIENCE / 10
    while True:
        shown, conference = _read_orders(own, names), _read_conference(own)
        subscriber.read_all()
        differ = list(seat_checker.breaches(seat_checker.Books(sent, subscriber.told), shown, {CONFERENCE: conference}))
        # Views follow the events. The process that was to write one may have died: then its message comes again after its lock.
        if not differ or time.monotonic() > end:
            break
        time.sleep(1.0)
    report.broken += differ
    report.states = Counter(one["state"] for one in shown.values())
    report.granted = sum(one["reserved"].get("whole", 0) for one in shown.values())
    report.waits = [at - opened for at in _insist(lambda: list(_written_at(stores)))]
    table = stores.connections.tables.get_table_client("parked")
    parked = _insist(lambda: list(table.list_entities(select=["PartitionKey"])))
    report.broken += [f"{len(parked)} rows tell of parked messages"] * bool(parked)
    _compare(report, stores, own, killed_at)


def _read_conference(own: RegistrationStores) -> dict[str, Any]:
    """Return the conference as anybody may read it, without seats before it can be read."""
    view = _insist(lambda: own.conferences.find(CONFERENCE, timedelta())).value
    if view is None:
        return {"seats": {}}
    answer: dict[str, Any] = json.loads(
        http.answer_conference(CONFERENCE, view.seats, view.version, timedelta(), None).body
    )
    return answer


def _compare(report: Report, stores: Stores, own: RegistrationStores, killed_at: Sequence[float]) -> None:
    """Compare the answers with the roll, have each order's place explained, and name the kill behind each inversion."""
    roll, seats = _insist(lambda: stores.rolls.find(GATE, 1)), _insist(lambda: own.homes.load(seats_home(CONFERENCE)))
    if roll is None or seats is None or len(roll.places) != report.sale.orders:
        report.broken.append("there is no roll of all orders")
        return
    outcome = check_roll([place.id for place in roll.places], first_answers(seats.events))
    report.overtaking, report.inversions = len(outcome.overtaking), len(outcome.inverted)
    told = {place.id: tell_place(place.id, roll, outcome) for place in roll.places}
    at = {event.version: event.at.timestamp() for event in seats.events}
    for said, is_explained in explain(outcome, told, at, killed_at):
        _say(said)
        report.broken += [said] * (not is_explained)
    report.broken += [f"order {order} has no answer" for order, one in told.items() if one["answered_as"] is None]


def explain(
    outcome: RollOutcome,
    told: Mapping[str, Mapping[str, Any]],
    answered_at: Mapping[int, float],
    killed_at: Sequence[float],
) -> Iterator[tuple[str, bool]]:
    """Yield for each inversion whose seats these were and how long before a process was killed, and whether that explains it."""
    victims = {name: order for order, one in told.items() for name in one["overtaken_by"]}
    for name in outcome.inverted:
        answered = answered_at[outcome.answers[name].version]
        since = min((answered - kill for kill in killed_at if kill < answered), default=inf)
        said = (
            f"order {name} (place {told[name]['place']}) got the seats of {victims[name]}, {since:.0f} s after a kill"
        )
        yield said, since < EXPLAINED_BY_KILL


def _read_orders(own: RegistrationStores, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each order as its customer reads it. An answer that is on its way is waited for."""
    shown: dict[str, dict[str, Any]] = {}
    end, left = time.monotonic() + PATIENCE / 10, list(names)
    with ThreadPoolExecutor(8) as pool:
        while left and time.monotonic() < end:
            for name, found in zip(
                left, pool.map(lambda name: _insist(lambda: own.orders.find(name)), left), strict=True
            ):
                if found:
                    shown[name] = json.loads(http.answer_order(found.order, None).body)
            left = [name for name in left if name not in shown or shown[name]["state"] not in _ENDS]
            time.sleep(1.0 if left else 0.0)
    return shown


def _written_at(stores: Stores) -> Iterator[float]:
    """Yield when the row of each order that customers read was written last, by the clock of storage."""
    rows = stores.connections.tables.get_table_client(SLOTS[0]).query_entities(
        "PartitionKey ge @low and PartitionKey lt @high",
        parameters={"low": f"{ORDER_MODEL.name}.", "high": f"{ORDER_MODEL.name}/"},
        select=["PartitionKey", "RowKey", "Timestamp"],
    )
    for row in rows:
        yield row.metadata["timestamp"].timestamp()


def _count(report: Report, workers: Fleet) -> None:
    for line in workers.lines():
        verb = line.get("invocation", "").rsplit("-", 1)[0]
        if line["what"] == "end" and "failed" in line:
            report.failures[f"{verb}: {line['failed']}"] += 1
        if line["what"] == "end" and (given := line.get("messages")):
            report.batches[verb] += 1
            report.disordered[verb] += given != sorted(given)
        if line["what"] == "unsettled":
            report.failures[f"{line['invocation']} was not settled: {line['error']}"] += 1
        if line["what"] == "dead":
            report.broken.append(f"{line['letters']} dead letters")


def main(arguments: Sequence[str] = ()) -> int:
    """Run it, print the table, and say what is broken."""
    parser = argparse.ArgumentParser(prog="onsale", description=__doc__)
    parser.add_argument("--orders", type=int, default=Sale.orders)
    parser.add_argument("--seats", type=int, default=Sale.seats)
    parser.add_argument("--workers", type=int, default=Sale.workers)
    parser.add_argument("--kills", type=float, default=Sale.kills)
    given = parser.parse_args(arguments)
    report = run(Sale(**vars(given)))
    _say(report.markdown())
    for failure, number in report.failures.most_common(10):
        _say(f"{number} failed: {failure}")
    problems = report.problems()
    _say("\n".join(problems))
    write(DOCUMENT, {0: "rolls", inf: "onsale"}.get(given.kills, "rolls-killed"), report.markdown())
    return int(bool(problems))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
