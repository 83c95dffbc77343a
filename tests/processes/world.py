"""A process with its stores and its bus: homes in memory, the agenda on Azurite, and a step at which it dies."""

import json
from datetime import timedelta

from azure.servicebus.exceptions import ServiceBusError

from shared.azure import Pushback
from shared.errors import StorageUnavailableError
from shared.processes import BusPublisher, Follower, Outgoing, Runtime
from tests.processes.errands import NOON, ErrandRoutes, Errands


class Death(BaseException):
    """The end of the process."""


class HandClock:
    """A clock that the test moves."""

    def __init__(self):
        self.moment = NOON

    def now(self):
        """Return the moment."""
        return self.moment

    def monotonic(self):
        """Return the same in seconds."""
        return self.moment.timestamp()

    def of_reply(self, named):
        """Return the moment."""
        return self.moment


class Steps:
    """Counts the steps that leave the process, and ends it, or fails, at one of them."""

    def __init__(self):
        self.names, self.at, self.when, self.how = [], None, None, Death

    def take(self, name, act):
        """Make a step: die before its effect, after it, or never."""
        self.names.append(name)
        is_here = name == self.at
        if is_here and self.when == "before":
            self.at = None
            raise self.how
        done = act()
        if is_here:
            self.at = None
            raise self.how
        return done


class Stepping:
    """Any store, of which some methods are steps."""

    def __init__(self, inner, steps, *names):
        self._inner, self._steps, self._names = inner, steps, names

    def __getattr__(self, name):
        act = getattr(self._inner, name)
        if name not in self._names:
            return act
        return lambda *given, **named: self._steps.take(name, lambda: act(*given, **named))


class Bus:
    """Keeps what is sent."""

    def __init__(self):
        self.messages, self.is_down = [], False

    def send(self, to, messages):
        """Keep the messages."""
        if self.is_down:
            raise ServiceBusError("down")
        self.messages += [(to.name, json.loads(message.body)["sluice"]) for message in messages]

    def commands(self):
        """Return the kinds of the commands that came, in order."""
        return [one["kind"] for _, body in self.messages if body["kind"] == "commands" for one in body["commands"]]

    def command_ids(self):
        """Return the ids of the commands that came."""
        return {one["id"] for _, body in self.messages if body["kind"] == "commands" for one in body["commands"]}

    def ranges(self):
        """Return the ranges of events that came, in order."""
        streams = [one for _, body in self.messages if body["kind"] == "events" for one in body["streams"]]
        return [(one["home"], one["first"], one["last"]) for one in streams]


class World:
    """One installation, in which processes start and end."""

    def __init__(self, homes, agenda):
        self.clock, self.steps, self.bus, self.hints = HandClock(), Steps(), Bus(), []
        #: The due times of the notes that somebody is reminded of.
        self.reminders = []
        self.plain_homes, self.plain_agenda = homes, agenda
        self.homes = Stepping(homes, self.steps, "load", "commit", "read_head")
        self.agenda = Stepping(agenda, self.steps, "write", "remove")
        self.restart()

    def restart(self):
        """Begin a new process, which remembers nothing."""
        publisher = BusPublisher(Stepping(self.bus, self.steps, "send"), Pushback(self.clock))
        self.outgoing = Outgoing(publisher, ErrandRoutes())
        self.runtime = Runtime(
            Errands(),
            "errand",
            self.homes,
            self.agenda,
            self.outgoing,
            clock=self.clock,
            remove=self.agenda.remove,
            hint=lambda shard, due: self.hints.append((shard, due)),
            remind=lambda due: self.steps.take("remind", lambda: self.reminders.append(due)),
        )
        #: Why each home was last found stuck, or "".
        self.stuck = {}
        self.follower = Follower(
            self.agenda,
            self.homes,
            self.outgoing,
            self.clock,
            handle=self.runtime.handle,
            resume=self.resume,
            note_stuck=self.stuck.__setitem__,
        )
        self.resumed = []

    def resume(self, home, head):
        """Remember who was to go on."""
        self.resumed.append((home, head.version))

    def handle(self, *cases):
        """Handle the cases."""
        return self.runtime.handle(cases)

    def dies(self, at, when, act):
        """Run until the process ends at a step, and begin another. Return whether it ended there."""
        self.steps.at, self.steps.when, self.steps.how = at, when, Death
        try:
            act()
        except Death:
            self.restart()
            return True
        finally:
            self.steps.at = None
        return False

    def fails(self, at, when="before"):
        """Have one step fail as storage does."""
        self.steps.at, self.steps.when, self.steps.how = at, when, StorageUnavailableError

    def tick(self, **later):
        """Let time pass, and follow every shard in a new process."""
        self.clock.moment += timedelta(**later)
        self.restart()
        for shard in range(4):
            self.follower.follow(shard, float("inf"))

    def rows(self, **later):
        """Return the keys of all rows that are due by then."""
        until = self.clock.now() + timedelta(**later)
        found = [self.plain_agenda.read_due(shard, until) for shard in range(4)]
        return [row.row_key for due in found for row in (*due.notes, *due.timeouts)]
