"""The input of a page, and its result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from capabilities.console.session import Person
from capabilities.console.snapshot import Snapshot
from shared.app import Stores
from shared.capability import NeedWords
from shared.clock import Clock
from shared.operating import ActForecaster, ParkedOperator
from shared.settings import Settings
from shared.usage import Prices, load

#: Seconds for which a forecast takes the fleet that another page has read.
_FLEET_AGE: Final = 10.0


def leave_to_tick(_replay: str) -> None:
    """Do nothing: the pointer to the replay leads the tick to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An installation, as all pages see it."""

    stores: Stores
    snapshot: Snapshot
    clock: Clock
    prices: Prices
    work_queues: int = 1
    #: The rooms beside the common one. None: the settings name none.
    rooms: Sequence[str] | None = None
    #: The pages of each capability that is on, and by its name what they read.
    pages: tuple[Any, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    #: The kinds of needs that capabilities note.
    needs: Mapping[str, NeedWords] = field(default_factory=dict)
    #: Goes on with a replay in a thread of its own, where the console may. In the app, the tick does.
    step_replay: Callable[[str], object] = leave_to_tick

    def build_forecaster(self) -> ActForecaster:
        """Return the forecaster of acts. All tabs share its reading of the fleet."""
        return replace(self.stores.act_forecaster, fleet=lambda: self.snapshot.fleet(_FLEET_AGE))

    def build_operator(self) -> ParkedOperator:
        """Return the operator that discards, and requests and stops replays. It waits for nothing."""
        return self.stores.build_parked_operator(lambda _seconds: None)


def build_view(stores: Stores, settings: Settings, *, step_replay: Callable[[str], object] = leave_to_tick) -> View:
    """Return the view of an installation with these settings."""
    found = [(one, one.load(one.capability.pages)) for one in settings.capabilities if one.capability.pages]
    return View(
        stores=stores,
        snapshot=Snapshot(stores, work_queues=settings.work_queues, rooms=settings.rooms),
        clock=stores.clock,
        prices=load(),
        work_queues=settings.work_queues,
        rooms=settings.rooms or None,
        pages=tuple(pages for _, pages in found),
        parts={one.name: pages.open(stores, one.choice) for one, pages in found},
        needs={need.kind: need for one in settings.capabilities for need in one.capability.needs},
        step_replay=step_replay,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request for a page."""

    view: View
    person: Person
    #: The part of the address behind the question mark. Values of one name are lines.
    query: Mapping[str, str]
    #: Whether a page that is shown looks again. Else a person has just opened it.
    is_look: bool
    now: datetime
    #: Makes the address of a page of the console.
    link: Callable[..., str]
    #: What was posted. Empty for a page that is read.
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Download:
    """The result of a page that is a file: its pieces are read from storage while they are sent."""

    name: str
    pieces: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The result of a page: a template and its values."""

    title: str
    #: Of the navigation: the page that this one belongs to.
    section: str
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    #: Whether the page looks again while it is shown.
    looks_again: bool = False
    #: Whether it does so at least each ten seconds: work goes on, and a step of it is news at once.
    is_busy: bool = False
    has_plot: bool = False
    #: The template of the forms below. They stay as they are while the page looks again.
    acts: str = ""
    #: Whether they stand above the page: below, many rows would hide them.
    acts_first: bool = False
    #: The template of a part in the middle of the page, which by itself is no news to a page that looks again.
    inset: str = ""
    #: A sentence above the page: why an act was not done.
    notice: str = ""
