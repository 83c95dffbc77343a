"""Several versions of Sluice on one storage and one bus, in one process: chance gives each message to one of them.

What comes of it is judged as every fault run is: each transaction counted once, outputs and totals as published, nothing
parked, nothing paused, nothing left.
"""

import json
from contextlib import suppress
from functools import partial
from random import Random

from azure.servicebus.exceptions import ServiceBusError

from shared.app import Stores
from tests.faults.bus import _Client as BusClient
from tests.faults.invariants import breaches
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import KilledError, Plan
from tests.faults.scenarios import Scenario
from tests.faults.world import GATE, ShardedWorld, sales

#: As in host.json: seconds for which a failed message is hidden, and its most deliveries.
HIDDEN, MOST_DELIVERIES = 30, 100
#: Deliveries after which the bus moves a message to its dead letters.
MOST_ON_THE_BUS = 10
#: Turns after which a run has no end, and waits in a row after which nobody waits for a message any more.
MOST_TURNS, MOST_WAITS = 3000, 40
#: Of so many turns one is killed at a request.
KILLED = 12


class Mixture(ShardedWorld):
    """One installation, and processes of several versions that take turns on it."""

    def __init__(self, versions, seed, *, kills=False, sizes=(3, 6, 9, 14)):
        """`versions`: the finder and the driver of each, by name. `sizes`: the transactions that a job may have."""
        super().__init__(MemoryStorage(), Journal())
        self.random, self.versions, self.kills, self.sizes = Random(seed), versions, kills, sizes
        self.names = sorted(versions)
        #: The turns that each version had, and the processes that were killed.
        self.turns, self.killed = dict.fromkeys(self.names, 0), 0
        self._processes = {}

    def run(self, jobs=4):
        """Publish jobs, let the versions work them off, and return what is wrong."""
        self.work_off(self.publish(jobs))
        self._end()
        return list(breaches(self, Scenario("mixture", None, None)))

    def publish(self, jobs, shops="xyzw"):
        """Publish jobs of these shops. Return the turn at which the gate of some opens."""
        gated = []
        for number in range(jobs):
            name = f"job-{'abcdefghij'[number]}"
            self.published[name] = sales(*self.random.choices(shops, k=self.random.choice(self.sizes)))
            if number % 3 == 2:
                gated.append(name)
            # Drawn once a job: a publisher that was killed repeats the same submission.
            is_inline = bool(self.random.randrange(2))
            self._act("submit", name, self.published[name], GATE if name in gated else None, is_inline)
        return self.random.randrange(30, 60) if gated else None

    def work_off(self, opens_at=None):
        """Let the versions take turns until nothing waits for anything."""
        waits = 0
        for turn in range(MOST_TURNS):
            if turn == opens_at:
                self.journal.note("opening")
                self._act("open")
            if self._turn():
                waits = 0
            elif opens_at is None or turn > opens_at:
                # Before that no time passes, so a message that a killed process took stays hidden until then.
                waits += 1
                if waits > MOST_WAITS or not self._wait():
                    break

    def _wait(self):
        """Let time pass and a version tick. False: nothing waits for anything."""
        if not self.unfinished() and not any(self.depths().values()):
            return False
        self._pass_time(self.random.choice([HIDDEN, 900]))
        self._act("tick")
        return True

    def _pass_time(self, seconds):
        self.clock.advance(seconds=seconds)
        self.storage.wait(seconds)

    def _turn(self):
        """Have a version do one thing that waits. False: nothing waits now."""
        kinds = ["submissions", "work-00", "results", "signals"]
        self.random.shuffle(kinds)
        return any(self._take(kind) for kind in kinds)

    def _take(self, kind):
        if kind in {"results", "signals"}:
            return self._take_letters(kind)
        queue = self._observer.queues.get_queue_client(kind)
        found = list(queue.receive_messages(max_messages=self.random.randint(1, 3), visibility_timeout=HIDDEN))
        for message in found:
            if message.dequeue_count > MOST_DELIVERIES:
                self._observer.queues.get_queue_client(f"{kind}-poison").send_message(message.content, time_to_live=-1)
                queue.delete_message(message)
            elif self._act("deliver", kind, message.id, message.content.encode(), message.dequeue_count):
                queue.delete_message(message)
        return bool(found)

    def _take_letters(self, kind):
        now = self.clock.now().timestamp()
        found = self.bus.waiting(kind, now)[: self.random.randint(1, 6)]
        self.bus.deliver(found)
        dead = [one for one in found if one.deliveries > MOST_ON_THE_BUS]
        for one in dead:
            self._act("bury", one.body.encode())
        alive = [one for one in found if one not in dead]
        if kind == "signals":
            done = True
            for one in alive:
                if one.kind == "release":
                    done = self._act("release", one.subject, one.body) and done
        else:
            done = not alive or self._act(
                "settle", [(one.body.encode(), one.id, one.deliveries, one.looks) for one in alive]
            )
        with suppress(ServiceBusError):
            self.bus.complete(dead + (alive if done else []))
        return bool(found)

    def _act(self, verb, *given):
        """Have a version act. False: it raised, or was killed, and its message comes again."""
        name = self.random.choice(self.names)
        self.turns[name] += 1
        if self.kills and not self.random.randrange(KILLED):
            self._end(name)
            plan = Plan.of(self.random.randint(1, 12), self.random.choice(["kill_before", "kill_after"]))
            plan.note = self.journal.note
        else:
            plan = None
        process = self._process(name, plan)
        try:
            _VERBS[verb](process, *given)
        except KilledError:
            self.killed += 1
            self._processes.pop(name, None)
            return verb in {"submit", "open", "tick"} and self._act(verb, *given)
        except Exception as error:  # noqa: BLE001 - the host knows no kinds of failure
            self.journal.note("raised", f"{name}: {verb}", f"{type(error).__name__}: {error}")
            return False
        finally:
            if plan is not None:
                self._processes.pop(name, None)
        return True

    def _process(self, name, plan):
        if plan is None and name in self._processes:
            return self._processes[name]
        find, driver = self.versions[name]
        given = plan or Plan(note=self.journal.note)
        process = driver(
            find,
            storage=self.storage.connection_string,
            transport=lambda: self.storage.transport(given),
            bus_client=partial(BusClient, self.bus, given),
            clock=self.clock,
        )
        if plan is None:
            self._processes[name] = process
        return process

    def _end(self, name=None):
        for one in [name] if name else list(self._processes):
            if (process := self._processes.pop(one, None)) is not None:
                process.close()
        if name is None:
            # A release of before leaves jobs that it ends among those under way, until a night of this one.
            self.clock.advance(days=1, minutes=1)
            Stores(self.observer(), clock=self.clock).ledger.tidy_list()

    def raised(self):
        """Return what was raised, by version and act."""
        return self.journal.entries("raised")


_VERBS = {
    "submit": lambda process, job, found, gate, is_inline: process.submit(job, found, gate=gate, is_inline=is_inline),
    "open": lambda process: process.open_gate(GATE),
    "tick": lambda process: process.tick(),
    "deliver": lambda process, *given: process.deliver(*given),
    "settle": lambda process, letters: process.settle(letters),
    "bury": lambda process, body: process.bury(body),
    "release": lambda process, subject, body: process.release(subject, json.loads(body)["sluice"]),
}
