"""Others' ways of running dequeue tasks, for the simulator; each gets for free what it would have to find out.

All of them take the same shares of what waits as Sluice's tasks do, start without delay, and pay nothing for whoever
scales them, except where that is the algorithm itself.
"""

import math
import random

from shared.azure.meter import Cause
from shared.concurrency.rules import Observation

#: Tasks that any of them may have.
MOST = 100


class Poller:
    """A task that asks again and again; once it rests for as long as it may, its polls are counted, not played."""

    def __init__(self, owner, simulation, first=0.0):
        self.owner, self.simulation = owner, simulation
        self.empties, self.next_at = 0, simulation.now + first
        simulation.grow()

    def poll(self):
        """Receive, and work or rest."""
        taken = self.simulation.receive(self.simulation.share(self.simulation.tasks))
        if taken:
            was_idle, self.empties = self.empties > 0, 0
            if was_idle:
                self.owner.detected(self.simulation)
            self.simulation.work(taken, self.poll)
            return
        self.empties += 1
        rest = self.owner.rest(self)
        if rest is None:
            self.simulation.tasks -= 1
            return
        self.next_at = self.simulation.now + rest
        if rest < self.owner.longest:
            self.simulation.at(self.next_at, self.poll)
        else:
            self.owner.sleepers.append(self)

    def catch_up(self, moment):
        """Count the polls that found nothing until a moment."""
        polls = max(0, math.ceil((moment - self.next_at) / self.owner.longest))
        self.simulation.count("queue", Cause.IDLE, polls * self.owner.requests_a_poll)
        self.next_at += polls * self.owner.longest


def back_off(empties, longest, chance):
    """Return Mizonov's random exponential rest."""
    return min(longest, (2 ** min(empties, 30) - 1) * chance.uniform(0.08, 0.12))


class Polling:
    """What polling strategies share."""

    longest, requests_a_poll = 1.0, 1

    def __init__(self):
        self.sleepers, self.random = [], random.Random(7)

    def on_arrival(self, simulation, messages, coming):
        """Let everybody who rests poll when its rest is over."""
        sleepers, self.sleepers = self.sleepers, []
        for sleeper in sleepers:
            sleeper.catch_up(simulation.now)
            simulation.at(sleeper.next_at, sleeper.poll)

    def on_end(self, simulation):
        """Count the polls until the end."""
        for sleeper in self.sleepers:
            sleeper.catch_up(simulation.now)

    def detected(self, simulation):
        """Hear that a task found work after it had rested."""

    def rest(self, task):
        """Return the rest after an empty poll; None ends the task."""
        return self.longest

    def add(self, simulation, number, spread=0.0):
        """Start tasks."""
        for _ in range(number):
            task = Poller(self, simulation, self.random.uniform(0, spread) if spread else 0.0)
            simulation.at(task.next_at, task.poll)


class Fixed(Polling):
    """So many tasks, each of which asks once a second while it finds nothing."""

    def __init__(self, tasks):
        super().__init__()
        self.tasks, self.name = tasks, f"fixed 1 s polling, {tasks} tasks"

    def start(self, simulation):
        """Start all of them, at different moments of a second."""
        self.add(simulation, self.tasks, spread=1.0)


class Seed(Polling):
    """Mizonov's listener: 10, 50 or 100 tasks by depth, back-off to a second, one task that stays."""

    requests_a_poll = 2
    name = "the step rules, polling"

    def __init__(self, rules):
        super().__init__()
        self.rules = rules

    def start(self, simulation):
        """Start the one that stays."""
        self.add(simulation, 1)

    def detected(self, simulation):
        """Start what the depth calls for."""
        simulation.count("queue", Cause.USEFUL)
        asked = self.rules.ask(Observation(depth=simulation.depth + 1)).tasks
        self.add(simulation, max(0, asked - simulation.tasks))

    def rest(self, task):
        """Back off; every empty poll asks for the depth as well. Whoever rests longest ends, but for the last."""
        task.simulation.count("queue", Cause.IDLE)
        delay = back_off(task.empties, self.longest, self.random)
        return None if delay >= self.longest and task.simulation.tasks > 1 else delay


