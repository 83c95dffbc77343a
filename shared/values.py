"""Reads the values of settings from a mapping, and reports each fault instead of raising it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TypeVar

from shared.azure import Setting, find_connection, missing

_Choice = TypeVar("_Choice", bound=StrEnum)


def problems_of(setting: Setting, environ: Mapping[str, str]) -> Sequence[str]:
    """Return what is wrong with a setting before its value is read: it is missing, or its connection has faults."""
    if setting.is_connection:
        found = find_connection(setting.name, environ)
        return found.problems if found.problems or found.connection else (missing(setting),)
    return () if setting.default is not None or environ.get(setting.name, "").strip() else (missing(setting),)


@dataclass(frozen=True, slots=True)
class SettingReader:
    """Reads values by the name of their setting. A value with a fault is reported, and a legal one stands in for it."""

    settings: Sequence[Setting]
    environ: Mapping[str, str]
    report: Callable[[str], None]

    def text(self, name: str) -> str:
        """Return the text of a setting, or its default."""
        default = next(setting.default for setting in self.settings if setting.name == name)
        return self.environ.get(name) or default or ""

    def whole_number(self, name: str, lowest: int, highest: int) -> int:
        """Return a whole number within the bounds."""
        found = self._number(name, lowest, highest, "a whole number")
        return lowest if found is None else found

    def whole_number_or(self, word: str, name: str, lowest: int, highest: int) -> int | None:
        """Return a whole number within the bounds, or None for the word."""
        is_word = self.text(name).strip().lower() == word
        return None if is_word else self._number(name, lowest, highest, f"{word} or a whole number")

    def _number(self, name: str, lowest: int, highest: int, expected: str) -> int | None:
        text = self.text(name)
        if text.strip().isascii() and text.strip().isdigit() and lowest <= int(text) <= highest:
            return int(text)
        self.report(f"{name} is {text!r}, expected {expected} from {lowest} to {highest}")
        return None

    def one_of(self, name: str, choices: type[_Choice]) -> _Choice:
        """Return one of the choices."""
        text = self.text(name).strip()
        with suppress(ValueError):
            return choices(text)
        self.report(f"{name} is {text!r}, expected one of {', '.join(choices)}")
        return next(iter(choices))

    def amount_or_none(self, name: str) -> Decimal | None:
        """Return an amount above 0, or None for the text `none`."""
        text = self.text(name).strip()
        if text.lower() == "none":
            return None
        with suppress(InvalidOperation):
            amount = Decimal(text)
            if amount.is_finite() and amount > 0:
                return amount
        self.report(f"{name} is {text!r}, expected an amount above 0, such as 2.50, or none")
        return None
