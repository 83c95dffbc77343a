"""Reads an operator's rules, and reports every mistake with its line. Makes no request.

version: 7
most: 100
rules:
  - name: night
    when: {hour: {at_least: 22, below: 6}, depth: {at_least: 1000}}
    empty_within: 30m
    until_known: 50
  - name: otherwise
    tasks: 10
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from shared.concurrency.placed_text import Place, Problem, Value, read
from shared.concurrency.rules import MOST_TASKS, Condition, Ratio, Rule, RuleInput, Rules, RuleStep, TimeToDrain
from shared.errors import RulesRefusedError

_UNITS: Final[Mapping[str, float]] = {"s": 1, "m": 60, "h": 3600}
_TARGETS: Final = ("tasks", "messages_each", "empty_within")
#: The largest values of `messages_each` and of an hour.
_MOST_EACH, _HOURS = 1_000_000, 24
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Lint:
    """The reading of a text: its rules, or else its problems. Notes are hints, and refuse nothing."""

    rules: Rules | None
    problems: list[Problem]
    notes: list[Problem]


def lint(text: str) -> Lint:
    """Read the rules of a text, or else find all its problems at once."""
    root, problems = read(text)
    reader = _Reader(problems)
    rules = reader.rules(root) if root is not None else None
    if root is None and not problems:
        reader.complain(1, "it is empty: write `version` and `rules`")
    found = sorted(reader.problems)
    return Lint(None if found else rules, found, _notes(rules) if rules and not found else [])


def parse(text: str) -> Rules:
    """Read the rules of a text, or raise RulesRefusedError with all its problems."""
    linted = lint(text)
    if linted.rules is None:
        raise RulesRefusedError("; ".join(map(str, linted.problems)))
    return linted.rules


@dataclass(slots=True)
class _Reader:
    problems: list[Problem] = field(default_factory=list)

    def complain(self, line: int, problem: str) -> None:
        self.problems.append(Problem(line, problem))

    def rules(self, root: Place) -> Rules:
        fields = self._fields(root, {"version", "rules", "most", "least"}, "the document")
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
        return Rules(version, tuple(rule for _, rule in rules), most, least)

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


def _notes(rules: Rules) -> list[Problem]:
    if any(not rule.conditions for rule in rules.rules):
        return []
    return [
        Problem(
            0,
            f"if no rule applies, {rules.least} tasks run (`least`): to choose another number, add a last rule without "
            "`when`",
        )
    ]