class Keda(Polling):
    """A ratio: every 30 s one replica for 5 messages, gone 300 s after the last of them; none while idle."""

    longest = 30.0
    name = "ratio of 5 messages (KEDA's defaults)"
    every, cooldown, each = 30.0, 300.0, 5

    def __init__(self):
        super().__init__()
        self.busy_at = float("-inf")

    def start(self, simulation):
        """Begin to look."""
        simulation.at(self.every, lambda: self.look(simulation))

    def look(self, simulation):
        """Ask for the depth, and scale."""
        simulation.count("queue", Cause.SWEEP)
        if simulation.depth:
            self.busy_at = simulation.now
            wanted = min(MOST, math.ceil(simulation.depth / self.each))
            self.add(simulation, max(0, wanted - simulation.tasks))
        elif simulation.now - self.busy_at >= self.cooldown:
            # By then all of them rest for as long as they may.
            self.on_end(simulation)
            simulation.tasks -= len(self.sleepers)
            self.sleepers = []
        simulation.at(simulation.now + self.every, lambda: self.look(simulation))

    def rest(self, task):
        """Back off to half a minute."""
        return back_off(task.empties, self.longest, self.random)


class Instance:
    """One instance of the Functions host: sixteen at a time, the next while eight or fewer are left."""

    batch, threshold, shortest, longest = 16, 8, 0.1, 60.0

    def __init__(self, owner, simulation):
        self.owner, self.simulation, self.in_flight, self.empties = owner, simulation, 0, 0
        self.is_asleep, self.is_full, self.next_at = False, False, simulation.now
        simulation.grow(self.batch + self.threshold)

    def poll(self):
        """Receive a batch and run all of it at once."""
        self.is_asleep = False
        taken = self.simulation.receive(self.batch)
        if not taken:
            self.empties += 1
            rest = self.rest()
            self.next_at, self.is_asleep = self.simulation.now + rest, rest >= self.longest
            if not self.is_asleep:
                self.simulation.at(self.next_at, self.poll)
            return
        self.empties, self.in_flight = 0, self.in_flight + len(taken)
        for message in taken:
            self.simulation.work([message], self.done)
        self.is_full = self.in_flight > self.threshold
        if not self.is_full:
            self.simulation.at(self.simulation.now, self.poll)

    def done(self):
        """Count one less, and fetch more when that is few enough."""
        self.in_flight -= 1
        if self.is_full and self.in_flight <= self.threshold:
            self.is_full = False
            self.poll()

    def rest(self):
        """Return the host's own series: 0.1 s, doubled, up to a minute."""
        if self.empties <= 1:
            return self.shortest
        random_part = self.owner.random.uniform(0.8, 1.2) * 2 ** min(self.empties - 2, 20) * self.shortest
        return min(self.longest, self.shortest + random_part)

    def catch_up(self, moment):
        """Count the polls that found nothing until a moment."""
        polls = max(0, math.ceil((moment - self.next_at) / self.longest)) if self.is_asleep else 0
        self.simulation.count("queue", Cause.IDLE, polls)
        self.next_at += polls * self.longest


class Host:
    """The Functions host's queue trigger: one instance always, up to five by the target-based scaler."""

    name = "the Functions host's queue trigger"
    every, most, at_a_time, idle_for = 10.0, 5, 4, 120.0

    def __init__(self):
        self.instances, self.random, self.busy_at = [], random.Random(7), 0.0

    def start(self, simulation):
        """Start one instance, and the scaler."""
        self.add(simulation)
        simulation.at(self.every, lambda: self.scale(simulation))

    def add(self, simulation):
        """Start an instance."""
        instance = Instance(self, simulation)
        self.instances.append(instance)
        simulation.at(simulation.now, instance.poll)

    def scale(self, simulation):
        """Follow the depth, four instances at a time; back to one after two idle minutes."""
        if simulation.depth:
            self.busy_at = simulation.now
            wanted = min(self.most, math.ceil(simulation.depth / 24), len(self.instances) + self.at_a_time)
            for _ in range(wanted - len(self.instances)):
                self.add(simulation)
        elif simulation.now - self.busy_at >= self.idle_for:
            for instance in self.instances[1:]:
                if instance.is_asleep:
                    instance.catch_up(simulation.now)
                    simulation.tasks -= instance.batch + instance.threshold
                    self.instances.remove(instance)
        simulation.at(simulation.now + self.every, lambda: self.scale(simulation))

    def on_arrival(self, simulation, messages, coming):
        """Let everybody who rests poll when its rest is over."""
        for instance in self.instances:
            if instance.is_asleep:
                instance.catch_up(simulation.now)
                instance.is_asleep = False
                simulation.at(instance.next_at, instance.poll)

    def on_end(self, simulation):
        """Count the polls until the end."""
        for instance in self.instances:
            instance.catch_up(simulation.now)
