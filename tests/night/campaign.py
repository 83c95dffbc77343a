"""One night by a seed: everybody's jobs, a person's acts, and what befalls the installation, side by side.

Everything is done as its person does it: by the `sluice` command, by HTTP, by a message. What was sent and done is written
down here, and `checker` judges by it when all has ended.
"""

import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec

from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from sluice.publish import Connections, Publisher
from tests.chaos.stack import wait_until
from tests.night import checker
from tests.night.fleet import RELEASE, last_release
from tests.night.returns import Carriers
from tests.night.sight import Sight, alerts_of, count_dead
from tests.night.spent import cpu_of
from tests.outside.customer import Customer
from tools.local.paths import ROOT

#: The gate of the night's rating jobs, the gate that a timetable opens, and the rooms of the day's.
GATE, TIMED, ROOMS = "nightly", "timed", tuple(f"r{number:02}" for number in range(20))
#: The files of the rating jobs; few environments can write Parquet.
FORMS = ("parquet" if find_spec("pyarrow") else "ndjson", "ndjson.gz", "csv", "ndjson")
#: What may happen to one transaction, and ends in being mended and replayed.
FAULTS = ("raise", "exit", "cancel", "die")
#: Pointers that stay, since they bring what is removed later.
KEPT = {"retention", "orphans", "front", "net", "warm", "roll"}
#: A pointer that was due so long ago was not followed by several ticks.
OVERDUE = timedelta(minutes=3)
#: Seconds until all must have ended after the last fault.
PATIENCE = 1800
SEATS, ORDERS = 60, 80
RETURNS = 40
#: Minutes from which on a night has the bus lost, and an erasure proven.
LONG = 20
#: Jobs of the phase with the last release, if it begins nothing of the first.
MOST_MIXED = 20
#: The alerts that the night means to have, and for which jobs.
EXPECTED = {
    "sluice.job.paused": {"wrong-0"},
    "sluice.message.parked": {"bad-0"},
    "sluice.transactions.stalled": {"charge-0"},
}
#: The jobs whose lines the invoice is made of, and what stands in each transaction of the job that is erased.
SOURCES, MARK = ("rate-0", "rate-1", "rate-2"), "m4rk3d"


@dataclass
class Job:
    """A job as its publisher and its operator know it."""

    name: str
    sent: list
    room: str = ""
    workload: str = "rate"
    #: How it must end: complete, stopped or erased.
    end: str = "complete"
    revision: int = 1
    submitted: float = 0.0
    #: When the gate is opened that it waits for.
    opened: float = 0.0
    ended: float = 0.0
    halted: list = field(default_factory=list)

    @property
    def full(self):
        """Its name for operators."""
        return f"{self.room}~{self.name}" if self.room else self.name


def usages(job, seed, count, *, rejects=50, faults=(), do=""):
    """Return the transactions of a job; each of the faults strikes one of them."""
    dice = random.Random(seed)
    made = [
        {
            "id": f"{job}/{number}",
            "account": f"a-{dice.randrange(40)}",
            "units": f"{dice.randrange(1, 900)}.{dice.randrange(1000):03}",
            "do": "reject" if rejects and number % rejects == 7 else do,
        }
        for number in range(count)
    ]
    for fault in faults:
        made[dice.randrange(count)]["do"] = fault
    return made


