"""A small aggregate of tests: a counter with a limit."""

import json
from dataclasses import dataclass, replace

from shared.processes import Verdict
from tests.eventsourcing.builders import event


@dataclass(frozen=True)
class Add:
    """Add so many, each as an event of its own."""

    id: str
    number: int = 1
    outside: str = ""
    content: str = ""
    text: str = ""


class Counter:
    """Counts up to a limit."""

    name = "counter"

    def __init__(self, format_=1):
        self.format = format_
        self.folds = 0

    def initial(self):
        """Return an empty counter."""
        return {"count": 0, "by": []}

    def fold(self, state, happened):
        """Count, in place."""
        self.folds += 1
        state["count"] += 1
        state["by"].append(happened.command)
        assert state["count"] == happened.version, "an event was folded twice, or not at all"
        return state

    def pack(self, state):
        """Return the state as JSON."""
        return json.dumps(state).encode()

    def unpack(self, packed):
        """Return the packed state."""
        return json.loads(packed)


class RefusedError(Exception):
    """The decision about a command failed."""


def decider(limit=10**9):
    """Return the decision about commands: a command that came before or is over the limit changes nothing."""

    def decide(state, command):
        if command.number < 0:
            raise RefusedError(command.id)
        if command.id in state["by"] or state["count"] + command.number > limit:
            return Verdict()
        events = tuple(replace(event(), command=command.id, body={"text": command.text}) for _ in range(command.number))
        return Verdict(events, {command.outside: command.content} if command.outside else {})

    return decide
