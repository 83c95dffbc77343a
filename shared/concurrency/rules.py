"""An operator's rules: the tasks wanted for an observation, by the first rule whose conditions all hold.

`Observation` is the state of the work queues and of the processes at a decision. `parse` reads rules from the text
that an operator writes. Nothing here makes a request.

The rules in the container `settings`: one blob for the rules in force, and one for each version there ever was.

Reads an operator's rules, and reports every mistake with its line. Makes no request.

version: 7
most: 100
rules:
  - name: night
    when: {hour: {at_least: 22, below: 6}, depth: {at_least: 1000}}
    empty_within: 30m
    until_known: 50
  - name: otherwise
    tasks: 10

The built-in rules as an operator would write them, to begin from. docs/rules.sample.yaml is this text.
"""

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import BlobStore, expecting_an_answer
from shared.concurrency.placed_text import Place, Problem, Value, read
from shared.concurrency.shares import URGENT_AHEAD, WEIGHT, RoomShare, Shares
from shared.errors import ActStaleError, RulesRefusedError
from shared.grammar import MOST_ROOMS, is_room


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
    #: How the rooms share the work.
    shares: Shares = field(default_factory=Shares)

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


_UNITS: Final[Mapping[str, float]] = {"s": 1, "m": 60, "h": 3600}
_TARGETS: Final = ("tasks", "messages_each", "empty_within")
#: The largest values of `messages_each`, of an hour, of a room's weight, and of `most` of its chunks.
_MOST_EACH, _HOURS, _HEAVIEST, _MOST_CHUNKS = 1_000_000, 24, 1_000, 1_000_000
#: The largest part of a room's share that its urgent jobs may take ahead, in percent.
_MOST_URGENT: Final = 50
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Lint:
    """The reading of a text: its rules, or else its problems. Notes are hints, and refuse nothing."""

    rules: Rules | None
    problems: list[Problem]
    notes: list[Problem]


def lint(text: str, rooms: Collection[str] | None = None) -> Lint:
    """Read the rules of a text, or else find all its problems at once.

    `rooms`: those of the installation. None: they are unknown here, so each name of a room is accepted.
    """
    root, problems = read(text)
    reader = _Reader(problems, rooms)
    rules = reader.rules(root) if root is not None else None
    if root is None and not problems:
        reader.complain(1, "it is empty: write `version` and `rules`")
    found = sorted(reader.problems)
    return Lint(None if found else rules, found, _notes(rules, rooms) if rules and not found else [])


def parse(text: str, rooms: Collection[str] | None = None) -> Rules:
    """Read the rules of a text, or raise RulesRefusedError with all its problems. `rooms`: see `lint`."""
    linted = lint(text, rooms)
    if linted.rules is None:
        raise RulesRefusedError("; ".join(map(str, linted.problems)))
    return linted.rules


