"""An operator's rules: the tasks wanted for an observation, by the first rule whose conditions all hold.

`Observation` is the state of the work queues and of the processes at a decision. `rules_text` reads rules from the text
that an operator writes. Nothing here makes a request.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class RuleInput(StrEnum):
    """An input of a rule's conditions."""

    #: Messages on the work queues, including those in work: the only count that storage gives.
    DEPTH = "depth"
    #: Seconds that the oldest visible message has waited.
    OLDEST_AGE = "oldest_age"
    #: Messages put per second, and messages done per second, since the previous sample.
    ARRIVAL_RATE = "arrival_rate"
    DRAIN_RATE = "drain_rate"
    #: Cores that the busiest process uses. The Python code of one process can use 1 at most.
    CPU = "cpu"
    #: Seconds of work for one message.
    LATENCY = "latency"
    #: Stored bytes that a worker reads for one chunk, on average.
    PAYLOAD_BYTES = "payload_bytes"
    #: Hour of the day, UTC.
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One sample of all inputs. None is unknown, and no condition holds for an unknown input."""

    depth: int
    hour: int = 0
    oldest_age: float | None = None
    arrival_rate: float | None = None
    drain_rate: float | None = None
    cpu: float | None = None
    latency: float | None = None
    payload_bytes: float | None = None
    #: Messages in work over all processes that report; not for rules.
    in_flight: int | None = None

    def value(self, metric: RuleInput) -> float | None:
        """Return the value of this input, or None if it is unknown."""
        value: float | None = getattr(self, metric.value)
        return value


#: The upper bound of tasks in rules. More work than that needs more than one installation.
MOST_TASKS: Final = 2000


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds while the input is known, not below `at_least`, and below `below`."""

    metric: RuleInput
    at_least: float | None = None
    below: float | None = None

    def holds(self, observation: Observation) -> bool:
        """Return True if it holds for this observation."""
        value = observation.value(self.metric)
        if value is None:
            return False
        reached = self.at_least is None or value >= self.at_least
        under = self.below is None or value < self.below
        # From 22 to 6 goes over midnight: it holds on both sides.
        return (reached or under) if self.is_over_midnight else (reached and under)

    @property
    def is_over_midnight(self) -> bool:
        """True for a span of hours that begins in the evening and ends in the morning."""
        both = self.at_least is not None and self.below is not None
        return both and self.metric is RuleInput.HOUR and (self.at_least or 0) > (self.below or 0)


class Asked(NamedTuple):
    """The tasks that a rule wants, and why."""

    tasks: int
    why: str


@dataclass(frozen=True, slots=True)
class RuleStep:
    """A fixed number of tasks."""

    tasks: int

    def ask(self, _observation: Observation) -> Asked:
        """Return the number."""
        return Asked(self.tasks, f"{self.tasks} tasks")


@dataclass(frozen=True, slots=True)
class Ratio:
    """One task per so many messages."""

    messages_each: int

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks for this depth."""
        tasks = math.ceil(observation.depth / self.messages_each)
        return Asked(tasks, f"one task for {self.messages_each} of {observation.depth} messages")


@dataclass(frozen=True, slots=True)
class TimeToDrain:
    """As many tasks as empty the queues within this many seconds, by the seconds per message and the arrival rate."""

    seconds: float
    #: Tasks while the seconds per message are unknown.
    until_known: int

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks for this depth and for the messages that arrive meanwhile."""
        if observation.latency is None:
            return Asked(self.until_known, f"{self.until_known} tasks until it is known what a message takes")
        rate = observation.depth / self.seconds + (observation.arrival_rate or 0.0)
        return Asked(
            math.ceil(rate * observation.latency),
            f"{rate:.3g} messages/s at {observation.latency:.3g} s each, to be empty within {self.seconds:g} s",
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, its conditions, and the tasks that it wants when they hold."""

    name: str
    conditions: tuple[Condition, ...]
    target: RuleStep | Ratio | TimeToDrain

    def applies(self, observation: Observation) -> bool:
        """Return True if every condition holds."""
        return all(condition.holds(observation) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Rules:
    """An operator's rules, in their order."""

    version: int
    rules: tuple[Rule, ...]
    #: The bounds of every rule. `least` counts only while there is work.
    most: int = 100
    least: int = 1

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks that may run: 0 for empty queues. No process starts more than one per message."""
        if observation.depth <= 0:
            return Asked(0, "the queues are empty")
        rule = next((candidate for candidate in self.rules if candidate.applies(observation)), None)
        asked = rule.target.ask(observation) if rule else Asked(self.least, "no rule applies")
        tasks = min(max(asked.tasks, self.least), self.most)
        name = f"rule {rule.name!r}: " if rule else ""
        bounds = "" if tasks == asked.tasks else f", within the rules' bounds {tasks}"
        return Asked(tasks, f"{name}{asked.why}{bounds}")


#: The depths from which the built-in rules allow more.
SOME, MUCH = 100, 1000
#: The rules in force if no operator wrote any: the published steps by depth. docs/concurrency.md compares them with others.
BUILT_IN: Final = Rules(
    0,
    (
        Rule("little", (Condition(RuleInput.DEPTH, below=SOME),), RuleStep(10)),
        Rule("some", (Condition(RuleInput.DEPTH, at_least=SOME, below=MUCH),), RuleStep(50)),
        Rule("much", (Condition(RuleInput.DEPTH, at_least=MUCH),), RuleStep(100)),
    ),
)
