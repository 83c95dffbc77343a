"""How many tasks an operator wants for what is observed: the first rule whose conditions all hold; pure.

`rules_text` reads them from the text that an operator writes.

What is known of the work queues and of those who work on them when a decision is made; plain data.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class RuleInput(StrEnum):
    """What a rule may look at."""

    #: Messages on the work queues, those in work included: the only count that storage gives.
    DEPTH = "depth"
    #: Seconds that the oldest visible message has waited.
    OLDEST_AGE = "oldest_age"
    #: Messages put a second, and messages done a second, since the sample before.
    ARRIVAL_RATE = "arrival_rate"
    DRAIN_RATE = "drain_rate"
    #: Cores that the busiest process uses: 1 is all that Python code of one process can have.
    CPU = "cpu"
    #: Seconds of work for one message.
    LATENCY = "latency"
    #: Hour of the day, UTC.
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look; None where nothing is known, which no condition of a rule is met by."""

    depth: int
    hour: int = 0
    oldest_age: float | None = None
    arrival_rate: float | None = None
    drain_rate: float | None = None
    cpu: float | None = None
    latency: float | None = None
    #: Messages in work in every process that tells; not for rules.
    in_flight: int | None = None

    def value(self, metric: RuleInput) -> float | None:
        """Return what is known of this metric."""
        found: float | None = getattr(self, metric.value)
        return found


#: The tasks that rules may ask for at most; beyond it one installation is not the answer.
MOST_TASKS: Final = 2000


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds while the metric is known, not below `at_least`, and below `below`."""

    metric: RuleInput
    at_least: float | None = None
    below: float | None = None

    def holds(self, observation: Observation) -> bool:
        """Whether it holds now."""
        value = observation.value(self.metric)
        if value is None:
            return False
        reached = self.at_least is None or value >= self.at_least
        under = self.below is None or value < self.below
        # From 22 to 6 goes over midnight: it holds on either side.
        return (reached or under) if self.is_over_midnight else (reached and under)

    @property
    def is_over_midnight(self) -> bool:
        """Whether it is a span of hours that begins in the evening and ends in the morning."""
        both = self.at_least is not None and self.below is not None
        return both and self.metric is RuleInput.HOUR and (self.at_least or 0) > (self.below or 0)


class Asked(NamedTuple):
    """What a rule asks for, and how it came to it."""

    tasks: int
    why: str


@dataclass(frozen=True, slots=True)
class RuleStep:
    """So many tasks."""

    tasks: int

    def ask(self, _observation: Observation) -> Asked:
        """Return the number."""
        return Asked(self.tasks, f"{self.tasks} tasks")


@dataclass(frozen=True, slots=True)
class Ratio:
    """One task for so many messages."""

    messages_each: int

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks for what lies there."""
        tasks = math.ceil(observation.depth / self.messages_each)
        return Asked(tasks, f"one task for {self.messages_each} of {observation.depth} messages")


@dataclass(frozen=True, slots=True)
class TimeToDrain:
    """As many tasks as empty the queues within this many seconds, by what a message takes and what still arrives."""

    seconds: float
    #: Tasks until it is known what a message takes.
    until_known: int

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks for what lies there and what comes meanwhile."""
        if observation.latency is None:
            return Asked(self.until_known, f"{self.until_known} tasks until it is known what a message takes")
        rate = observation.depth / self.seconds + (observation.arrival_rate or 0.0)
        return Asked(
            math.ceil(rate * observation.latency),
            f"{rate:.3g} messages/s at {observation.latency:.3g} s each, to be empty within {self.seconds:g} s",
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A name, when it applies, and what it then asks for."""

    name: str
    conditions: tuple[Condition, ...]
    target: RuleStep | Ratio | TimeToDrain

    def applies(self, observation: Observation) -> bool:
        """Whether every condition holds."""
        return all(condition.holds(observation) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Rules:
    """An operator's rules, in their order."""

    version: int
    rules: tuple[Rule, ...]
    #: No rule asks for more, and with work there never are fewer.
    most: int = 100
    least: int = 1

    def ask(self, observation: Observation) -> Asked:
        """Return the tasks wanted: none for empty queues, never more than there are messages."""
        if observation.depth <= 0:
            return Asked(0, "the queues are empty")
        rule = next((one for one in self.rules if one.applies(observation)), None)
        asked = rule.target.ask(observation) if rule else Asked(self.least, "no rule applies")
        tasks = min(max(asked.tasks, self.least), self.most, observation.depth)
        name = f"rule {rule.name!r}: " if rule else ""
        return Asked(tasks, f"{name}{asked.why}{_limit_text(tasks, asked.tasks, observation.depth)}")


def _limit_text(tasks: int, asked: int, depth: int) -> str:
    if tasks == asked:
        return ""
    return f", with {depth} messages there" if tasks == depth else f", within the rules' bounds {tasks}"


#: What applies where no operator wrote rules: a task for each message, so that only the bounds hold it back.
BUILT_IN: Final = Rules(0, (Rule("built-in", (), Ratio(1)),))