@dataclass(slots=True)
class _Reader:
    problems: list[Problem]
    #: The rooms of the installation beside the common one. None: unknown.
    rooms_known: Collection[str] | None

    def complain(self, line: int, problem: str) -> None:
        self.problems.append(Problem(line, problem))

    def rules(self, root: Place) -> Rules:
        fields = self._fields(root, {"version", "rules", "most", "least", "shares"}, "the document")
        most = self._number(fields, "most", root.line, (1, MOST_TASKS), 100)
        least = self._number(fields, "least", root.line, (0, MOST_TASKS), 1)
        if least > most:
            self.complain(
                fields["least"].line if "least" in fields else root.line, f"least {least} is above most {most}"
            )
        version = self._number(fields, "version", root.line, (1, 1_000_000_000), None)
        listed = fields.get("rules", Place([], root.line))
        items = listed.value if isinstance(listed.value, list) else []
        if not items:
            self.complain(listed.line, "`rules` must be a list with at least one rule")
        rules = [(item.line, self._rule(item, most)) for item in items]
        self._compare(rules)
        shares = self._shares(fields["shares"]) if "shares" in fields else Shares()
        return Rules(version, tuple(rule for _, rule in rules), most, least, shares)

    def _shares(self, place: Place) -> Shares:
        fields, urgent, rooms = self._fields(place, {"urgent", "rooms"}, "`shares`"), URGENT_AHEAD, dict[str, Place]()
        if "urgent" in fields:
            percent = self._read(fields["urgent"], "urgent", _percent, "a share such as 25%")
            if percent is not None and percent > _MOST_URGENT:
                self.complain(fields["urgent"].line, f"`urgent` is {percent:g}%, expected 0% to {_MOST_URGENT}%")
            urgent = (percent or 0.0) / 100
        if "rooms" in fields:
            rooms = self._rooms_by_name(fields["rooms"])
        return Shares(urgent, {room: self._room_share(share, room) for room, share in rooms.items()})

    def _rooms_by_name(self, place: Place) -> dict[str, Place]:
        if not isinstance(place.value, dict):
            self.complain(place.line, "`rooms` must be names of rooms with their shares")
            return {}
        if len(place.value) > MOST_ROOMS:
            self.complain(place.line, f"`rooms` names {len(place.value)} rooms, expected at most {MOST_ROOMS}")
        for room, share in place.value.items():
            # The common room has the empty name.
            if room and not is_room(room):
                self.complain(share.line, f"`rooms` has {room[:40]!r}, which cannot be the name of a room")
            elif room and self.rooms_known is not None and room not in self.rooms_known:
                near = difflib.get_close_matches(room, self.rooms_known, 1)
                hint = f"did you mean {near[0]!r}?" if near else "SLUICE_ROOMS does not name it"
                self.complain(share.line, f"`rooms` has no {room!r}: {hint}")
        return place.value

    def _room_share(self, place: Place, room: str) -> RoomShare:
        fields = self._fields(place, {"weight", "most"}, f"room {room[:40]!r}")
        weight = self._number(fields, "weight", place.line, (1, _HEAVIEST), WEIGHT)
        most = self._number(fields, "most", place.line, (1, _MOST_CHUNKS), None) if "most" in fields else None
        return RoomShare(weight, most)

    def _rule(self, item: Place, most: int) -> Rule:
        fields = self._fields(item, {"name", "when", "until_known", *_TARGETS}, "a rule")
        name = fields["name"].value if "name" in fields else ""
        if not isinstance(name, str) or not 1 <= len(name) <= 60:
            self.complain(item.line, "a rule needs a `name` of 1 to 60 characters: decisions give it as their reason")
            name = "?"
        given = [target for target in _TARGETS if target in fields]
        if len(given) != 1:
            self.complain(
                item.line, f"rule {name!r} must have exactly one of {', '.join(_TARGETS)}; it has {len(given)} of them"
            )
        if "until_known" in fields and "empty_within" not in given:
            self.complain(fields["until_known"].line, "`until_known` belongs to `empty_within`")
        return Rule(
            name, self._conditions(fields), self._target(fields, given[0] if given else "tasks", item.line, most)
        )

    def _target(self, fields: dict[str, Place], target: str, line: int, most: int) -> RuleStep | Ratio | TimeToDrain:
        if target == "tasks":
            return RuleStep(self._number(fields, "tasks", line, (0, most), 1))
        if target == "messages_each":
            return Ratio(self._number(fields, "messages_each", line, (1, _MOST_EACH), 1))
        seconds = self._read(fields["empty_within"], "empty_within", _duration, "a time such as 90s, 10m or 1h")
        if seconds is not None and seconds < 1:
            self.complain(fields["empty_within"].line, f"`empty_within` is {seconds:g} s, the least is 1 s")
        return TimeToDrain(seconds or 1.0, self._number(fields, "until_known", line, (1, most), None))

    def _conditions(self, fields: dict[str, Place]) -> tuple[Condition, ...]:
        if "when" not in fields:
            return ()
        metrics = self._fields(fields["when"], {metric.value for metric in RuleInput}, "`when`")
        return tuple(self._condition(RuleInput(name), place) for name, place in metrics.items())

    def _condition(self, metric: RuleInput, place: Place) -> Condition:
        bounds = self._fields(place, {"at_least", "below"}, f"`{metric}`")
        read_bound = _duration if metric in {RuleInput.OLDEST_AGE, RuleInput.LATENCY} else _float
        wanted = "a time such as 90s, 10m or 1h" if read_bound is _duration else "a number"
        low, high = (
            self._read(bounds[name], name, read_bound, wanted) if name in bounds else None
            for name in ("at_least", "below")
        )
        condition = Condition(metric, low, high)
        if not bounds:
            self.complain(place.line, f"`{metric}` needs `at_least` or `below`")
        elif metric is RuleInput.HOUR and any(bound is not None and not 0 <= bound <= _HOURS for bound in (low, high)):
            self.complain(place.line, "`hour` must be from 0 to 24, UTC")
        elif low is not None and high is not None and low >= high and not condition.is_over_midnight:
            self.complain(place.line, f"`{metric}` is never at least {low:g} and below {high:g}")
        return condition

    def _compare(self, rules: list[tuple[int, Rule]]) -> None:
        for number, (line, rule) in enumerate(rules):
            for _, before in rules[:number]:
                if before.name == rule.name:
                    self.complain(line, f"another rule has the name {rule.name!r}: give each its own")
                elif _covers(before, rule):
                    self.complain(line, f"rule {rule.name!r} is never reached: {before.name!r} applies before it")
                    break

    def _fields(self, place: Place, known: Collection[str], owner: str) -> dict[str, Place]:
        if not isinstance(place.value, dict):
            self.complain(place.line, f"{owner} must be names with values: {', '.join(sorted(known))}")
            return {}
        for name in place.value.keys() - known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(sorted(known))}"
            self.complain(place.value[name].line, f"{owner} has no {name!r}: {hint}")
        return {name: place.value[name] for name in place.value if name in known}

    def _number(
        self, fields: dict[str, Place], name: str, line: int, bounds: tuple[int, int], default: int | None
    ) -> int:
        least, most = bounds
        if name not in fields:
            if default is None:
                self.complain(line, f"`{name}` is missing")
            return least if default is None else default
        found = self._read(fields[name], name, _whole, "a whole number")
        if found is not None and not least <= found <= most:
            self.complain(fields[name].line, f"`{name}` is {found}, expected {least} to {most}")
        return least if found is None else found

    def _read(self, place: Place, name: str, reading: Callable[[str], _Read], wanted: str) -> _Read | None:
        try:
            if isinstance(place.value, str):
                return reading(place.value)
        except ValueError:
            pass
        self.complain(place.line, f"`{name}` is {_show_value(place.value)}, expected {wanted}")
        return None