class Night:
    """What is done in one night, and what came of it."""

    def __init__(self, stack, bank, lookers, folder, seed, minutes):  # noqa: PLR0917 - one caller
        self._stack, self._bank, self._lookers, self._folder = stack, bank, lookers, folder
        self.dice, self.minutes = random.Random(seed), minutes
        self.jobs, self.acts, self.befell, self.problems = {}, Counter(), Counter(), []
        self.needs_seen = {}
        #: When something befell the installation, what its logs say when all has ended, and what was spent.
        self._harmed, self._logs, self._until, self._cpu = [], [], float("inf"), 0.0
        self._sight = Sight(stack.storage)
        self._over, self._lock = threading.Event(), threading.Lock()
        self._carriers = Carriers(stack.broker.connection_string, random.Random(seed))
        self._site, self._paid, self._orders = Customer(stack.host.base_url, ""), [], []

    # What a person types.

    def types(self, *words, status=(0,), tries=40):
        """Type a command until it is answered: storage may be away at this moment. Return what it prints."""
        words = list(map(str, words))
        for _ in range(tries):
            done = subprocess.run(
                [sys.executable, "-m", "sluice", *words],
                cwd=self._stack.project,
                env={**os.environ, **self._stack.settings, "COLUMNS": "240"},
                input="y\n" * 3,
                capture_output=True,
                text=True,
                check=False,
            )
            if "Traceback" in done.stderr:
                self.problems.append(f"sluice {' '.join(words)}: {done.stderr[-400:]}")
            if done.returncode in status:
                return done.stdout
            time.sleep(1)
        raise AssertionError(f"sluice {' '.join(words)}: {done.returncode}\n{done.stdout[-800:]}\n{done.stderr[-800:]}")

    def insists(self, *words, until):
        """Type a command again until what it is for has come. A refusal, and storage that is away, both end with 1."""
        end = time.monotonic() + PATIENCE
        while not until():
            said = self.types(*words, status=(0, 1))
            if not until() and time.monotonic() > end:
                raise AssertionError(f"sluice {' '.join(map(str, words))} does not come to its end: {said[-800:]}")

    def asks(self, *words, status=(0,)):
        """Type a command and return its JSON."""
        return json.loads(self.types(*words, "--json", status=status))

    def shown(self, job):
        """Return all that `jobs show` says of a job, or None as long as there is none."""
        with suppress(ValueError, AssertionError):
            return self.asks("jobs", "show", job.full, status=(0, 1))
        return None

    def state(self, job):
        """Return the state of a job."""
        return (self.shown(job) or {}).get("state")

    # The parts of the night, each in a thread.

    def submit(self, job, *words, form="ndjson"):
        """Publish a job."""
        path = self._folder / f"{job.room}{job.name}.{form}"
        path.write_bytes(written(job.sent, form))
        room = ["--room", job.room] if job.room else []
        self.types("submit", path, "--job", job.name, "--workload", job.workload, "--sum", "units", *room, *words)
        job.submitted = time.time()
        self._know(job)

    def _know(self, job):
        with self._lock:
            self.jobs[job.full] = job

    def rate(self, size):
        """Rating files wait for the gate, which opens by a plan; then one is paused for a while and one is stopped."""
        for number, form in enumerate(FORMS):
            end = "stopped" if number == 3 else "complete"
            sent = usages(f"rate-{number}", self.dice.random(), size, do="slow" if number in {0, 3} else "")
            self.submit(Job(f"rate-{number}", sent, end=end), "--gate", GATE, form=form)
        opened = self.plan(GATE)
        for number in range(4):
            self.jobs[f"rate-{number}"].opened = opened
        self.acts["planned openings"] += 1
        paused, stopped = self.jobs["rate-0"], self.jobs["rate-3"]
        wait_until(lambda: self._begun("rate-3"), PATIENCE, lambda: "rate-3 did not begin")
        self.halt(stopped, "stop")
        wait_until(lambda: self._begun("rate-0"), PATIENCE, lambda: "rate-0 did not begin")
        self.halt(paused, "pause")
        time.sleep(self.dice.uniform(15, 40))
        self.resume(paused)

    def wait_for_timetable(self, size):
        """A job waits for a gate that a timetable opens at a full minute; then the timetable ends."""
        job = Job("timed-0", usages("timed-0", 3, size))
        self.submit(job, "--gate", TIMED)
        job.opened = self.plan(TIMED, by_timetable=True)
        wait_until(lambda: self.state(job) == "complete", PATIENCE, lambda: f"timed-0 is {self.state(job)}")
        self.types("gate", "open", TIMED, "--every", "off", "--why", "night")
        self.acts["openings by timetable"] += 1

    def plan(self, gate, *, by_timetable=False):
        """Have a gate opened some time from now. Return when, which is later where the command took long."""
        while True:
            # A machine that is busy types slowly, and storage that is away has the command typed again.
            at = datetime.now(UTC).replace(microsecond=0) + timedelta(
                seconds=20 + 10 * os.getloadavg()[0] / os.cpu_count()
            )
            when = ["--at", at.isoformat()]
            if by_timetable:
                at = at.replace(second=0) + timedelta(minutes=1)
                when = ["--every", f"{at.minute} {at.hour} * * *", "--zone", "UTC"]
            self.types("gate", "open", gate, *when, "--yes", "--why", "night", status=(0, 1))
            for found in self.asks("gate", "list")["gates"]:
                plan = found["scheduled"] or {"at": found["at"] if found["state"] == "open" else None}
                if found["gate"] == gate and plan["at"]:
                    opens = datetime.fromisoformat(plan["at"])
                    assert opens < at + timedelta(hours=1), f"{gate} opens at {opens}, it was planned for {at}"
                    return opens.timestamp()

    def mix(self, size):
        """An instance of the last release works beside, on what both know. Then all are of today."""
        with last_release(self._folder, self._stack.of_app) as host:
            self._stack.before = host
            number = 0
            # A few chunks more until it has begun one.
            while number < 4 or (number < MOST_MIXED and not self._versions()[RELEASE]):
                some = [Job(f"plain-{number}", usages(f"plain-{number}", number, size, do="slow"), workload="plain")]
                some.append(
                    Job(
                        f"plain-{number + 1}",
                        usages(f"plain-{number + 1}", number, 200),
                        room=ROOMS[2],
                        workload="plain",
                    )
                )
                for job in some:
                    self.submit(job)
                for job in some:
                    wait_until(
                        lambda j=job: self.state(j) == "complete",
                        PATIENCE,
                        lambda j=job: f"{j.full} is {self.state(j)}",
                    )
                number += 2
            self._stack.before = None
            self._cpu += cpu_of(host.process.pid)
            self._logs.append(host.log.read_text(errors="replace"))

    def bill(self):
        """An invoice is made of what the rating jobs made, and a report comes behind it."""
        wait_until(lambda: len(self.jobs.keys() & set(SOURCES)) == len(SOURCES), PATIENCE, lambda: "no sources")
        sent = [{**usage, "do": ""} for name in SOURCES for usage in self.jobs[name].sent if usage["do"] != "reject"]
        self._know(Job("invoice-0", sent, workload="invoice"))
        self.types(
            "submit", "--from", ",".join(SOURCES), "--job", "invoice-0", "--workload", "invoice", "--sum", "units=units",
            "--night", "n-1",
        )  # fmt: skip
        self.submit(Job("report-0", usages("report-0", 5, 300)), "--after", "invoice-0", "--night", "n-1")

    def grow(self, size):
        """A slow source sends stretches while its job works on the first of them."""
        job = Job("grow-0", usages("grow-0", self.dice.random(), size))
        self._know(job)
        while True:
            try:
                self._feed(job)
            except Exception:  # noqa: BLE001 - storage was away: the same publisher again finds its stretches
                self.acts["publisher begins anew"] += 1
                time.sleep(2)
            else:
                return

    def _feed(self, job):
        with (
            Connections.parse(self._stack.settings) as connections,
            Publisher.connect(connections) as publisher,
            publisher.open(job=job.name, workload=job.workload) as opened,
        ):
            for begin in range(0, len(job.sent), 1000):
                opened.write(job.sent[begin : begin + 1000])
                opened.flush()
                self._over.wait(2)

    def repeat(self, size):
        """One job runs again, and comes to the same; one is erased."""
        again, gone = (Job(f"{name}-0", usages(f"{name}-0", 9, size), room=ROOMS[1]) for name in ("again", "gone"))
        for usage in gone.sent:
            usage["account"] = f"{MARK}-{usage['account']}"
        for job in (again, gone):
            self.submit(job)
        wait_until(lambda: self.state(again) == "complete", PATIENCE, lambda: f"again-0 is {self.state(again)}")
        again.revision = 2
        self.insists(
            "jobs", "rerun", again.full, "--yes", "--why", "night", "--if-revision", 1,
            until=lambda: (self.shown(again) or {"revision": 1})["revision"] == again.revision,
        )  # fmt: skip
        self.acts["rerun"] += 1
        wait_until(lambda: self._begun("gone-0"), PATIENCE, lambda: "gone-0 did not begin")
        gone.end = "erased"
        self.types("jobs", "erase", gone.full, "--yes", "--why", "night")
        self.acts["erase"] += 1
        shown = wait_until(
            lambda: (found := self.shown(again)) and found["revision"] == 2 and found["state"] == "complete" and found,
            PATIENCE,
            lambda: f"again-0 is {self.state(again)}",
        )
        self.types("jobs", "diff", again.full)
        assert shown["items"] == len(again.sent)

    def halt(self, job, act):
        """Pause or stop a job, if it has not ended yet."""
        halted, sure = {"pause": "paused", "stop": "stopped"}[act], ["--yes"] if act == "stop" else []
        ends = {halted, "complete", "completed_with_parked"}
        seen = []
        has_ended = lambda: seen.append(self.state(job)) or seen[-1] in ends  # noqa: E731 - said once
        self.insists("jobs", act, job.full, "--why", "night", *sure, until=has_ended)
        at, state = time.time(), seen[-1]
        self.acts[act] += 1
        if state == halted:
            job.halted.append([at, float("inf")])
        elif act == "stop":
            # It had ended before.
            job.end = "complete"

    def resume(self, job):
        """Let a paused job go on."""
        if job.halted:
            job.halted[-1][1] = time.time()
            resumed = lambda: self.state(job) not in {None, "paused"}  # noqa: E731 - said once
            self.insists("jobs", "resume", job.full, "--why", "night", until=resumed)
            self.acts["resume"] += 1

    def suffer(self, size):
        """Transactions fail in every way; they are parked, mended and replayed."""
        job = Job("bad-0", usages("bad-0", self.dice.random(), size, faults=FAULTS))
        self.submit(job)
        wait_until(lambda: self.state(job) == "completed_with_parked", PATIENCE, lambda: f"bad-0 is {self.state(job)}")
        (self._folder / "repaired").touch()
        for group in self.asks("parked", "list")["groups"]:
            one = group["fingerprint"]
            self.insists(
                "parked", "replay", one, "--yes", "--why", "mended", until=lambda one=one: one not in self._causes()
            )
            self.acts["replay"] += 1

    def _causes(self):
        return {group["fingerprint"] for group in self.asks("parked", "list")["groups"]}

    def spoil(self, size):
        """A wrong file pauses its job by itself, and is stopped."""
        job = Job("wrong-0", usages("wrong-0", 1, size, rejects=0, do="reject"), end="stopped")
        self.submit(job)
        wait_until(lambda: self.state(job) == "paused", PATIENCE, lambda: f"wrong-0 is {self.state(job)}")
        wait_until(lambda: "wrong-0" in self.needs_seen, PATIENCE, lambda: "no need names wrong-0")
        self.halt(job, "stop")

    def charge(self, size):
        """Work calls a bank with a limit, which is away for a while and then answers 429 for another."""
        job = Job("charge-0", usages("charge-0", self.dice.random(), size, rejects=0), workload="charge")
        self.submit(job)
        for answer in (503, 429):
            wait_until(lambda: len(self._bank.calls) > 50, PATIENCE, lambda: "the bank is not called")
            self._bank.turn(answer)
            time.sleep(self.dice.uniform(5, 15))
            self._bank.turn(200)
            time.sleep(5)

    def rush(self, size):
        """One room has a flood, and the others small jobs."""
        for number in range(3):
            self.submit(Job(f"flood-{number}", usages(f"flood-{number}", number, size, do="slow"), room=ROOMS[0]))
        number = 0
        while not self._over.wait(self.dice.uniform(4, 9)) and time.time() < self._until:
            room = self.dice.choice(ROOMS[1:])
            self.submit(Job(f"small-{number}", usages(f"small-{number}", number, 200), room=room))
            number += 1

    def sell(self):
        """Customers order more seats than there are, and most of them pay."""
        bus = ServiceBusClient.from_connection_string(self._stack.broker.connection_string)
        offer = {"whole": {"price": "500.00", "quota": SEATS}}
        while self._look("/api/conferences/pycon") is None:
            self._send(bus, "conferences", {"kind": "conference", "id": "c-1", "conference": "pycon", "seats": offer})
            time.sleep(2)
        for number in range(ORDERS):
            name, code = f"o-{number}", f"night-code-{number}"
            wait_until(lambda n=name, c=code: self._place(n, c), PATIENCE, lambda n=name: f"{n} is not taken")
            self._orders.append((name, code))
        while True:
            for name, code in self._orders:
                order = self._look(f"/api/orders/{name}", code)
                if order and order["state"] == "reserved" and name not in self._paid and order["number"] % 3:
                    payment = {"id": f"p-{name}", "order": name, "outcome": "completed", "amount": order["total"]}
                    self._send(bus, "payments", {"kind": "payment", **payment})
                    self._paid.append(name)
            if self._over.wait(3):
                return

    def _send(self, bus, queue, message):
        # A bus that is started again has lost it, and the same message again changes nothing.
        with suppress(Exception), bus.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(json.dumps({"sluice": message})))

    def _look(self, path, code=None):
        with suppress(Exception):
            answer = self._site.ask("GET", path, **({"X_Access_Code": code} if code else {}))
            return answer.body if answer.status == 200 else None
        return None

    def _place(self, name, code):
        with suppress(Exception):
            answer = self._site.place(name, {"whole": 1}, access_code=code)
            # Less than are left: it is refused, and never stored.
            return answer.status in {202, 409}
        return False

    def send_back(self):
        """Customers send goods back, some of them twice; a carrier in ten never answers."""
        names = [f"return-{number:02}" for number in range(RETURNS)]
        self._carriers.lost.update(self.dice.sample(names, RETURNS // 10))
        # Each ends within some minutes, so that none is sent in the last of the night.
        pause = self.minutes * 30 / RETURNS
        for name in names:
            for _ in range(self.dice.choice((1, 2))):
                self.types("returns", "put", name)
            self._carriers.sent.add(name)
            self._over.wait(pause)

    def watch(self):
        """Look at what needs a person, as a person does."""
        while not self._over.wait(5):
            with suppress(AssertionError, ValueError):
                for need in self.asks("now", status=(0, 1))["needs"]:
                    self.needs_seen.setdefault(need["about"], time.time())

    def harm(self):
        """Let things befall the installation."""
        ways = [("kill", 5), ("lose_replies", 3), ("stand_still", 1), ("restart_storage", 1)]
        if self.minutes >= LONG:
            # What the bus lost is put again after the ten minutes of the setting.
            ways.append(("restart_bus", 1))
        names, weights = zip(*ways, strict=True)
        while not self._over.wait(self.dice.expovariate(1 / 12)) and time.time() < self._until:
            way = self.dice.choices(names, weights)[0]
            getattr(self._stack, way)(self.dice)
            self._harmed.append(time.time())
            self.befell[way] += 1

    # The whole.

    def run(self, size):
        """Do everything, wait until all has ended, and return every breach."""
        with self._sight, self._carriers:
            whole = {"sell": self.sell, "watch": self.watch, "harm": self.harm}
            for number, looking in enumerate(self._lookers):
                whole[f"look-{number}"] = lambda looking=looking: looking.look(self._over)
            beside = self._start(whole)
            for thread in self._start({"mix": lambda: self.mix(max(size // 2, 5_000))}):
                thread.join()
            self._until = time.time() + self.minutes * 60
            self._work(size)
            time.sleep(max(0.0, self._until - time.time()))
            self._over.set()
            for thread in beside:
                thread.join()
            with suppress(AssertionError):
                wait_until(self._all_ended, PATIENCE, lambda: "not all has ended")
            with suppress(AssertionError):
                wait_until(lambda: not list(self._left_over()), PATIENCE, lambda: "something lies around")
            if self.minutes >= LONG:
                gone = [job for job in self.jobs.values() if job.end == "erased"]
                with suppress(AssertionError):
                    wait_until(lambda: all(map(self._is_proven, gone)), PATIENCE, lambda: "it is not proven")
                self.problems += [f"{job.full}: its erasure is not proven" for job in gone if not self._is_proven(job)]
        self._logs += [path.read_text(errors="replace") for path in (self._stack.host.log, self._folder / "worker.log")]
        return [*self.problems, *self.breaches()]

    def _work(self, size):
        parts = {
            "rate": lambda: self.rate(size),
            "suffer": lambda: self.suffer(size // 4),
            "spoil": lambda: self.spoil(max(size, 12_000)),
            "charge": lambda: self.charge(max(size // 20, 300)),
            "rush": lambda: self.rush(size),
            "bill": self.bill,
            "grow": lambda: self.grow(size // 2),
            "repeat": lambda: self.repeat(size // 2),
            "timetable": lambda: self.wait_for_timetable(size // 10),
            "send back": self.send_back,
        }
        for thread in self._start(parts):
            thread.join()

    def _start(self, parts):
        threads = [threading.Thread(target=self._guarded, args=part, name=part[0]) for part in parts.items()]
        for thread in threads:
            thread.start()
        return threads

    def _guarded(self, name, part):
        try:
            part()
        except Exception as error:  # noqa: BLE001 - the others go on, and the night is judged all the same
            self.problems.append(f"{name} ended early: {type(error).__name__}: {str(error)[:600]}")

    def _begun(self, job):
        return any(name == job for _, name, _ in self._notes())

    def _versions(self):
        return Counter(version for _, _, version in self._notes())

    def _notes(self):
        path = self._folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        noted = (line.split(" ", 3) for line in lines)
        # The invoice's transactions have the names of those that they were made of.
        return [
            (float(at), "invoice-0" if by == "invoice" else one.split("/")[0], version)
            for at, by, version, one in noted
        ]

    def _is_proven(self, job):
        return bool((self.shown(job) or {}).get("proven_at"))

    def _all_ended(self):
        for job in self.jobs.values():
            if not job.ended and self.state(job) == job.end:
                job.ended = time.time()
        # What the bus lost was not heard.
        are_heard = self.befell["restart_bus"] or self._carriers.sent <= self._carriers.ended().keys()
        return are_heard and all(job.ended for job in self.jobs.values())

    def breaches(self):
        """Yield every breach, by the checker that shares no code with the project."""
        notes = self._notes()
        with (
            BlobServiceClient.from_connection_string(self._stack.storage) as blobs,
            TableServiceClient.from_connection_string(self._stack.storage) as tables,
        ):
            outputs, totals = blobs.get_container_client("outputs"), tables.get_table_client("totals")
            for job in self.jobs.values():
                found, begun = (
                    checker.read_outputs(outputs, job.full),
                    [at for at, name, _ in notes if name == job.name],
                )
                if job.end == "complete":
                    wanted = f"PartitionKey ge '{job.full}' and PartitionKey le '{job.full}!~'"
                    rows = [
                        row
                        for row in totals.query_entities(wanted)
                        if "account" in row and row["PartitionKey"].split("!")[0] == job.full
                    ]
                    yield from checker.complete(job.full, job.sent, found, rows, has_lines=job.workload != "plain")
                    if found and found[0]["revision"] < job.revision:
                        yield f"{job.full}: it did not run again"
                elif job.end == "erased":
                    yield from checker.marked(job.full, MARK.encode(), self._texts(blobs, tables))
                else:
                    shown = self.asks("jobs", "show", job.full)
                    items = {name: shown[name]["items"] for name in ("accepted", "rejected", "parked")}
                    not_run = len(job.sent) - sum(items.values())
                    yield from checker.stopped(
                        job.full, job.sent, found, {**shown, **items, "not_run": shown.get("not_run", not_run)}
                    )
                yield from checker.quiet(job.full, begun, job.halted)
                if job.opened:
                    yield from checker.early(job.full, begun, job.opened)
                if job.workload == "charge":
                    yield from checker.charged(job.sent, self._bank.calls)
                if job.name == "report-0":
                    ended = self.asks("jobs", "show", "invoice-0")["finished_at"]
                    yield from checker.after(job.full, begun, datetime.fromisoformat(ended).timestamp())
        yield from checker.limited(self._bank.calls, 100)
        yield from checker.shared_work(self._versions(), RELEASE)
        # Both chunks of a small bad job may be parked until they are replayed.
        meant = {("x-paused", job.full) for job in self.jobs.values() if job.halted} | {("x-failed", "bad-0")}
        yield from checker.alarmed(self._sight.paused, self._sight.needs, self._sight.blind, meant)
        alerts = alerts_of((ROOT / "docs" / "appendix" / "telemetry.md").read_text(), self._logs)
        yield from checker.unexplained(alerts, EXPECTED, self._harmed)
        yield from checker.left_over(count_dead(self._stack.broker.connection_string, self._stack.namespace), [])
        yield from checker.left_over(
            {f"parked: {group['reason']}": group["entries"] for group in self.asks("parked", "list")["groups"]}, []
        )
        yield from self._seats()
        waiting = self.types("returns", "list").splitlines()
        yield from checker.returned(self._carriers, waiting, are_heard=not self.befell["restart_bus"])
        yield from self._left_over()

    def _texts(self, blobs, tables):
        for container in blobs.list_containers():
            client = blobs.get_container_client(container.name)
            for name in client.list_blob_names():
                stored = client.download_blob(name, decompress=False).readall()
                yield f"{container.name}/{name}", stored
        for table in tables.list_tables():
            for row in tables.get_table_client(table.name).list_entities():
                yield f"{table.name}({row['PartitionKey']}, {row['RowKey']})", repr(dict(row)).encode()

    def _seats(self):
        conference = wait_until(lambda: self._look("/api/conferences/pycon"), PATIENCE, lambda: "no conference")
        orders = [self._look(f"/api/orders/{name}", code) for name, code in self._orders]
        yield from checker.seats([order for order in orders if order], conference, self._paid)

    def _left_over(self):
        with (
            QueueServiceClient.from_connection_string(self._stack.storage) as queues,
            TableServiceClient.from_connection_string(self._stack.storage) as tables,
        ):
            clients = [queues.get_queue_client(queue.name) for queue in queues.list_queues()]
            counts = {one.queue_name: one.get_queue_properties().approximate_message_count for one in clients}
            rows = tables.get_table_client("pending").query_entities("PartitionKey eq 'pending'")
            keys = [row["RowKey"].split("|") for row in rows]
            # One that is due later is no work: a job's stays for ten minutes behind its end.
            due = (datetime.now(UTC) - OVERDUE).strftime("%Y-%m-%dT%H:%M:%SZ")
            pointers = [(key[1], key[2]) for key in keys if len(key) == 3 and key[1] not in KEPT and key[0] < due]
            yield from checker.left_over({f"queue {name}": count for name, count in counts.items()}, pointers)

    def figures(self):
        """Return what the night was made of."""
        sent = sum(len(job.sent) for job in self.jobs.values())
        small = [job for job in self.jobs.values() if job.name.startswith("small-") and job.ended]
        first = {}
        for at, name, _ in self._notes():
            first.setdefault(name, at)
        # Some begin before the command that sent them has ended.
        waits = sorted(max(0.0, first[job.name] - job.submitted) for job in small if job.name in first)
        cpu = self._cpu + cpu_of(self._stack.host.process.pid) + self._stack.worker.cpu
        chunks = self._versions()
        return {
            "jobs, transactions": f"{len(self.jobs)}, {sent:,}",
            f"runs begun by {RELEASE}": f"{chunks[RELEASE]} of {chunks.total():,}",
            "requests, CPU of 1,000 transactions": f"{self._stack.proxy.taken * 1000 / sent:.1f}, {cpu * 1000 / sent:.2f} s",
            "acts": said(self.acts),
            "befell": said(self.befell),
            "calls of the bank": f"{len(self._bank.calls):,}",
            "orders, paid": f"{len(self._orders)}, {len(self._paid)}",
            "returns, carriers asked": f"{len(self._carriers.sent)}, {self._carriers.asked.total()}",
            "pages of two consoles, not made": f"{sum(one.read for one in self._lookers)}, {sum(one.missed for one in self._lookers)}",
            "wait of a small job: median, worst": f"{waits[len(waits) // 2]:.1f} s, {waits[-1]:.1f} s"
            if waits
            else "none",
        }


def said(counts):
    """Return counts in words."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items())) or "none"


def written(sent, form):
    """Return a file of transactions."""
    if form == "csv":
        made = io.StringIO()
        writer = csv.DictWriter(made, fieldnames=list(sent[0]))
        writer.writeheader()
        writer.writerows(sent)
        return made.getvalue().encode()
    if form == "parquet":
        made, arrow = io.BytesIO(), import_module("pyarrow")
        import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(sent), made)
        return made.getvalue()
    text = b"".join(json.dumps(usage, separators=(",", ":")).encode() + b"\n" for usage in sent)
    return gzip.compress(text) if form.endswith("gz") else text


def added_up(sent):
    """Return the units of the transactions that are not rejected."""
    return sum((Decimal(usage["units"]) for usage in sent if usage["do"] != "reject"), Decimal())
