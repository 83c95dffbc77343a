"""A day without work by trigger and by push, side by side: requests per day, and the price of thirty such days."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Self

from shared.usage import DAY, Asker, Installation, Prices, Who, idle_day, price_idle_month


@dataclass(frozen=True, slots=True)
class Line:
    """The requests of one origin and purpose, or a sum of such, and their price: by the mode's name."""

    who: str
    what: str
    requests: Mapping[str, int]
    amounts: Mapping[str, Decimal]
    is_proven: bool = True
    is_sum: bool = False

    def __str__(self) -> str:
        """Return its words in a table."""
        said = f"{self.who}: {self.what}" if self.who else self.what
        return said if self.is_proven else f"{said} (assumed)"


@dataclass(frozen=True, slots=True)
class IdleModes:
    """One installation in each of its modes."""

    by_trigger: Installation
    by_push: Installation
    #: The installation in words.
    in_force: str

    @classmethod
    def of(cls, installation: Installation) -> Self:
        """Take an installation in each mode."""
        said = [
            "push" if installation.is_push else "trigger",
            f"{installation.work_queues} work queues",
            f"{installation.rooms} rooms",
            *(one.capability.name for one in installation.capabilities),
        ]
        return cls(replace(installation, is_push=False), replace(installation, is_push=True), ", ".join(said))

    @property
    def named(self) -> Mapping[str, Installation]:
        """Both, by the mode's name."""
        return {"trigger": self.by_trigger, "push": self.by_push}

    def known(self) -> Mapping[str, int]:
        """Add up the known requests per day of each mode."""
        return {mode: sum(each.a_day for each in idle_day(one) if each.is_proven) for mode, one in self.named.items()}

    def formulas(self) -> Iterator[str]:
        """Yield how the polls of each mode are reckoned."""
        for mode, one in self.named.items():
            yield (
                f"By {mode} an instance polls each idle queue that has a trigger every {one.polling_seconds:g} s: "
                f"{DAY:,} / {one.polling_seconds:g} = {one.polls_a_day:,} requests a day for {', '.join(one.polled)}."
            )

    def lines(self, prices: Prices) -> Iterator[Line]:
        """Yield a line for each origin and purpose that any mode has, then the sums."""
        days = {mode: idle_day(one) for mode, one in self.named.items()}
        for key in dict.fromkeys((one.who, one.what) for askers in days.values() for one in askers):
            yield _line(
                {mode: [one for one in day if (one.who, one.what) == key] for mode, day in days.items()}, prices
            )
        for what, wanted in _SUMS.items():
            found = {mode: [one for one in day if wanted(one)] for mode, day in days.items()}
            yield replace(_line(found, prices), who="", what=what, is_proven=True, is_sum=True)


def _line(found: Mapping[str, list[Asker]], prices: Prices) -> Line:
    some = next(one for askers in found.values() for one in askers)
    return Line(
        some.who,
        some.what,
        {mode: sum(one.a_day for one in askers) for mode, askers in found.items()},
        {mode: sum((price_idle_month(one, prices) for one in askers), Decimal()) for mode, askers in found.items()},
        is_proven=some.is_proven,
    )


_SUMS: Final[Mapping[str, Callable[[Asker], bool]]] = {
    "the app in all": lambda one: one.who is Who.APP,
    "polls of idle queues": lambda one: one.is_poll,
    "known in all": lambda one: one.is_proven,
}