def _show_value(value: Value) -> str:
    return repr(value[:40]) if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"


def _whole(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 12):
        raise ValueError(text)
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e12:
        raise ValueError(text)
    return number


def _duration(text: str) -> float:
    unit = text[-1:]
    return _float(text[:-1]) * _UNITS[unit] if unit in _UNITS else _float(text)


def _percent(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError(text)
    return _float(text.removesuffix("%"))


def _covers(before: Rule, rule: Rule) -> bool:
    """Return True if the earlier rule applies in every case in which the later one would."""
    return all(any(_implies(own, wide) for own in rule.conditions) for wide in before.conditions)


def _implies(narrow: Condition, wide: Condition) -> bool:
    if narrow.metric is not wide.metric or narrow.is_over_midnight or wide.is_over_midnight:
        return narrow == wide
    infinity = float("inf")
    is_low = (narrow.at_least if narrow.at_least is not None else -infinity) >= (
        wide.at_least if wide.at_least is not None else -infinity
    )
    is_high = (narrow.below if narrow.below is not None else infinity) <= (
        wide.below if wide.below is not None else infinity
    )
    return is_low and is_high


def _notes(rules: Rules, rooms: Collection[str] | None) -> list[Problem]:
    notes = []
    if all(rule.conditions for rule in rules.rules):
        notes.append(
            f"if no rule applies, {rules.least} tasks run (`least`): to choose another number, add a last rule without "
            "`when`"
        )
    if rules.shares.rooms and rooms is None:
        notes.append("the names in `rooms` were not checked, for the settings here have no SLUICE_ROOMS")
    return [Problem(0, note) for note in notes]


#: The blob in force. The versions are below it.
NAME: Final = "rules"
#: In place of an ETag: an operator has put no rules, so the built-in ones apply.
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class RulesText:
    """The content of the blob."""

    text: str
    etag: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The answer that the blob still has the ETag of the request."""


class RulesBlob:
    """The rules of one installation."""

    def __init__(self, container: ContainerClient) -> None:
        self._container, self._store = container, BlobStore(container, NAME)

    def look(self, etag: str | None) -> RulesText | Unchanged | None:
        """Read the text in force, if it has another ETag. Return None without rules. Makes one request."""
        condition: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfModified} if etag else {}
        with expecting_an_answer("read the rules of concurrency"):
            try:
                found = self._container.get_blob_client(NAME).download_blob(**condition)
                return RulesText(found.readall().decode(errors="replace"), str(found.properties.etag))
            except ResourceModifiedError:
                # The library's name for 304, which means the opposite: not modified.
                return Unchanged()
            except ResourceNotFoundError:
                return None

    def put(self, text: str, seen: str | None = None) -> Rules:
        """Put rules in force. Their version must be higher than the current one, unless they are the same text.

        `seen`: only if the rules in force have this ETag, or NONE for the built-in ones, else raise ActStaleError.

        The version's own blob is written first, and only the first writer of a number succeeds. So a number stands for
        one text. After a lost reply, the text in force shows whether the write took effect.
        """
        rules = parse(text)
        found = self._store.read()
        if found is not None and found.value == text.encode():
            return rules
        if seen is not None and seen != (found.etag if found else NONE):
            raise ActStaleError("the rules in force were changed since you saw them: nothing was done")
        current = lint(found.value.decode(errors="replace")).rules if found else None
        if current is not None and rules.version <= current.version:
            raise RulesRefusedError(
                f"the rules have version {rules.version}, those in force have version {current.version}: give them "
                f"version {current.version + 1}"
            )
        self._keep(rules.version, text)
        if self._store.try_write(text.encode(), found.etag if found else None) is None and self.text() != text:
            raise RulesRefusedError(
                f"could not put rules of version {rules.version} in force: another operator changed the rules meanwhile; "
                "check them with `sluice tune show`, then retry"
            )
        return rules

    def _keep(self, version: int, text: str) -> None:
        kept = self._store.beside(str(version))
        if kept.try_write(text.encode(), None) is None and self.text(version) != text:
            raise RulesRefusedError(f"version {version} belongs to other rules: give these a higher version")

    def text(self, version: int | None = None) -> str | None:
        """Read the text in force, or that of a version. Return None if there is no such text."""
        store = self._store if version is None else self._store.beside(str(version))
        found = store.read()
        return found.value.decode(errors="replace") if found else None


SAMPLE: Final = """\
# Rules that `sluice tune rules put` takes; docs/concurrency.md explains every word. These are the built-in rules, to begin
# from: Mizonov's steps (docs/origins.md), few tasks for little work and many for much. The first rule that applies decides.
version: 1
most: 100
rules:
  - name: little
    when: {depth: {below: 100}}
    tasks: 10
  - name: some
    when: {depth: {at_least: 100, below: 1000}}
    tasks: 50
  - name: much
    when: {depth: {at_least: 1000}}
    tasks: 100
"""
